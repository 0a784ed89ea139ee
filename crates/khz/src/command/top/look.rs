//! What the terminal can show: colours and characters, by the environment. `NO_COLOR` and terminals without UTF-8 are served, too.

use ratatui::style::{Color, Modifier, Style};

/// How many colours there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// None: bold and reverse must do.
    None,
    /// The terminal's own 16.
    Sixteen,
    /// 256.
    Many,
}

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Its colours.
    pub colours: Colours,
    /// It shows UTF-8: braille and blocks.
    pub unicode: bool,
}

/// From green to red, in the cube of 256 colours.
const HEAT: [u8; 8] = [22, 28, 34, 106, 178, 208, 202, 196];
/// The same in 16.
const HEAT_OF_16: [Color; 3] = [Color::Green, Color::Yellow, Color::Red];
/// Without braille and blocks: from least to most.
const SHADES_ASCII: [char; 8] = ['.', ':', '-', '=', '+', '*', '#', '@'];
const SHADES: [char; 8] = ['·', '░', '░', '▒', '▒', '▓', '▓', '█'];

impl Look {
    /// By the variables of the environment.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| variable(name).filter(|value| !value.is_empty());
        let term = get("TERM").unwrap_or_default();
        let has_many = term.contains("256color") || term.contains("direct") || get("COLORTERM").is_some();
        let colours = match () {
            () if get("NO_COLOR").is_some()
                || term.is_empty()
                || term.contains("mono")
                || term.starts_with("vt1") =>
            {
                Colours::None
            }
            () if has_many => Colours::Many,
            () => Colours::Sixteen,
        };
        let locale = get("LC_ALL").or_else(|| get("LC_CTYPE")).or_else(|| get("LANG")).unwrap_or_default();
        let locale = locale.to_lowercase();
        Look { colours, unicode: locale.contains("utf-8") || locale.contains("utf8") }
    }

    /// The style of a share: the more, the hotter.
    pub fn heat(self, share: f64) -> Style {
        let share = share.clamp(0.0, 1.0);
        let place = |count: usize| ((share * count as f64) as usize).min(count - 1);
        match self.colours {
            Colours::None if share >= 0.9 => Style::new().add_modifier(Modifier::BOLD),
            Colours::None => Style::new(),
            Colours::Sixteen => Style::new().fg(HEAT_OF_16[place(HEAT_OF_16.len())]),
            Colours::Many => Style::new().fg(Color::Indexed(HEAT[place(HEAT.len())])),
        }
    }

    /// The character of a share in a waterfall.
    pub fn shade(self, share: f64) -> char {
        let shades = if self.unicode { SHADES } else { SHADES_ASCII };
        shades[((share.clamp(0.0, 1.0) * shades.len() as f64) as usize).min(shades.len() - 1)]
    }

    /// What is less important.
    pub fn dim(self) -> Style {
        match self.colours {
            Colours::None => Style::new(),
            Colours::Sixteen => Style::new().fg(Color::Cyan),
            Colours::Many => Style::new().fg(Color::Indexed(245)),
        }
    }

    /// Titles.
    pub fn title(self) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if self.colours == Colours::None { bold } else { bold.fg(Color::Cyan) }
    }

    /// What is wrong.
    pub fn alarm(self) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if self.colours == Colours::None { bold } else { bold.fg(Color::Red) }
    }

    /// The chosen line.
    pub fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The unknown.
    pub fn unknown(self) -> &'static str {
        if self.unicode { "–" } else { "-" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(variables: &[(&str, &str)]) -> Look {
        Look::of(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn colours_and_characters_follow_the_environment() {
        for (variables, colours, unicode) in [
            (&[("TERM", "xterm-256color"), ("LANG", "de_DE.UTF-8")][..], Colours::Many, true),
            (&[("TERM", "linux"), ("LANG", "en_US.utf8")], Colours::Sixteen, true),
            (&[("TERM", "xterm"), ("COLORTERM", "truecolor"), ("LANG", "C")], Colours::Many, false),
            (
                &[("TERM", "xterm-256color"), ("NO_COLOR", "1"), ("LC_ALL", "C"), ("LANG", "x.UTF-8")],
                Colours::None,
                false,
            ),
            (&[("TERM", "xterm"), ("NO_COLOR", "")], Colours::Sixteen, false),
            (&[], Colours::None, false),
        ] {
            assert_eq!(look(variables), Look { colours, unicode }, "{variables:?}");
        }
    }

    #[test]
    fn without_colours_no_style_has_one() {
        let look = look(&[]);
        for style in [look.heat(0.0), look.heat(1.0), look.dim(), look.title(), look.alarm(), look.chosen()] {
            assert_eq!((style.fg, style.bg), (None, None));
        }
        assert!(look.shade(0.5).is_ascii() && look.unknown().is_ascii());
    }
}
