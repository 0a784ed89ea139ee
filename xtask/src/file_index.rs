//! `docs/files.md`: every source file with the first sentence that it says of itself, the names of its constants, and its tests. A
//! search for a word finds the file, also where no row of docs/where.md has it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::step;

const PAGE: &str = "docs/files.md";

/// A sentence below this length is followed by the next one.
const TITLE_BYTES: usize = 60;

const HEAD: &str = "\
# Every file, in a sentence

For developers: search this page for a word. It has every file in Rust, JavaScript and C. Each says of itself what it is about;
after that come its constants ([constants.md](constants.md) has their values) and what each of its tests shows. Paths are as in
[where.md](where.md), which goes from questions to files and has the shorter answers. `cargo xtask reference` writes this page from the files; do not edit it.
";

/// Writes the page.
pub fn write() -> Result<(), String> {
    write_page(PAGE, &page()?)
}

fn page() -> Result<String, String> {
    sections(HEAD, |folder, file, text| line(&name(folder, file), text).unwrap_or_default())
}

/// Writes a page that is made of the files.
pub(crate) fn write_page(page: &str, text: &str) -> Result<(), String> {
    let path = step::root().join(page);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// A page with this head, and a section for each folder, with the lines that are made of each file: of its folder, its path and
/// its text.
pub(crate) fn sections(
    head: &str,
    lines_of: impl Fn(&Path, &Path, &str) -> String,
) -> Result<String, String> {
    let mut page = String::from(head);
    for folder in folders()? {
        let mut lines = String::new();
        for file in files(&folder)? {
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            lines.push_str(&lines_of(&folder, &file, &text));
        }
        let shown = folder.strip_prefix(step::root()).unwrap_or(&folder);
        if !lines.is_empty() {
            let _ = write!(page, "\n## {}\n\n{lines}", shown.display());
        }
    }
    Ok(page)
}

/// The folders with code: each crate, then the others. The crates are those on the disk, so that none can be forgotten.
pub(crate) fn folders() -> Result<Vec<PathBuf>, String> {
    let mut folders = Vec::new();
    for folder in entries(&step::root().join("crates"))? {
        match folder.join("Cargo.toml").exists() {
            true => folders.push(folder),
            false => folders.extend(entries(&folder)?),
        }
    }
    folders.extend(
        ["web", "bench", "fuzz/src", "fuzz/targets", "examples", "xtask"].map(|name| step::root().join(name)),
    );
    Ok(folders)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let read = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = read.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// All source files below a folder: those of `src`, then those of tests.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for path in entries(folder)? {
        let is_skipped =
            ["target", "node_modules", "runs", "seeds", "data"].iter().any(|name| path.ends_with(name));
        let is_source =
            path.extension().is_some_and(|end| end == "rs" || end == "js" || end == "c" || end == "h");
        match path.is_dir() {
            true if is_skipped => {}
            true => found.extend(files(&path)?),
            false if is_source => found.push(path),
            false => {}
        }
    }
    Ok(found)
}

/// The name of a file as in docs/where.md: `hub/lane.rs`, `hub/tests/rows.rs`.
pub(crate) fn name(folder: &Path, file: &Path) -> String {
    if !folder.starts_with(step::root().join("crates")) {
        return file.strip_prefix(step::root()).unwrap_or(file).display().to_string();
    }
    let base = folder.file_name().unwrap_or_default().to_string_lossy();
    let rest = file.strip_prefix(folder).unwrap_or(file).display().to_string();
    format!("{base}/{}", rest.strip_prefix("src/").unwrap_or(&rest))
}

/// The line of a file; `None`: it says nothing of itself.
fn line(name: &str, text: &str) -> Option<String> {
    let about = first_sentence(text)?;
    let mut line = format!("- `{name}`: {about}");
    let constants = constants(text);
    if !constants.is_empty() {
        let _ = write!(line, " Constants: {}.", constants.join(", "));
    }
    let tests = tests(text);
    if !tests.is_empty() {
        let _ = write!(line, " Tests: {}.", tests.join("; "));
    }
    line.push('\n');
    Some(line)
}

/// The first sentence or two of the comment with which a file begins.
fn first_sentence(text: &str) -> Option<String> {
    let comment = |line: &&str| {
        line.starts_with("//!")
            || line.starts_with("// ")
            || line.starts_with(" * ")
            || line.starts_with("/* ")
    };
    let words: Vec<&str> = text
        .lines()
        .skip_while(|line| line.starts_with("#!") || *line == "/*")
        .take_while(comment)
        .map(|line| line.trim_start_matches(['/', '!', '*', ' ']).trim_end_matches("*/").trim())
        .take_while(|line| !line.is_empty())
        .collect();
    let comment = words.join(" ");
    let ends = comment.match_indices(". ").map(|(at, _)| at + 1).filter(|&at| is_end(&comment[..at]));
    // A short sentence is a title; the next one says more.
    let end = ends.into_iter().find(|&at| at >= TITLE_BYTES).unwrap_or(comment.len());
    (end > 0).then(|| comment[..end].to_owned())
}

/// Whether a full stop ends a sentence: that of an abbreviation does not.
fn is_end(before: &str) -> bool {
    !["e.g.", "i.e.", "cf.", "vs."].iter().any(|short| before.ends_with(short))
}

/// The names of the constants of a file, without those of its tests.
fn constants(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let name = |line: &str| {
        let rest = line.trim_start_matches("pub").trim_start_matches("(crate)").trim_start_matches("(super)");
        let rest = rest.trim_start().strip_prefix("const ")?;
        let (name, _) = rest.split_once(':')?;
        let is_name =
            name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        (is_name && name.len() > 1).then(|| format!("`{name}`"))
    };
    code.lines().filter(|line| !line.starts_with(' ')).filter_map(name).collect()
}

/// What the tests of a file show: their names as sentences.
fn tests(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(rest) =
            line.strip_prefix("fn ").or_else(|| line.strip_prefix("async fn ")).filter(|_| is_test)
        {
            found.extend(rest.split('(').next().map(|name| name.replace('_', " ")));
            is_test = false;
        }
    }
    found
}

#[test]
fn the_page_of_all_files_is_up_to_date() {
    let stands = fs::read_to_string(step::root().join(PAGE)).unwrap_or_default();
    assert!(stands == page().unwrap(), "{PAGE} is older than the files: `cargo xtask reference` writes it");
}

#[test]
fn every_source_file_of_the_workspace_is_in_a_listed_folder() {
    let root = step::root();
    let listed = folders().unwrap();
    let is_hidden = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with('.');
    let tops = entries(root).unwrap().into_iter().filter(|path| path.is_dir() && !is_hidden(path));
    let mut forgotten: Vec<PathBuf> =
        tops.filter(|top| !top.ends_with("target")).flat_map(|top| files(&top).unwrap()).collect();
    forgotten.retain(|file| !listed.iter().any(|folder| file.starts_with(folder)));
    assert!(forgotten.is_empty(), "docs/files.md and docs/constants.md leave these out: {forgotten:#?}");
}

#[test]
fn every_file_of_a_crate_says_what_it_is_about() {
    let mut silent = Vec::new();
    for folder in folders().unwrap() {
        for file in
            files(&folder).unwrap().iter().filter(|file| file.extension().is_some_and(|end| end == "rs"))
        {
            if first_sentence(&fs::read_to_string(file).unwrap()).is_none() {
                silent.push(file.display().to_string());
            }
        }
    }
    assert!(silent.is_empty(), "these files begin without a sentence about themselves: {silent:#?}");
}

#[test]
fn a_line_has_sentence_constants_and_tests() {
    let text =
        "//! Counts rows. Knows no clock.\n\npub const ROWS_MAX: usize = 9;\n\n#[test]\nfn it_counts() {}\n";
    assert_eq!(
        line("hub/tests/rows.rs", text).unwrap(),
        "- `hub/tests/rows.rs`: Counts rows. Knows no clock. Constants: `ROWS_MAX`. Tests: it counts.\n"
    );
    assert_eq!(line("a", "fn main() {}\n"), None);
    assert_eq!(first_sentence("/*\n * Counts in C.\n *\n *   count FILE\n */\n").unwrap(), "Counts in C.");
    assert_eq!(
        first_sentence(
            "// Draws all of the charts that\n// a person wants to see, e.g. lines of it. More.\n"
        )
        .unwrap(),
        "Draws all of the charts that a person wants to see, e.g. lines of it."
    );
}
