//! Checks the documents against the repository: the files that they name exist, and unsafe code is only where
//! CONTRIBUTING.md allows it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::step;

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true if path.ends_with("target") => {}
            true => files_below(&path, found),
            false => found.push(path),
        }
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Words in backquotes that are paths of this repository.
fn named(page: &str) -> impl Iterator<Item = &str> {
    let words = page.split('`').skip(1).step_by(2);
    let ours =
        ["crates/", "xtask/", "bench/", "docs/", "examples/", "packaging/", "fixtures/", "web/", "fuzz/"];
    words.filter(move |word| {
        ours.iter().any(|start| word.starts_with(start)) && !word.contains([' ', '*', '{', '<', '#', '$'])
    })
}

#[test]
fn every_file_that_a_page_names_exists() {
    let root = step::root();
    let mut pages: Vec<PathBuf> = fs::read_dir(root).unwrap().flatten().map(|entry| entry.path()).collect();
    files_below(&root.join("docs"), &mut pages);
    let pages = pages.into_iter().filter(|path| path.extension().is_some_and(|end| end == "md"));
    let mut missing = Vec::new();
    // The changelog names files of older versions.
    for page in pages.filter(|page| !page.ends_with("CHANGELOG.md")) {
        let text = text(&page);
        let is_made_up = |name: &str| name.contains("NAME") || name.contains("NODE") || name.contains("DATE");
        let absent =
            named(&text).filter(|name| !is_made_up(name) && !root.join(name.trim_end_matches('/')).exists());
        missing.extend(absent.map(|name| format!("{}: {name}", page.display())));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn unsafe_code_is_where_contributing_says() {
    let crates = step::root().join("crates");
    let page = text(&step::root().join("CONTRIBUTING.md"));
    let (_, section) = page.split_once("## Unsafe code").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let allowed: BTreeSet<String> = rows.filter(|name| name.ends_with(".rs")).map(str::to_owned).collect();
    let mut files = Vec::new();
    files_below(&crates, &mut files);
    let of_program = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "rs") && path.iter().any(|part| part == "src")
    };
    let has_unsafe = |path: &PathBuf| {
        let text = text(path);
        ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern"].iter().any(|word| text.contains(word))
    };
    let found = files.into_iter().filter(of_program).filter(has_unsafe);
    let found: BTreeSet<String> =
        found.map(|path| path.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(found, allowed);
}
