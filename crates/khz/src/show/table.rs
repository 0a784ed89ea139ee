//! Tables for people: aligned columns, cut to the width of the terminal. Control characters are replaced: the name of a disk
//! on another host must not move our cursor.

use std::borrow::Cow;

use khz_model::{Labels, printable};
use serde_json::Value;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table under construction.
pub struct Table {
    titles: Vec<(String, Side)>,
    /// The column that is cut when the table is too wide.
    elastic: usize,
    /// The column that is cut when that is not enough.
    yielding: Option<usize>,
    /// The elastic column is wrapped, not cut.
    wraps: bool,
    rows: Vec<Row>,
}

#[derive(Clone)]
enum Row {
    /// One cell a column.
    Cells(Vec<String>),
    /// The first cell, and a sentence over all other columns.
    Remark(String, String),
}

/// Between two columns.
const GAP: usize = 2;
/// The elastic column is not cut to less: less is not readable.
const ELASTIC_MIN: usize = 8;
/// A name or a place that is longer than it may be does not make the column wider than others need, or than this.
pub const CHARS_CUT: usize = 40;
/// Nor is the other one: names are told apart by their beginnings.
const YIELDING_MIN: usize = 16;

impl Table {
    /// A table with these columns, of which number `elastic` is cut when the terminal is too narrow.
    pub fn new(titles: &[(&str, Side)], elastic: usize) -> Self {
        let titles = titles.iter().map(|(title, side)| (printable(title), *side)).collect();
        Table { titles, elastic, yielding: None, wraps: false, rows: Vec::new() }
    }

    /// The same, but this column is cut, too, before others would be left out.
    pub fn yielding(self, column: usize) -> Self {
        Table { yielding: Some(column), ..self }
    }

    /// The same, but the last column is elastic and wrapped.
    pub fn wrapping(titles: &[(&str, Side)]) -> Self {
        Table { wraps: true, ..Table::new(titles, titles.len().saturating_sub(1)) }
    }

    /// Adds a row of one cell a column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(Row::Cells(cells.into_iter().map(|cell| printable(&cell)).collect()));
    }

    /// Adds a row of a name and a sentence over all other columns.
    pub fn remark(&mut self, name: String, sentence: &str) {
        self.rows.push(Row::Remark(printable(&name), printable(sentence)));
    }

    /// Adds a row of a name, and below it the labels that describe it.
    pub fn description(&mut self, name: String, labels: &Labels) {
        self.remark(name, "");
        labels.iter().for_each(|(label, value)| self.remark(format!("  {label}"), value));
    }

    /// The table as lines, at most `width` characters each where a width is given.
    pub fn render(&self, width: Option<usize>) -> String {
        let widths = self.widths(width);
        let title_cells: Vec<String> = self.titles.iter().map(|(title, _)| title.clone()).collect();
        let mut text = String::new();
        for row in std::iter::once(&Row::Cells(title_cells)).chain(&self.rows) {
            for part in self.parts(row, &widths) {
                text.push_str(&cut(&self.line(&part, &widths), width.unwrap_or(usize::MAX)));
                text.push('\n');
            }
        }
        text
    }

    /// Its width when nothing is cut.
    pub fn width(&self) -> usize {
        let widths = self.widths(None);
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
    }

    /// Each column as wide as its widest cell; only the elastic one is narrower in a narrow table.
    fn widths(&self, width: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.titles.iter().map(|(title, _)| title.chars().count()).collect();
        for row in &self.rows {
            let cells = match row {
                Row::Cells(cells) => cells.as_slice(),
                Row::Remark(name, _) => std::slice::from_ref(name),
            };
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let whole = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        if let Some(excess) = width.and_then(|width| whole.checked_sub(width)) {
            let elastic = &mut widths[self.elastic];
            let before = *elastic;
            *elastic = elastic.saturating_sub(excess).max(ELASTIC_MIN.min(*elastic));
            let rest = excess - (before - *elastic);
            if let Some(yielding) = self.yielding.and_then(|column| widths.get_mut(column)) {
                *yielding = yielding.saturating_sub(rest).max(YIELDING_MIN.min(*yielding));
            }
        }
        widths
    }

    /// The row; where its last cell wraps, further rows with the rest of that cell.
    fn parts<'a>(&self, row: &'a Row, widths: &[usize]) -> Vec<Cow<'a, Row>> {
        match row {
            Row::Cells(cells) if self.wraps => {
                let (Some(last), Some(width)) = (cells.last(), widths.last()) else {
                    return vec![Cow::Borrowed(row)];
                };
                let lines = wrapped(last, *width).into_iter().enumerate().map(|(at, text)| {
                    let others = cells[..cells.len() - 1].iter();
                    let others = others.map(|cell| if at == 0 { cell.clone() } else { String::new() });
                    Cow::Owned(Row::Cells(others.chain([text]).collect()))
                });
                lines.collect()
            }
            _ => vec![Cow::Borrowed(row)],
        }
    }

    fn line(&self, row: &Row, widths: &[usize]) -> String {
        let cell = |column: usize, text: &str| {
            let (text, width) = (cut(text, widths[column]), widths[column]);
            match self.titles[column].1 {
                Side::Left => format!("{text:<width$}"),
                Side::Right => format!("{text:>width$}"),
            }
        };
        let parts: Vec<String> = match row {
            Row::Cells(cells) => cells.iter().enumerate().map(|(column, text)| cell(column, text)).collect(),
            Row::Remark(name, sentence) => vec![cell(0, name), sentence.clone()],
        };
        parts.join(&" ".repeat(GAP)).trim_end().to_owned()
    }
}

/// `text` in at most `width` characters; `…` replaces the rest.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).take(width).collect()
}

/// Texts of a column, printable, each in at most `most` letters. One that is longer is cut to what others need, but not below [`CHARS_CUT`].
pub fn fitted(texts: impl Iterator<Item = impl AsRef<str>>, most: usize) -> Vec<String> {
    let mut texts: Vec<String> = texts.map(|text| printable(text.as_ref())).collect();
    let sizes = texts.iter().map(|text| text.chars().count()).filter(|size| *size <= most);
    let room = sizes.max().unwrap_or(0).max(CHARS_CUT.min(most));
    for text in texts.iter_mut().filter(|text| text.chars().count() > most) {
        *text = cut(text, room);
    }
    texts
}

/// `text` in lines of at most `width` characters, broken at blanks where there are any. At least one line.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("BUG: there is always a last line");
        let used = line.chars().count();
        if used == 0 {
            line.push_str(word);
        } else if used + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Foreign text on one line, without characters that move the cursor or turn the direction of writing.
pub fn printable(text: &str) -> String {
    printable::printable(text).into_owned()
}

/// One JSON object on a line.
pub fn json_line(object: &Value) -> String {
    printable::printable_json(&object.to_string()).into_owned()
}

/// Prints remarks on stderr, without characters that a terminal would obey.
pub fn say(text: &str) {
    eprintln!("khz: {}", printable::printable_lines(text));
}

/// `remark!("{n} nodes are not drawn")` on stderr, made printable.
macro_rules! remark {
    ($($words:tt)*) => { $crate::show::table::say(&format!($($words)*)) };
}
pub(crate) use remark;

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Table {
        let mut table =
            Table::new(&[("SERIES", Side::Left), ("VALUE", Side::Right), ("HELP", Side::Left)], 2);
        table.row(["mem.free".to_owned(), "123".to_owned(), "memory nobody uses at all".to_owned()]);
        table.remark("mem.high_total".to_owned(), "absent: this kernel does not print it");
        table
    }

    #[test]
    fn columns_align_and_a_remark_spans_the_others() {
        assert_eq!(
            memory().render(None),
            "SERIES          VALUE  HELP\n\
             mem.free          123  memory nobody uses at all\n\
             mem.high_total  absent: this kernel does not print it\n"
        );
    }

    #[test]
    fn the_elastic_column_is_cut() {
        assert_eq!(
            memory().render(Some(40)),
            "SERIES          VALUE  HELP\n\
             mem.free          123  memory nobody us…\n\
             mem.high_total  absent: this kernel doe…\n"
        );
    }

    #[test]
    fn a_wrapping_column_continues_below() {
        let mut table = Table::wrapping(&[("METRIC", Side::Left), ("MEANING", Side::Left)]);
        table.row(["mem.free".to_owned(), "memory nobody uses at all".to_owned()]);
        assert_eq!(
            table.render(Some(24)),
            "METRIC    MEANING\n\
             mem.free  memory nobody\n\
             \x20         uses at all\n"
        );
        assert_eq!(table.render(None).lines().count(), 2);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_however_narrow() {
        for width in 1..60 {
            assert!(memory().render(Some(width)).lines().all(|line| line.chars().count() <= width));
        }
    }

    #[test]
    fn foreign_text_neither_moves_the_cursor_nor_turns_the_direction_of_writing() {
        let mut table = Table::new(&[("SERIES", Side::Left), ("VALUE", Side::Right)], 1);
        table.row(["sd\x1b[2Ja\u{202e}\r\n".to_owned(), "1".to_owned()]);
        assert_eq!(table.render(None).lines().last(), Some("sd?[2Ja\\u202e??      1"));
        assert_eq!(json_line(&serde_json::json!({ "a": "b\u{2066}" })), "{\"a\":\"b\\u2066\"}");
    }

    #[test]
    fn everything_on_stderr_is_made_printable() {
        // `remark!` does it; `eprintln!` does not.
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut folders = vec![folder];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("table.rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    assert!(!text.contains(concat!("eprintln!", "(\"khz: ")), "{}", path.display());
                }
            }
        }
    }
}
