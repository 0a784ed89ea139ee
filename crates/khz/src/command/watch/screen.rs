//! Rows on a terminal: one picture, redrawn in place, at most five times a second. It does not scroll: lines that do not fit
//! are counted. After a change of the terminal's size it begins on a cleared screen, because nobody knows where the terminal
//! has put the old lines.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use khz_model::{Nanos, Presence};

use super::pages::Pages;
use super::picture::picture;
use super::printer::{Change, Line, Printer};
use crate::show::look::{Look, Tone};
use crate::show::order::Order;
use crate::show::table::cut;

/// People read no faster.
const REDRAW_PERIOD: Duration = Duration::from_millis(200);
/// Rates on a screen are means over this time: at 1,000 Hz a number would flicker between 0 and a burst.
const WINDOW: Nanos = Nanos::from_millis(250);

/// Columns and lines.
type Size = (usize, usize);

/// A picture that is redrawn.
pub struct Screen<'a, W> {
    size: Box<dyn Fn() -> Option<Size> + 'a>,
    /// The size of the last picture, or of the terminal before the first one.
    drawn_size: Size,
    look: Look,
    order: Order,
    out: &'a mut W,
    pages: Pages,
    drawn_lines: usize,
    drawn_at: Option<Instant>,
    is_stale: bool,
}

impl<'a, W: Write> Screen<'a, W> {
    /// A screen of the size that `size` says. If that knows none, the last one stays.
    pub fn new(size: impl Fn() -> Option<Size> + 'a, look: Look, order: Order, out: &'a mut W) -> Self {
        let drawn_size = size().unwrap_or((80, 24));
        Screen {
            size: Box::new(size),
            drawn_size,
            look,
            order,
            out,
            pages: Pages::default(),
            drawn_lines: 0,
            drawn_at: None,
            is_stale: false,
        }
    }

    fn is_due(&self) -> bool {
        self.drawn_at.is_none_or(|drawn_at| drawn_at.elapsed() >= REDRAW_PERIOD)
    }

    /// Draws over the last picture.
    fn draw(&mut self) -> io::Result<()> {
        let size = (self.size)().unwrap_or(self.drawn_size);
        let up = match self.drawn_lines {
            0 => String::new(),
            _ if size != self.drawn_size => "\x1b[H\x1b[2J".to_owned(),
            lines => format!("\x1b[{lines}A"),
        };
        let (columns, lines) = size;
        let look = Look { width: Some(columns), ..self.look };
        let mut text = String::new();
        let whole = picture(&self.pages, self.order, &look);
        let all: Vec<&str> = whole.lines().collect();
        // The cursor needs the line below the table.
        let room = lines.saturating_sub(1).max(1);
        let fitting = if all.len() > room { room - 1 } else { all.len() };
        for line in &all[..fitting] {
            text.push_str(line);
            text.push('\n');
        }
        if fitting < all.len() {
            let left_out = all.len() - fitting;
            let words = format!("… and {left_out} more; name fewer nodes or series, or use --top");
            look.paint(&mut text, &cut(&words, columns), Tone::Faint);
            text.push('\n');
        }
        write!(self.out, "{up}\r\x1b[J{text}")?;
        self.out.flush()?;
        self.drawn_lines = text.lines().count();
        self.drawn_at = Some(Instant::now());
        self.drawn_size = size;
        self.is_stale = false;
        Ok(())
    }
}

impl<W: Write> Printer for Screen<'_, W> {
    fn window_min(&self) -> Nanos {
        WINDOW
    }

    fn print(&mut self, line: &Line<'_>) -> io::Result<()> {
        self.pages.take(line);
        self.is_stale = true;
        if self.is_due() { self.draw() } else { Ok(()) }
    }

    fn change(&mut self, change: &Change<'_>) -> io::Result<()> {
        if let Change::Node { node, state, .. } = *change {
            let away = (state != Presence::Up.as_str()).then(|| state.to_owned());
            self.is_stale |= self.pages.change(node, away);
        }
        // The table was cleared for the sentence on stderr.
        self.finish()
    }

    fn clear(&mut self) -> io::Result<()> {
        if self.drawn_lines > 0 {
            write!(self.out, "\x1b[{}A\r\x1b[J", self.drawn_lines)?;
        }
        self.drawn_lines = 0;
        self.is_stale = !self.pages.nodes().is_empty();
        self.drawn_at = None;
        self.out.flush()
    }

    fn rest(&mut self) -> io::Result<()> {
        let has_picture = self.drawn_lines > 0;
        let is_wanted =
            self.is_stale || has_picture && (self.size)().is_some_and(|size| size != self.drawn_size);
        if is_wanted && self.is_due() { self.draw() } else { Ok(()) }
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.is_stale { self.draw() } else { Ok(()) }
    }
}
