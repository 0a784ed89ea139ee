//! Where the texts of the legend stand, and how many pixels they take.

use khz_rrd::error::{Result, refused};

use crate::element::{Action, Element};
use crate::frame::{line_height, text_lines, text_width};
use crate::options::{Direction, Options};

/// How the texts of a line are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is its own name in rrdtool's documentation")]
pub enum Align {
    Left,
    Right,
    Justified,
    Center,
}

impl Align {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
            Self::Justified => "justified",
            Self::Center => "center",
        }
    }
}

/// A text, and the letter after its last backslash.
#[derive(Debug, Clone)]
pub struct Item {
    /// Which element.
    pub element: usize,
    /// Without the control letter; with room for a box.
    pub text: String,
    /// The letters that are shown of it.
    pub shown: String,
    control: Option<char>,
    is_comment: bool,
}

impl Item {
    fn ends_line(&self) -> bool {
        self.control.is_some_and(|control| "lsurcj".contains(control))
    }
}

/// A placed text.
#[derive(Debug, Clone)]
pub struct Placed {
    /// Which element.
    pub element: usize,
    /// The text.
    pub text: String,
    /// The letters that are shown of it.
    pub shown: String,
    /// Left.
    pub x: f64,
    /// Top of its last line, from the top of the legend.
    pub y: i64,
    /// Width.
    pub width: f64,
    /// Lines of the text itself.
    pub lines: i64,
}

impl Placed {
    /// Top, from the top of the legend: a text of several lines reaches upwards.
    pub fn top(&self, size: f64) -> i64 {
        self.y - (self.lines - 1) * line_height(size) as i64
    }
}

/// Texts in their places.
#[derive(Debug, Default)]
pub struct Legend {
    /// The texts.
    pub texts: Vec<Placed>,
    /// Pixels of all lines.
    pub height: i64,
    /// Pixels of the longest line.
    pub widest: f64,
}

/// Splits a text and the control letter at its end.
///
/// # Errors
/// A letter without a meaning.
pub fn item(index: usize, element: &Element) -> Result<Option<Item>> {
    let text = &element.legend;
    if text.is_empty() {
        return Ok(None);
    }
    let full = if element.has_box() { format!("  {text}") } else { text.clone() };
    let mut letters = full.chars();
    let (last, before) = (letters.next_back(), letters.next_back());
    let (mut text, mut control) = (full.replace("\\t", "\t"), None);
    if before == Some('\\') {
        let letter = last.unwrap_or(' ');
        if !"gnlrcjsut.".contains(letter) {
            return refused(format!("Unknown control code at the end of '{full}'"));
        }
        text = letters.as_str().replace("\\t", "\t");
        if letter == 'g' {
            text.truncate(text.trim_end_matches(' ').len());
        }
        match letter {
            't' => text.push('\t'),
            letter => control = Some(if letter == 'n' { 'l' } else { letter }),
        }
    }
    let shown = text.clone();
    let is_comment = matches!(element.action, Action::Comment);
    Ok(Some(Item { element: index, text, shown, control, is_comment }))
}

/// Pixels between two texts.
pub fn gap(options: &Options) -> f64 {
    (2.0 * options.size("LEGEND")).trunc()
}

/// A line that is not complete.
#[derive(Default)]
struct Line {
    texts: Vec<Text>,
    /// Pixels of the texts and of the gaps between them.
    fill: f64,
}

struct Text {
    /// Which item.
    item: usize,
    width: f64,
    /// Whether the next text follows without a gap.
    is_glued: bool,
}

/// Lines that fill up.
struct Lines<'a> {
    items: &'a [Item],
    /// Left edge and width of a line.
    left: f64,
    room: f64,
    size: f64,
    options: &'a Options,
    /// From one text to the next.
    gap: f64,
    /// From one line to the next.
    step: f64,
    line: Line,
    legend: Legend,
    /// Top of the line, from the top of the legend.
    y: f64,
}

/// Pixels of a column for `items`: their longest line, and room at both sides.
pub fn column(elements: usize, items: &[Item], aligns: &[(usize, Align)], options: &Options) -> f64 {
    /// So wide that no line is full.
    const NO_LIMIT: f64 = 1e12;
    place(elements, items, aligns, NO_LIMIT, options).widest + 2.0 * gap(options)
}

/// Places `items`, which come from `elements` elements, in `width` pixels. `aligns` has the default alignment from an
/// element on.
pub fn place(
    elements: usize,
    items: &[Item],
    aligns: &[(usize, Align)],
    width: f64,
    options: &Options,
) -> Legend {
    let (size, gap) = (options.size("LEGEND"), gap(options));
    let mut lines = Lines {
        items,
        left: gap,
        room: width - 2.0 * gap,
        size,
        options,
        gap,
        step: (size * 1.8).trunc(),
        line: Line::default(),
        legend: Legend::default(),
        y: 0.0,
    };
    let mut ended_by = None;
    for (index, item) in items.iter().enumerate() {
        let default = aligns.iter().rev().find(|(from, _)| *from <= item.element);
        let default = default.map_or(Align::Justified, |(_, align)| *align);
        let width = lines.width(&item.shown, 1.0);
        let has_ended = lines.add(index, width, default);
        if lines.control(item.control) || has_ended {
            ended_by = Some(item.element);
        }
    }
    // As in rrdtool, the last alignment is that of the last line, and may begin a line of its own.
    if ended_by.is_none_or(|element| element + 1 != elements) {
        lines.end(aligns.last().map_or(Align::Justified, |(_, align)| *align), None);
    }
    lines.legend.height = lines.y as i64;
    match options.direction {
        Direction::Down => {}
        Direction::Up => turn_over(&mut lines.legend.texts),
        Direction::UpWithinComments => {
            let is_comment = |text: &Placed| {
                let item = items.iter().find(|item| item.element == text.element);
                item.is_some_and(|item| item.is_comment)
            };
            let texts = &mut lines.legend.texts;
            if let Some(first) = texts.iter().position(|text| !is_comment(text)) {
                let last = texts.iter().rposition(|text| !is_comment(text)).unwrap_or(first);
                turn_over(&mut texts[first..=last]);
            }
        }
    }
    lines.legend
}

/// Puts the last line first.
fn turn_over(texts: &mut [Placed]) {
    let [first, last] = [texts.first(), texts.last()].map(|text| text.map_or(0, |text| text.y));
    texts.iter_mut().for_each(|text| text.y = first + last - text.y);
}

impl Lines<'_> {
    fn width(&self, text: &str, zoom: f64) -> f64 {
        text_width(text, self.size, zoom, self.options.tab_stop(zoom))
    }

    /// Adds a text to the line, or to a new one if it has no room there. Whether it ended its line.
    fn add(&mut self, index: usize, width: f64, align: Align) -> bool {
        let item = &self.items[index];
        if item.text.is_empty() {
            return false;
        }
        let mut is_glued = item.control == Some('g');
        // As in rrdtool, the room before a text is counted by the letter of that text.
        let mut before = if self.line.texts.is_empty() || is_glued { 0.0 } else { self.gap };
        let is_full = !item.ends_line() && self.line.fill + before + width > self.room;
        if is_full && !self.line.texts.is_empty() {
            self.end(align, None);
            // As in rrdtool, a text that is moved to a new line has lost its letter.
            (is_glued, before) = (false, 0.0);
        }
        self.line.fill += before + width;
        self.line.texts.push(Text { item: index, width, is_glued });
        // Wider than a line: nothing else stands beside it.
        let is_alone = is_full && width > self.room;
        if is_alone {
            self.end(align, None);
        }
        is_alone
    }

    /// Does what the letter at the end of a text says. Whether it ended the line.
    fn control(&mut self, control: Option<char>) -> bool {
        let align = match control {
            Some('l' | 's' | 'u') => Align::Left,
            Some('r') => Align::Right,
            Some('c') => Align::Center,
            Some('j') => Align::Justified,
            _ => return false,
        };
        self.end(align, control);
        true
    }

    /// Places the texts of the line and begins a new one.
    fn end(&mut self, align: Align, control: Option<char>) {
        let Line { texts, fill } = std::mem::take(&mut self.line);
        self.legend.widest = self.legend.widest.max(fill);
        let free = self.room - fill;
        let (mut x, spread) = match align {
            Align::Left => (self.left, 0.0),
            Align::Justified if texts.len() > 1 => (self.left, free / (texts.len() - 1) as f64),
            Align::Justified => (self.left, 0.0),
            Align::Right => (self.left + free, 0.0),
            Align::Center => (self.left + free / 2.0, 0.0),
        };
        let y = (self.y + self.gap - line_height(self.size)).trunc() as i64;
        for Text { item, width, is_glued } in texts {
            let Item { element, text, shown: letters, .. } = &self.items[item];
            // As in rrdtool, the places are those of a picture that is not enlarged; only a text's end is not.
            let wide = self.width(letters, self.options.zoom).ceil();
            let (text, shown) = (text.clone(), letters.clone());
            let lines = text_lines(letters).len() as i64;
            self.legend.texts.push(Placed { element: *element, text, shown, x, y, width: wide, lines });
            x += width + spread + if is_glued { 0.0 } else { self.gap };
        }
        // As in rrdtool, a line that ends at the left edge takes no room: an empty one, or one whose texts overlap.
        let taken = if x > self.left || control == Some('s') { self.step } else { 0.0 };
        let back = match control {
            Some('s') => self.size,
            Some('u') => self.size * 1.8,
            _ => 0.0,
        };
        self.y = (self.y + taken - back).trunc();
    }
}
