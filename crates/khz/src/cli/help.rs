//! The help as it is printed: a default and the name of a variable stay on one line. clap breaks lines at blanks, so the blanks
//! in them are others until clap is done.

use clap::Command;
use clap::builder::StyledStr;

/// A longer text in brackets is a sentence, which may be broken. So much has room beside every flag in 80 columns.
const HELD_MAX: usize = 40;
/// No place for a line break.
const HELD_BLANK: char = '\u{a0}';
/// What is held together.
const BEGINS: [&str; 2] = ["[default:", "[env:"];

/// The same command line; what is to stay on a line has no blanks at which clap would break it.
pub fn held(command: Command) -> Command {
    // Where nothing has a longer text, --help is as short as -h.
    let has_long = command.get_long_about().is_some()
        || command.get_arguments().any(|arg| arg.get_long_help().is_some());
    let command = command.mut_args(|arg| {
        let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
        let defaults = defaults.collect::<Vec<_>>().join(" ");
        let takes_values = arg.get_action().takes_values();
        let is_shown = takes_values && !defaults.is_empty() && !arg.is_hide_default_value_set();
        let with_default = |text: &StyledStr, before: &str| match is_shown {
            true => held_text(&format!("{text}{before}[default: {defaults}]")),
            false => held_text(&text.to_string()),
        };
        let short = arg.get_help().map(|text| with_default(text, " "));
        let long = arg.get_long_help().or(arg.get_help()).filter(|_| has_long);
        let long = long.map(|text| with_default(text, "\n\n"));
        let arg = if let Some(text) = short { arg.help(text) } else { arg };
        let arg = if let Some(text) = long { arg.long_help(text) } else { arg };
        if is_shown { arg.hide_default_value(true) } else { arg }
    });
    command.mut_subcommands(held)
}

/// A text with its blanks as people get them.
pub fn released(text: &str) -> String {
    text.replace(HELD_BLANK, " ")
}

fn held_text(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = BEGINS.iter().filter_map(|begin| rest.find(begin)).min() {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let end = from.find(']').map_or(from.len(), |end| end + 1);
        let (inner, after) = from.split_at(end);
        match inner.chars().count() <= HELD_MAX {
            true => out.extend(inner.chars().map(|c| if c == ' ' { HELD_BLANK } else { c })),
            false => out.push_str(inner),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_defaults_are_held_and_sentences_are_not() {
        let text = "How often [default: 10Hz] [env: KHZ_RATE]";
        assert_eq!(held_text(text), "How often [default:\u{a0}10Hz] [env:\u{a0}KHZ_RATE]");
        assert_eq!(released(&held_text(text)), text);
        let long = "Ask it [default: the one that runs on this machine, else this node]";
        assert_eq!(held_text(long), long);
        assert_eq!(held_text("open [default: x"), "open [default:\u{a0}x");
    }
}
