//! `docs/constants.md`: the limits and times of the code, each with its value and its reason. It lists the constants of the crates
//! and of the page that have a comment; tables, texts and pairs are left out, and so are benchmarks and chores.

use std::fmt::Write;
use std::path::Path;

use crate::file_index::{name, sections, write_page};
use crate::step;

const PAGE: &str = "docs/constants.md";

const HEAD: &str = "\
# Every limit and every time

For developers: the numbers and times among the constants of crates and page, each with its value, its file, and what its comment
says of it. Constants of tests, benchmarks and chores are not here. Search this page for a name or a word. [limits.md](limits.md) says what happens at a limit, [where.md](where.md) goes from questions to files; paths are
as there. `cargo xtask reference` writes this page from the files; do not edit it.
";

/// A constant of a file.
#[derive(Debug, PartialEq, Eq)]
struct Constant {
    name: String,
    value: String,
    /// What its comment says: its first paragraph.
    about: String,
}

/// Writes the page.
pub fn write() -> Result<(), String> {
    write_page(PAGE, &page()?)
}

fn page() -> Result<String, String> {
    sections(HEAD, |folder, file, text| {
        let mut lines = String::new();
        if has_limits(folder, file) {
            for Constant { name: constant, value, about } in constants(text) {
                let file = name(folder, file);
                let _ = writeln!(lines, "- `{constant}` = `{value}` (`{file}`): {about}");
            }
        }
        lines
    })
}

/// Whether the limits and times of a file are those of the program: of a crate or of the page, and not of tests.
fn has_limits(folder: &Path, file: &Path) -> bool {
    let shown = folder.strip_prefix(step::root()).unwrap_or(folder);
    let is_test = |part: &str| file.iter().any(|folder| folder == part);
    let is_crate = shown.starts_with("crates") && !shown.starts_with("crates/testing");
    let is_source = is_crate && file.starts_with(folder.join("src")) || shown.starts_with("web");
    is_source && !["tests", "simulation", "storm"].into_iter().any(is_test) && !file.ends_with("tests.rs")
}

/// The constants of a file that are numbers or times. One without a comment that follows another one shares its comment.
fn constants(text: &str) -> Vec<Constant> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found: Vec<Constant> = Vec::new();
    // The comment above the line, and the constant with a comment that the lines before it follow.
    let (mut comment, mut commented): (Vec<&str>, Option<(&str, String)>) = (Vec::new(), None);
    for line in code.lines() {
        let of_script = line.strip_prefix("/** ").and_then(|rest| rest.strip_suffix("*/"));
        if let Some(words) = line.strip_prefix("///").or(of_script) {
            comment.push(words.trim());
        } else if let Some((name, value)) = constant(line) {
            let paragraph: Vec<&str> =
                std::mem::take(&mut comment).into_iter().take_while(|line| !line.is_empty()).collect();
            if !paragraph.is_empty() {
                commented = Some((name, linked(&paragraph.join(" "))));
            }
            let about = match &commented {
                Some((before, text)) if *before != name => format!("with `{before}`: {text}"),
                Some((_, text)) => text.clone(),
                None => continue,
            };
            found.push(Constant { name: name.to_owned(), value, about });
        } else if !line.starts_with("#[") {
            (comment, commented) = (Vec::new(), None);
        }
    }
    found
}

/// Name and value of a constant in this line, if it is a number or a time.
fn constant(line: &str) -> Option<(&str, String)> {
    if let Some((name, value)) =
        line.trim_start_matches("export ").strip_prefix("const ").and_then(|rest| rest.split_once(" = "))
        && !name.contains(':')
    {
        // A line of JavaScript.
        let is_name =
            name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        let is_number =
            value.trim_start_matches('[').starts_with(|c: char| c.is_ascii_digit()) && value.ends_with(';');
        return (is_name && is_number).then(|| (name, value.trim_end_matches(';').to_owned()));
    }
    let rest = line.trim_start_matches("pub").trim_start_matches("(crate)").trim_start_matches("(super)");
    let (name, rest) = rest.trim_start().strip_prefix("const ")?.split_once(": ")?;
    let (kind, value) = rest.split_once(" = ")?;
    let is_number = ["u", "i", "f"].iter().any(|start| {
        kind.strip_prefix(start).is_some_and(|bits| bits == "size" || bits.parse::<u8>().is_ok_and(|n| n > 8))
    });
    let is_known = is_number || ["Nanos", "Duration", "Rate", "ByteSize"].contains(&kind);
    (is_known && line.ends_with(';')).then(|| (name, value.trim_end_matches(';').to_owned()))
}

/// Links of rustdoc as plain code: [`X`] becomes `X`.
fn linked(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`")
}

#[test]
fn the_page_of_all_constants_is_up_to_date() {
    let stands = std::fs::read_to_string(step::root().join(PAGE)).unwrap_or_default();
    assert!(stands == page().unwrap(), "{PAGE} is older than the files: `cargo xtask reference` writes it");
}

#[test]
fn constants_have_value_and_comment_and_one_beside_another_shares_it() {
    let text = "/// Rows of [`Lane`]:\n/// some seconds.\n///\n/// More.\npub const ROWS_MAX: usize = 1 << 4;\n\
        const EACH: Duration = Duration::from_secs(5);\n\nconst SILENT: u64 = 1;\nconst TOO: u64 = 1;\n/// A name.\nconst NAME: &str = \"a\";\n\
        #[cfg(test)]\n/// Not this.\nconst TRIES: u32 = 1;\n";
    let of = |name: &str, value: &str, about: &str| Constant {
        name: name.to_owned(),
        value: value.to_owned(),
        about: about.to_owned(),
    };
    let rows = of("ROWS_MAX", "1 << 4", "Rows of `Lane`: some seconds.");
    assert_eq!(
        constants(text),
        [rows, of("EACH", "Duration::from_secs(5)", "with `ROWS_MAX`: Rows of `Lane`: some seconds.")]
    );
}
