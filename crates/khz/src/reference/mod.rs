//! The reference pages in docs/, made from the tables that the program itself is made from, and the test that they are up to
//! date. `cargo xtask reference` writes them.

#![allow(clippy::unwrap_used)]

mod configuration;
mod http;
mod limits;
mod lists;
mod metrics;
mod rates;

use std::fmt::Write;
use std::path::Path;

/// Set by `cargo xtask reference`: the pages are written instead of compared.
const WRITE: &str = "KHZ_REFERENCE";

#[test]
fn the_reference_pages_are_what_the_tables_say() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|above| above.join("docs").is_dir());
    let docs = docs.unwrap().join("docs");
    let pages = [
        ("configuration.md", configuration::page()),
        ("metrics.md", metrics::page()),
        ("rates.md", rates::page()),
        ("http.md", http::page(&std::fs::read_to_string(docs.join("openapi.json")).unwrap())),
    ];
    for (name, page) in pages {
        let path = docs.join(name);
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = found.lines().zip(page.lines()).position(|(one, other)| one != other);
        let line = differs.unwrap_or_else(|| found.lines().count().min(page.lines().count())) + 1;
        assert!(found == page, "docs/{name}:{line} is out of date; `cargo xtask reference` writes it again");
    }
}

/// A Markdown table. In its cells a bar would end the cell.
fn table<const N: usize>(titles: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut text = format!("| {} |\n|{}\n", titles.join(" | "), "---|".repeat(N));
    for row in rows {
        let cells = row.map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// Text as code; nothing for nothing.
fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}
