//! What the documents say of the repository is so: files that they name exist, each limit stands in a page, unsafe code is
//! where CONTRIBUTING.md allows it, and modules of khz import what the table in its `main.rs` allows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::{file_index, step};

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
    let ours = [
        "crates/",
        "xtask/",
        "bench/",
        "docs/",
        "examples/",
        "packaging/",
        "fixtures/",
        "web/",
        "fuzz/",
        "java/",
    ];
    words.filter(move |word| {
        ours.iter().any(|start| word.starts_with(start)) && !word.contains([' ', '*', '{', '<', '#', '$'])
    })
}

/// The pages, without the changelog, which names files of older versions.
fn pages() -> impl Iterator<Item = PathBuf> {
    let root = step::root();
    let mut pages: Vec<PathBuf> = fs::read_dir(root).unwrap().flatten().map(|entry| entry.path()).collect();
    files_below(&root.join("docs"), &mut pages);
    let is_page =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "md") && !path.ends_with("CHANGELOG.md");
    pages.into_iter().filter(is_page)
}

/// The folder of each crate, by the crate's short name: `hub` is in `crates/cluster/hub`.
fn crates() -> BTreeMap<String, PathBuf> {
    let folders_of = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let groups = folders_of(step::root().join("crates"));
    let found = groups.flat_map(|group| folders_of(group.clone()).chain([group]));
    let found = found.filter(|folder| folder.join("Cargo.toml").exists());
    found.map(|folder| (folder.file_name().unwrap().to_string_lossy().into_owned(), folder)).collect()
}

#[test]
fn every_source_file_that_a_page_names_by_its_crate_exists() {
    let crates = crates();
    let mut missing = Vec::new();
    for page in pages() {
        let text = text(&page);
        let words = text.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs"));
        for word in words.filter(|word| !word.contains([' ', '*', '{', '<']) && !word.contains("NAME")) {
            let Some((name, rest)) = word.split_once('/') else { continue };
            let Some(folder) = crates.get(name) else { continue };
            if !folder.join("src").join(rest).exists() && !folder.join(rest).exists() {
                missing.push(format!("{}: {word}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// A file or folder that docs/where.md names: below the root, or below a crate and its `src`.
fn place(word: &str, crates: &BTreeMap<String, PathBuf>) -> Option<PathBuf> {
    let of_crate = word.split_once('/').and_then(|(name, rest)| Some((crates.get(name)?, rest)));
    let places = of_crate.map(|(folder, rest)| [folder.join("src").join(rest), folder.join(rest)]);
    places.into_iter().flatten().chain([step::root().join(word)]).find(|path| path.exists())
}

#[test]
fn every_file_and_name_in_the_index_exists() {
    let (crates, page) = (crates(), text(&step::root().join("docs/where.md")));
    let cells =
        |line: &str| Some(line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | ")?.1.to_owned());
    let rows: Vec<String> = page.lines().filter_map(cells).filter(|cell| cell.contains('`')).collect();
    assert!(rows.len() > 500, "the index has only {} rows", rows.len());
    let mut missing = Vec::new();
    for row in rows {
        let words = row.split('`').skip(1).step_by(2);
        let (paths, names): (Vec<&str>, Vec<&str>) =
            words.partition(|word| word.contains('/') || place(word, &crates).is_some());
        let found: Vec<Option<PathBuf>> = paths.iter().map(|path| place(path, &crates)).collect();
        let absent = paths.iter().zip(&found).filter(|(_, place)| place.is_none());
        missing.extend(absent.map(|(path, _)| format!("{path} in: {row}")));
        let texts: String = found.iter().flatten().map(|path| text(path)).collect();
        let unknown = names.iter().filter(|name| !texts.contains(**name));
        missing.extend(unknown.map(|name| format!("no file has {name}: {row}")));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn a_row_of_the_index_asks_one_thing() {
    let page = text(&step::root().join("docs/where.md"));
    let rows = page.lines().filter_map(|line| Some(line.strip_prefix("| ")?.split_once(" | ")?.0));
    let several: Vec<&str> = rows.filter(|question| question.contains("; ")).collect();
    assert!(several.is_empty(), "make a row of each part of these: {several:#?}");
}

/// Lines from which a folder's `mod.rs` does more than name the folder's parts.
const LINES_OF_SUBSTANCE: usize = 100;

/// Files that need no row in docs/where.md: a crate's root, the short root of a folder, and the helpers of tests.
fn needs_no_row(name: &str, text: &str) -> bool {
    let ends = |names: &[&str]| names.iter().any(|end| name.ends_with(end));
    let is_helper = name.contains("/tests/") && name.matches('/').count() > 2 || name.ends_with("/tests.rs");
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let is_short = code.lines().count() < LINES_OF_SUBSTANCE;
    let of_tests = ["/simulation/", "/storm/", "/examples/"].iter().any(|part| name.contains(part));
    is_helper
        || ends(&["/lib.rs", "/main.rs", "/build.rs", "/error.rs"])
        || ends(&["/mod.rs"]) && is_short
        || of_tests
}

#[test]
fn every_file_of_a_crate_has_a_row_in_the_index() {
    let page = text(&step::root().join("docs/where.md"));
    let named: BTreeSet<&str> = page.split('`').skip(1).step_by(2).collect();
    let mut missing = Vec::new();
    for folder in file_index::folders().unwrap() {
        for file in file_index::files(&folder).unwrap() {
            let name = file_index::name(&folder, &file);
            // A row for a folder is enough for what only tests and benchmarks use.
            let is_of_tests = ["/tests/", "/targets/", "bench/"].iter().any(|part| name.contains(part));
            let above = Path::new(&name).ancestors().take(if is_of_tests { usize::MAX } else { 1 });
            let is_named = above.into_iter().any(|above| named.contains(above.to_str().unwrap()));
            let is_source = name.ends_with(".rs") || name.ends_with(".js");
            if is_source && !is_named && !needs_no_row(&name, &text(&file)) {
                missing.push(name);
            }
        }
    }
    assert!(missing.is_empty(), "docs/where.md has no row for these: {missing:#?}");
}

#[test]
fn every_file_with_golden_bytes_has_a_row_that_says_so() {
    let page = text(&step::root().join("docs/where.md"));
    let rows: String = page.lines().filter(|line| line.starts_with("| golden bytes, ")).collect();
    let mut files = 0;
    for folder in file_index::folders().unwrap() {
        for file in file_index::files(&folder).unwrap() {
            let code = text(&file);
            let tests = code.lines().filter_map(|line| line.trim_start().strip_prefix("fn the_bytes_of_"));
            let is_kept = tests.into_iter().any(|name| name.contains("_stay"));
            let is_golden = is_kept || code.contains(r#"include_bytes!("golden."#);
            let name = file_index::name(&folder, &file);
            if is_golden && !name.starts_with("xtask") {
                files += 1;
                assert!(rows.contains(&format!("`{name}`")), "no row about golden bytes names {name}");
            }
        }
    }
    assert!(files > 6, "only {files} files have golden bytes");
}

#[test]
fn every_file_that_a_page_names_exists() {
    let root = step::root();
    let mut missing = Vec::new();
    for page in pages() {
        let text = text(&page);
        let is_made_up = |name: &str| name.contains("NAME") || name.contains("NODE") || name.contains("DATE");
        let absent =
            named(&text).filter(|name| !is_made_up(name) && !root.join(name.trim_end_matches('/')).exists());
        missing.extend(absent.map(|name| format!("{}: {name}", page.display())));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The constants that a page names: words in backquotes such as `STREAMS_MAX`.
fn named_constants(page: &str) -> impl Iterator<Item = &str> {
    // Environment variables, and names of the kernel.
    const OTHERS: [&str; 6] = ["KHZ_", "LC_", "O_", "SO_", "RTM_", "FOPEN_"];
    let words = page.split('`').skip(1).step_by(2);
    words.filter(|word| {
        let is_name =
            word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        let is_ours = !OTHERS.iter().any(|begin| word.starts_with(begin));
        is_name && word.contains('_') && is_ours
    })
}

#[test]
fn every_constant_that_a_page_names_exists() {
    let mut files = Vec::new();
    for folder in ["crates", "bench/src", "xtask/src", "web", "java", "examples"] {
        files_below(&step::root().join(folder), &mut files);
    }
    let is_source = |path: &&PathBuf| {
        path.extension().is_some_and(|end| ["rs", "js", "py", "h", "java"].iter().any(|e| end == *e))
    };
    let code: String = files.iter().filter(is_source).map(|path| text(path)).collect();
    let words: BTreeSet<&str> = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let mut missing = Vec::new();
    // The pages that are made of the code are compared with it by their own tests.
    for page in pages().filter(|page| !page.ends_with("files.md") && !page.ends_with("constants.md")) {
        let text = text(&page);
        let absent = named_constants(&text).filter(|name| !words.contains(name));
        missing.extend(absent.map(|name| format!("{}: {name}", page.display())));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The public constants of a `limits.rs`.
fn limits_of(code: &str) -> impl Iterator<Item = &str> {
    let lines = code.lines().map(str::trim_start);
    lines.filter_map(|line| line.strip_prefix("pub const ")?.split_once(':')).map(|(name, _)| name)
}

#[test]
fn every_limit_stands_in_a_page_that_says_what_happens_beyond_it() {
    let pages: String = pages()
        .filter(|page| !page.ends_with("constants.md") && !page.ends_with("files.md"))
        .map(|page| text(&page))
        .collect();
    // Two crates may have limits of one name: then the pages name it twice.
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for word in pages.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        *named.entry(word).or_default() += 1;
    }
    let mut files = Vec::new();
    files_below(&step::root().join("crates"), &mut files);
    files.retain(|path| path.ends_with("src/limits.rs"));
    assert!(files.len() > 5, "{files:?}");
    let mut missing = Vec::new();
    for path in files {
        let code = text(&path);
        for name in limits_of(&code) {
            let left = named.get_mut(name).filter(|left| **left > 0);
            match left {
                Some(left) => *left -= 1,
                None => missing.push(format!("{}: {name}", path.display())),
            }
        }
    }
    assert!(missing.is_empty(), "docs/limits.md has no row for these: {missing:#?}");
}

/// The anchor of a heading: lower case, blanks as `-`, no other marks.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || ['-', '_'].contains(c)).collect()
}

#[test]
fn every_link_to_a_heading_of_a_page_leads_somewhere() {
    let mut wrong = Vec::new();
    for page in pages() {
        let links = text(&page);
        let links = links.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for (file, heading) in links.filter_map(|link| link.split_once('#')) {
            if file.contains("://") {
                continue;
            }
            let other = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let other = text(&other);
            let headings = other.lines().filter(|line| line.starts_with('#'));
            let mut anchors = headings.map(|line| anchor(line.trim_start_matches('#').trim()));
            if !anchors.any(|known| known == heading) {
                wrong.push(format!("{}: {file}#{heading}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_page_is_in_the_list_of_pages() {
    let list = text(&step::root().join("docs/README.md"));
    let mut files = Vec::new();
    files_below(&step::root().join("docs"), &mut files);
    let is_page =
        |path: &&PathBuf| path.extension().is_some_and(|end| end == "md") && !path.ends_with("README.md");
    for page in files.iter().filter(is_page) {
        let name = page.file_name().unwrap().to_string_lossy();
        assert!(list.contains(&format!("]({name})")), "docs/README.md does not name {name}");
    }
}

#[test]
fn fuzz_targets_are_in_the_manifest_and_in_the_readme() {
    let fuzz = step::root().join("fuzz");
    let mut files = Vec::new();
    files_below(&fuzz.join("targets"), &mut files);
    let targets: BTreeSet<String> =
        files.iter().map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let manifest = text(&fuzz.join("Cargo.toml"));
    let listed = manifest.split("[[bin]]").skip(1).filter_map(|entry| entry.split('"').nth(1));
    assert_eq!(targets, listed.map(str::to_owned).collect(), "fuzz/targets and fuzz/Cargo.toml");
    let readme = text(&fuzz.join("README.md"));
    let cells = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let described: BTreeSet<String> =
        cells.flat_map(|cell| cell.split('`').step_by(2)).map(str::to_owned).collect();
    let missing: Vec<&String> = targets.iter().filter(|name| !described.contains(*name)).collect();
    assert!(missing.is_empty(), "fuzz/README.md has no row for {missing:?}");
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

#[test]
fn crates_forbid_unsafe_code_or_deny_it_where_some_files_have_it() {
    let crates = step::root().join("crates");
    let page = text(&step::root().join("CONTRIBUTING.md"));
    let (_, section) = page.split_once("## Unsafe code").unwrap();
    let rows: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix("| `")).collect();
    let mut files = Vec::new();
    files_below(&crates, &mut files);
    let is_root = |path: &&PathBuf| path.ends_with("src/lib.rs") || path.ends_with("khz/src/main.rs");
    let roots: Vec<&PathBuf> = files.iter().filter(is_root).collect();
    assert!(roots.len() > 20, "{roots:?}");
    for root in roots {
        let folder = root.parent().unwrap().strip_prefix(&crates).unwrap().to_str().unwrap();
        let has_some = rows.iter().any(|row| row.starts_with(folder));
        let wanted = if has_some { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
        assert!(text(root).contains(wanted), "{} has no {wanted}", root.display());
    }
}

#[test]
fn files_with_unsafe_code_say_why_safe_code_will_not_do() {
    let page = text(&step::root().join("CONTRIBUTING.md"));
    let (_, section) = page.split_once("## Unsafe code").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    for name in rows.filter(|name| name.contains("/src/")) {
        let file = text(&step::root().join("crates").join(name));
        assert!(file.contains("\n#![allow(unsafe_code, reason = \""), "{name} gives no reason");
    }
}

/// The rows of the table in the module doc of khz's `main.rs`: a folder, and the folders that it may import.
fn allowed_imports(main: &str) -> Vec<(String, BTreeSet<String>)> {
    let rows = main.lines().filter_map(|line| line.strip_prefix("//! | `")?.split_once("` | "));
    let folders = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    rows.map(|(folder, cell)| (folder.to_owned(), folders(cell))).collect()
}

/// The modules of its own crate that a text names: `crate::show::table`, `use crate::{role, show}`.
fn imports(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for after in text.split("crate::").skip(1) {
        let (names, is_list) = match after.strip_prefix('{') {
            Some(list) => (list.split('}').next().unwrap_or(list), true),
            None => (after, false),
        };
        let name =
            |text: &str| text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        match is_list {
            true => found.extend(names.split(',').map(name)),
            false => found.extend([name(names)]),
        }
    }
    found
}

#[test]
fn modules_of_khz_import_what_the_table_in_main_allows() {
    let source = step::root().join("crates/khz/src");
    let table = allowed_imports(&text(&source.join("main.rs")));
    let folders: BTreeSet<&str> = table.iter().map(|(folder, _)| folder.as_str()).collect();
    assert_eq!(folders, BTreeSet::from(["command", "config", "role", "show"]), "main.rs has no such table");
    let mut wrong = Vec::new();
    for (folder, allowed) in &table {
        let mut files = Vec::new();
        files_below(&source.join(folder), &mut files);
        for path in files {
            let mut named = imports(&text(&path));
            named.retain(|name| source.join(name).is_dir() || source.join(format!("{name}.rs")).exists());
            let others = named.into_iter().filter(|name| name != folder && !allowed.contains(name));
            wrong.extend(others.map(|name| format!("{} imports {name}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn imports_are_found_in_paths_and_in_lists() {
    let text = "use crate::role::hub;\nuse crate::{cli, show};\nlet a = crate::config::FILE;";
    assert_eq!(imports(text), BTreeSet::from(["role", "cli", "show", "config"].map(str::to_owned)));
}
