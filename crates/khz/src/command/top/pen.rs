//! Writes on a part of the screen: texts that cannot leave their line, bars, and curves in braille or ASCII. Foreign text is made
//! printable here, and nowhere else.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use khz_model::printable::printable;

use super::look::Look;

/// Dots of a braille character: two columns of four.
const DOTS_DOWN: usize = 4;
/// The bits of the left and the right column, from the lowest dot up.
const BITS: [[u32; DOTS_DOWN]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];
/// Without braille: what fills a part of a character from below.
const FILLS_ASCII: [char; 5] = [' ', '.', ':', '|', '#'];

/// A part of a screen.
pub struct Pen<'a> {
    /// What is drawn on.
    pub buffer: &'a mut Buffer,
    /// What the terminal can show.
    pub look: Look,
}

impl Pen<'_> {
    /// Writes a text from here on, `width` cells at most, and returns the cells that it took.
    pub fn text(&mut self, area: Rect, (x, y): (u16, u16), text: &str, style: Style) -> u16 {
        if x >= area.width || y >= area.height {
            return 0;
        }
        let text = printable(text);
        let plain: String;
        let text = match self.look.unicode {
            true => &*text,
            false => {
                plain = text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect();
                &plain
            }
        };
        let (left, top) = (area.x + x, area.y + y);
        let room = usize::from(area.width - x);
        let (end, _) = self.buffer.set_stringn(left, top, text, room, style);
        end - left
    }

    /// Writes a text that ends before the column `end`.
    pub fn right(&mut self, area: Rect, (end, y): (u16, u16), text: &str, style: Style) {
        let width = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
        self.text(area, (end.saturating_sub(width), y), text, style);
    }

    /// A title over the whole width, with a text at its right end.
    pub fn title(&mut self, area: Rect, title: &str, right: &str) {
        let (rule, style) = (if self.look.unicode { "─" } else { "-" }, self.look.dim());
        let line = rule.repeat(area.width.into());
        self.text(area, (0, 0), &line, style);
        let end = self.text(area, (1, 0), &format!(" {title} "), self.look.title());
        let width = u16::try_from(right.chars().count()).unwrap_or(u16::MAX);
        if !right.is_empty() && end + width + 4 < area.width {
            self.right(area, (area.width - 1, 0), &format!(" {right} "), Style::new());
        }
    }

    /// A bar for a share, or the sign for the unknown.
    pub fn bar(&mut self, area: Rect, share: Option<f64>) {
        let Some(share) = share else {
            self.text(area, (0, 0), self.look.unknown(), self.look.dim());
            return;
        };
        let filled = (share.clamp(0.0, 1.0) * f64::from(area.width)).round() as u16;
        let (full, empty) = if self.look.unicode { ("█", "·") } else { ("#", ".") };
        let end = self.text(area, (0, 0), &full.repeat(filled.into()), self.look.heat(share));
        self.text(
            area,
            (end, 0),
            &empty.repeat((area.width - filled.min(area.width)).into()),
            self.look.dim(),
        );
    }

    /// A curve, filled down to the lower edge: two columns for each character. A gap stays blank, and 0 has a dot.
    pub fn curve(&mut self, area: Rect, columns: &[Option<f64>], top: f64) {
        let top = if top > 0.0 { top } else { 1.0 };
        let wide = usize::from(area.width) * 2;
        let columns = &columns[columns.len().saturating_sub(wide)..];
        let begin = wide - columns.len();
        let share =
            |at: usize| columns.get(at.checked_sub(begin)?).copied().flatten().map(|value| value / top);
        let rows = usize::from(area.height);
        for x in 0..usize::from(area.width) {
            let pair = [share(2 * x), share(2 * x + 1)];
            let highest = pair.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
            if highest == f64::NEG_INFINITY {
                continue;
            }
            let style = self.look.heat(highest);
            for y in 0..rows {
                let below = (rows - 1 - y) * DOTS_DOWN;
                let sign =
                    if self.look.unicode { braille(pair, rows, below) } else { fill(highest, rows, below) };
                if let Some(sign) = sign
                    && let Some(cell) = self.buffer.cell_mut((area.x + x as u16, area.y + y as u16))
                {
                    cell.set_char(sign).set_style(style);
                }
            }
        }
    }
}

/// Dots of a value from the lower edge up; at least one.
fn dots(share: f64, rows: usize) -> usize {
    let most = rows * DOTS_DOWN;
    ((share.clamp(0.0, 1.0) * most as f64).round() as usize).clamp(1, most)
}

fn braille(pair: [Option<f64>; 2], rows: usize, below: usize) -> Option<char> {
    let mut bits = 0;
    for (share, column) in pair.iter().zip(BITS) {
        let Some(share) = share else { continue };
        let here = dots(*share, rows).saturating_sub(below).min(DOTS_DOWN);
        bits |= column.iter().take(here).sum::<u32>();
    }
    (bits > 0).then(|| char::from_u32(0x2800 + bits)).flatten()
}

fn fill(share: f64, rows: usize, below: usize) -> Option<char> {
    let here = dots(share, rows).saturating_sub(below).min(DOTS_DOWN);
    (here > 0).then(|| FILLS_ASCII[here])
}

/// A part of an area: lines from `top` on.
pub fn lines(area: Rect, top: u16, count: u16) -> Rect {
    let top = top.min(area.height);
    Rect { y: area.y + top, height: count.min(area.height - top), ..area }
}

/// A part of an area: columns from `left` on.
pub fn columns(area: Rect, left: u16, count: u16) -> Rect {
    let left = left.min(area.width);
    Rect { x: area.x + left, width: count.min(area.width - left), ..area }
}

#[cfg(test)]
mod tests {
    use super::super::look::Colours;
    use super::*;

    fn drawn(unicode: bool, width: u16, height: u16, draw: impl Fn(&mut Pen<'_>, Rect)) -> Vec<String> {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        draw(&mut Pen { buffer: &mut buffer, look: Look { colours: Colours::None, unicode } }, area);
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect();
        (0..height).map(line).collect()
    }

    #[test]
    fn a_curve_is_braille_or_ascii_and_a_gap_is_blank() {
        let values = [Some(0.0), Some(1.0), None, None, Some(0.5), None];
        assert_eq!(drawn(true, 3, 1, |pen, area| pen.curve(area, &values, 1.0)), ["⣸ ⡄"]);
        assert_eq!(drawn(false, 3, 1, |pen, area| pen.curve(area, &values, 1.0)), ["# :"]);
        assert_eq!(
            drawn(true, 1, 2, |pen, area| pen.curve(area, &[Some(0.75), Some(0.25)], 1.0)),
            ["⡄", "⣧"]
        );
    }

    #[test]
    fn foreign_text_stays_on_its_line() {
        let evil = "a\u{1b}[2J\u{202e}b\u{7}";
        assert_eq!(
            drawn(true, 20, 1, |pen, area| _ = pen.text(area, (0, 0), evil, Style::new())),
            ["a?[2J\\u202eb?       "]
        );
        assert_eq!(
            drawn(false, 4, 1, |pen, area| _ = pen.text(area, (0, 0), "größer", Style::new())),
            ["gr??"]
        );
        assert_eq!(drawn(true, 4, 1, |pen, area| _ = pen.text(area, (9, 9), "x", Style::new())), ["    "]);
    }

    #[test]
    fn an_unknown_share_is_no_empty_bar() {
        assert_eq!(drawn(true, 4, 1, |pen, area| pen.bar(area, Some(0.5))), ["██··"]);
        assert_eq!(drawn(true, 4, 1, |pen, area| pen.bar(area, None)), ["–   "]);
    }
}
