//! How text is drawn on the terminal that stdout goes to: its width, whether it has colours, and whether it shows more than
//! ASCII. A pipe has no width, and no colours unless `--color always` wants them.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};

use super::fit::ELLIPSIS;
use super::terminal;

/// `--color`.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ColorFlag {
    /// Colours: auto means on a terminal, unless NO_COLOR is set or TERM is dumb.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub color: When,
}

/// When there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal that has them.
    #[default]
    Auto,
    /// Also in a pipe.
    Always,
    /// Not at all.
    Never,
}

/// What a piece of text is, from which its colour follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Ordinary text.
    #[default]
    Plain,
    /// The head of a table.
    Title,
    /// Something is wrong: down, missing, failed.
    Bad,
    /// Units, labels, and what only explains.
    Faint,
    /// A number with its unit, of which the unit is faint: `15.3 GiB`.
    Quantity,
}

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Columns; `None`: any number.
    pub width: Option<usize>,
    /// Has colours.
    pub has_color: bool,
    /// Shows characters beyond ASCII.
    pub has_unicode: bool,
}

impl Look {
    /// Without colours.
    pub const fn plain(width: Option<usize>) -> Self {
        Look { width, has_color: false, has_unicode: true }
    }

    /// That of stdout. A pipe gets every character as it is.
    pub fn of_stdout(when: When) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Look {
            width: terminal::width(),
            has_color: match when {
                When::Always => true,
                When::Never => false,
                When::Auto => is_terminal && terminal::obeys_escapes() && !is_color_unwanted(),
            },
            has_unicode: !is_terminal || terminal::has_unicode(),
        }
    }

    /// Appends `text` in its tone.
    pub fn paint(&self, out: &mut String, text: &str, tone: Tone) {
        if !self.has_unicode {
            let text: String = text.chars().flat_map(in_ascii).collect();
            return self.color(out, &text, tone);
        }
        self.color(out, text, tone);
    }

    fn color(&self, out: &mut String, text: &str, tone: Tone) {
        let code = match tone {
            _ if !self.has_color || text.trim().is_empty() => "",
            Tone::Plain => "",
            Tone::Title => "1",
            Tone::Bad => "31",
            Tone::Faint => "2",
            Tone::Quantity => {
                let (number, unit) = text.split_at(text.find(' ').unwrap_or(text.len()));
                out.push_str(number);
                return self.color(out, unit, Tone::Faint);
            }
        };
        match code {
            "" => out.push_str(text),
            code => {
                // Blanks at both ends stay outside: some terminals underline or invert them.
                let inner = text.trim();
                let (before, after) = text.split_at(text.find(inner).unwrap_or(0));
                out.push_str(before);
                out.push_str("\x1b[");
                out.push_str(code);
                out.push('m');
                out.push_str(inner);
                out.push_str("\x1b[0m");
                out.push_str(&after[inner.len()..]);
            }
        }
    }

    /// A line in one tone.
    pub fn painted(&self, text: &str, tone: Tone) -> String {
        let mut out = String::new();
        self.paint(&mut out, text, tone);
        out
    }
}

/// <https://no-color.org>: set, and not empty.
fn is_color_unwanted() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// What a terminal without Unicode shows of a character, in as many columns: `?`, as `ls` does.
fn in_ascii(c: char) -> impl Iterator<Item = char> {
    let (shown, times) = match c {
        ELLIPSIS => ('~', 1),
        c if c.is_ascii() => (c, 1),
        c => ('?', super::fit::columns(c.encode_utf8(&mut [0; 4]))),
    };
    std::iter::repeat_n(shown, times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_a_tone_is_coloured_and_blanks_never() {
        let look = Look { has_color: true, ..Look::plain(None) };
        assert_eq!(look.painted("15.3 GiB", Tone::Quantity), "15.3 \x1b[2mGiB\x1b[0m");
        assert_eq!(look.painted("26", Tone::Quantity), "26");
        assert_eq!(look.painted(" down ", Tone::Bad), " \x1b[31mdown\x1b[0m ");
        assert_eq!(look.painted("n1", Tone::Plain), "n1");
        assert_eq!(look.painted("  ", Tone::Title), "  ");
        assert_eq!(Look::plain(None).painted("down", Tone::Bad), "down");
    }

    #[test]
    fn a_terminal_without_unicode_gets_as_many_ascii_characters() {
        let look = Look { has_unicode: false, ..Look::plain(None) };
        for (text, ascii) in [("a…b", "a~b"), ("名前", "????"), ("e\u{301}", "e"), ("µs", "?s")] {
            assert_eq!(look.painted(text, Tone::Plain), ascii);
            assert_eq!(crate::show::fit::columns(ascii), crate::show::fit::columns(text));
        }
    }
}
