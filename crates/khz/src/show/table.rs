//! Tables for people: aligned columns, fitted to the width of the terminal. Control characters are replaced: the name of a disk
//! on another host must not move our cursor.

use std::borrow::Cow;
use std::io::Write;

use khz_model::{Labels, printable};
use serde_json::Value;

use super::fit::{self, cut_middle};
pub use super::fit::{cut, wrapped};
use super::look::{Look, Tone};

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A cell: its text, and what it is.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell with a tone.
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        Cell { text: text.into(), tone }
    }

    fn printable(self) -> Self {
        Cell { text: printable(&self.text), ..self }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell { text, tone: Tone::Plain }
    }
}

/// A table under construction.
pub struct Table {
    titles: Vec<(String, Side)>,
    /// The column that is cut when the table is too wide.
    elastic: usize,
    /// The column that is cut when that is not enough.
    yielding: Option<usize>,
    /// Columns that are left out when that is not enough, the least important one first.
    leaving: Vec<usize>,
    /// The elastic column is wrapped, not cut.
    wraps: bool,
    rows: Vec<Row>,
}

#[derive(Clone)]
enum Row {
    /// One cell a column.
    Cells(Vec<Cell>),
    /// The first cell, and a sentence over all other columns.
    Remark(String, Cell),
}

/// Between two columns.
const GAP: usize = 2;
/// The elastic column is not cut to less: less is not readable.
const ELASTIC_MIN: usize = 8;
/// A name or a place that is longer than it may be does not make the column wider than others need, or than this.
pub const CHARS_CUT: usize = 40;
/// Nor is the other one: names are told apart by their beginnings. While there are columns that can be left out, the elastic one
/// keeps as much.
const YIELDING_MIN: usize = 16;

impl Table {
    /// A table with these columns, of which number `elastic` is cut when the terminal is too narrow.
    pub fn new(titles: &[(&str, Side)], elastic: usize) -> Self {
        let titles = titles.iter().map(|(title, side)| (printable(title), *side)).collect();
        Table { titles, elastic, yielding: None, leaving: Vec::new(), wraps: false, rows: Vec::new() }
    }

    /// The same, but this column is cut, too, before others would be left out.
    pub fn yielding(self, column: usize) -> Self {
        Table { yielding: Some(column), ..self }
    }

    /// The same, but these columns are left out where a terminal is too narrow, the first one first. Never the first column.
    pub fn leaving(self, columns: &[usize]) -> Self {
        Table { leaving: columns.to_vec(), ..self }
    }

    /// The same, but the last column is elastic and wrapped.
    pub fn wrapping(titles: &[(&str, Side)]) -> Self {
        Table { wraps: true, ..Table::new(titles, titles.len().saturating_sub(1)) }
    }

    /// Adds a row of one cell a column.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(Row::Cells(cells.into_iter().map(|cell| cell.into().printable()).collect()));
    }

    /// Adds a row of a name and a sentence over all other columns.
    pub fn remark(&mut self, name: String, sentence: &str) {
        self.remark_in(name, sentence, Tone::Plain);
    }

    /// The same with a tone of the sentence.
    pub fn remark_in(&mut self, name: String, sentence: &str, tone: Tone) {
        self.rows.push(Row::Remark(printable(&name), Cell::new(printable(sentence), tone)));
    }

    /// Adds a row of a name, and below it the labels that describe it.
    pub fn description(&mut self, name: String, labels: &Labels) {
        self.remark(name, "");
        for (label, value) in labels.iter() {
            self.remark_in(format!("  {label}"), value, Tone::Faint);
        }
    }

    /// The table as lines without colours, at most `width` columns each where a width is given.
    pub fn render(&self, width: Option<usize>) -> String {
        self.draw(&Look::plain(width))
    }

    /// The table as lines that look like this.
    pub fn draw(&self, look: &Look) -> String {
        let layout = self.layout(look.width);
        let titles = self.titles.iter().map(|(title, _)| Cell::new(title.as_str(), Tone::Title)).collect();
        let mut text = String::new();
        for row in std::iter::once(&Row::Cells(titles)).chain(&self.rows) {
            for part in self.parts(row, &layout) {
                self.line(&mut text, &part, &layout, look);
            }
        }
        text
    }

    /// Its width when nothing is cut.
    pub fn width(&self) -> usize {
        self.natural(columns_of).whole()
    }

    /// Each column as wide as its widest cell.
    fn natural(&self, size: fn(&str) -> usize) -> Layout {
        let mut widths: Vec<usize> = self.titles.iter().map(|(title, _)| size(title)).collect();
        for row in &self.rows {
            match row {
                Row::Cells(cells) => {
                    for (width, cell) in widths.iter_mut().zip(cells) {
                        *width = (*width).max(size(&cell.text));
                    }
                }
                Row::Remark(name, _) => {
                    if let Some(width) = widths.first_mut() {
                        *width = (*width).max(size(name));
                    }
                }
            }
        }
        Layout { widths: widths.into_iter().map(Some).collect(), size }
    }

    /// The width of each column in a table of at most this width, as far as that is possible.
    fn layout(&self, width: Option<usize>) -> Layout {
        // Programs that read columns of a pipe count characters, as `cut -c` and awk do; eyes count cells of the terminal.
        let Some(width) = width else { return self.natural(chars_of) };
        let natural = self.natural(columns_of);
        let mut layout = natural.clone();
        let leaving = self.leaving.iter().filter(|column| **column > 0).map(Some).chain([None]);
        let mut left_out: Vec<usize> = Vec::new();
        for next in leaving {
            layout = natural.without(&left_out);
            let min = if next.is_some() { YIELDING_MIN } else { ELASTIC_MIN };
            let fits = layout.shrink(self.elastic, min, width)
                || self.yielding.is_some_and(|column| layout.shrink(column, YIELDING_MIN, width));
            match next {
                Some(column) if !fits => left_out.push(*column),
                _ => break,
            }
        }
        layout
    }

    /// The row; where its last cell wraps, further rows with the rest of that cell.
    fn parts<'a>(&self, row: &'a Row, layout: &Layout) -> Vec<Cow<'a, Row>> {
        match row {
            Row::Cells(cells) if self.wraps => {
                let (Some((last, others)), Some(Some(width))) = (cells.split_last(), layout.widths.last())
                else {
                    return vec![Cow::Borrowed(row)];
                };
                let lines = wrapped(&last.text, *width).into_iter().enumerate().map(|(at, text)| {
                    let others =
                        others.iter().map(|cell| if at == 0 { cell.clone() } else { Cell::default() });
                    Cow::Owned(Row::Cells(others.chain([Cell { text, tone: last.tone }]).collect()))
                });
                lines.collect()
            }
            _ => vec![Cow::Borrowed(row)],
        }
    }

    /// Appends a row as a line.
    fn line(&self, text: &mut String, row: &Row, layout: &Layout, look: &Look) {
        let mut line = Line::default();
        match row {
            Row::Cells(cells) => {
                for (column, cell) in cells.iter().enumerate() {
                    self.cell(&mut line, column, cell, layout);
                }
            }
            Row::Remark(name, sentence) => {
                self.cell(&mut line, 0, &Cell::new(name.as_str(), Tone::Plain), layout);
                line.blanks += GAP;
                line.put(sentence.clone());
            }
        }
        line.end(text, look);
    }

    /// Adds a cell to a line, in the width of its column.
    fn cell(&self, line: &mut Line, column: usize, cell: &Cell, layout: &Layout) {
        let (Some(width), Some((_, side))) =
            (layout.widths.get(column).copied().flatten(), self.titles.get(column))
        else {
            return;
        };
        let text = match column {
            _ if (layout.size)(&cell.text) <= width => cell.text.clone(),
            0 => cut_middle(&cell.text, width),
            _ => cut(&cell.text, width),
        };
        let rest = width.saturating_sub((layout.size)(&text));
        let (before, after) = if *side == Side::Left { (0, rest) } else { (rest, 0) };
        line.blanks += before + if column > 0 { GAP } else { 0 };
        line.put(Cell { text, tone: cell.tone });
        line.blanks += after;
    }
}

/// The width of each column; `None`: it is left out.
#[derive(Clone)]
struct Layout {
    widths: Vec<Option<usize>>,
    /// What the widths count.
    size: fn(&str) -> usize,
}

impl Layout {
    fn whole(&self) -> usize {
        let there = self.widths.iter().flatten();
        there.clone().sum::<usize>() + GAP * there.count().saturating_sub(1)
    }

    fn without(&self, left_out: &[usize]) -> Layout {
        let widths = self.widths.iter().enumerate();
        let widths = widths.map(|(at, width)| width.filter(|_| !left_out.contains(&at))).collect();
        Layout { widths, size: self.size }
    }

    /// Makes a column narrower, but not than `min`. True if the whole fits `width` then.
    fn shrink(&mut self, column: usize, min: usize, width: usize) -> bool {
        let excess = self.whole().saturating_sub(width);
        if let Some(Some(elastic)) = self.widths.get_mut(column) {
            *elastic = elastic.saturating_sub(excess).max(min.min(*elastic));
        }
        self.whole() <= width
    }
}

/// A line under construction: its texts, and blanks that come before the next one. Blanks at the end are none.
#[derive(Default)]
struct Line {
    texts: Vec<Cell>,
    blanks: usize,
}

impl Line {
    fn put(&mut self, cell: Cell) {
        if !cell.text.trim_end().is_empty() {
            let blanks = " ".repeat(std::mem::take(&mut self.blanks));
            self.texts.push(blanks.into());
            self.texts.push(cell);
        } else {
            self.blanks += columns_of(&cell.text);
        }
    }

    /// Appends the line to `text`, cut to the width of the terminal.
    fn end(mut self, text: &mut String, look: &Look) {
        if let Some(last) = self.texts.last_mut() {
            last.text.truncate(last.text.trim_end().len());
        }
        let whole: usize = self.texts.iter().map(|cell| columns_of(&cell.text)).sum();
        let mut room = look.width.unwrap_or(usize::MAX);
        let is_cut = whole > room;
        for cell in &self.texts {
            let size = columns_of(&cell.text);
            match is_cut && size >= room {
                // Something follows, of which the ellipsis tells.
                true => {
                    look.paint(text, &cut(&format!("{}{}", cell.text, fit::ELLIPSIS), room), cell.tone);
                    break;
                }
                false => look.paint(text, &cell.text, cell.tone),
            }
            room -= size;
        }
        text.push('\n');
    }
}

/// A line of these texts, cut to the width of the terminal.
pub fn line(texts: impl IntoIterator<Item = Cell>, look: &Look) -> String {
    let (mut line, mut text) = (Line::default(), String::new());
    texts.into_iter().for_each(|cell| line.put(cell.printable()));
    line.end(&mut text, look);
    text
}

fn columns_of(text: &str) -> usize {
    fit::columns(text)
}

fn chars_of(text: &str) -> usize {
    text.chars().count()
}

/// Texts of a column, printable, each in at most `most` letters. One that is longer is cut to what others need, but not below [`CHARS_CUT`].
pub fn fitted(texts: impl Iterator<Item = impl AsRef<str>>, most: usize) -> Vec<String> {
    let mut texts: Vec<String> = texts.map(|text| printable(text.as_ref())).collect();
    let sizes = texts.iter().map(|text| text.chars().count()).filter(|size| *size <= most);
    let room = sizes.max().unwrap_or(0).max(CHARS_CUT.min(most));
    for text in texts.iter_mut().filter(|text| text.chars().count() > most) {
        *text = text.chars().take(room.saturating_sub(1)).chain([fit::ELLIPSIS]).take(room).collect();
    }
    texts
}

/// Foreign text on one line, without characters that move the cursor or turn the direction of writing.
pub fn printable(text: &str) -> String {
    printable::printable(text).into_owned()
}

/// One JSON object on a line.
pub fn json_line(object: &Value) -> String {
    printable::printable_json(&object.to_string()).into_owned()
}

/// Prints remarks on stderr, without characters that a terminal would obey. On a terminal long lines are broken at blanks.
pub fn say(text: &str) {
    let text = format!("khz: {}", printable::printable_lines(text));
    on_stderr(&format!("{}\n", broken(&text, super::terminal::stderr_width())));
}

/// Writes on stderr. If nobody can be told anything (it is closed, or on a full disk), the work goes on: `eprint!` would end it.
pub fn on_stderr(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// A text whose lines fit; those that do already stay as they are: some point at a place in the line above.
fn broken(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let fitted = text.lines().map(|line| match columns_of(line) <= width {
        true => line.to_owned(),
        false => wrapped(line, width).join("\n"),
    });
    fitted.collect::<Vec<_>>().join("\n")
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
    fn columns_leave_before_names_become_unreadable_and_wide_characters_stay_aligned() {
        let titles =
            [("NODE", Side::Left), ("STATE", Side::Left), ("RTT", Side::Right), ("VERSION", Side::Left)];
        let mut table = Table::new(&titles, 0).leaving(&[3, 2]);
        for name in ["名前-0000000000000001", "node-00000000000000002"] {
            table.row([name, "up 3d", "180us", "0.1.0"].map(str::to_owned));
        }
        assert_eq!(
            table.render(Some(36)),
            "NODE                    STATE    RTT\n\
             名前-0000000000000001   up 3d  180us\n\
             node-00000000000000002  up 3d  180us\n"
        );
        assert_eq!(
            table.render(Some(23)),
            "NODE              STATE\n\
             名前-000…0000001  up 3d\n\
             node-000…0000002  up 3d\n"
        );
        // Programs that read a pipe count characters.
        assert!(table.render(None).contains("名前-0000000000000001     up 3d"), "{}", table.render(None));
        for width in 1..60 {
            let text = table.render(Some(width));
            assert!(text.lines().all(|line| fit::columns(line) <= width), "{width}: {text}");
        }
    }

    #[test]
    fn a_long_sentence_is_broken_at_blanks_and_a_pointer_stays_below_its_place() {
        assert_eq!(broken("khz: no node is called x", Some(12)), "khz: no node\nis called x");
        assert_eq!(broken("khz: bad\n  a[b\n   ^", Some(12)), "khz: bad\n  a[b\n   ^");
        assert_eq!(broken("khz: no node is called x", None), "khz: no node is called x");
    }

    #[test]
    fn everything_on_stderr_is_made_printable_and_nobody_fails_because_it_cannot_be_written() {
        // `remark!` and `on_stderr` do it; `eprintln!` panics.
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut folders = vec![folder];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("table.rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                    assert!(!code.contains("eprint!(") && !code.contains("eprintln!("), "{}", path.display());
                }
            }
        }
    }
}
