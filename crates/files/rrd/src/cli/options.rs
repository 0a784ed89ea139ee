//! Options of a command line, anywhere among its arguments; rrdtool's error texts, no meanings.

use crate::error::{Result, refused};
use crate::text;

/// An option a command knows: long name, short letter (a blank for none), whether it takes a value.
pub type Known = (&'static str, char, bool);

/// A parsed command line.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// Long name and value of each option, in order.
    pub options: Vec<(&'static str, String)>,
    /// The other arguments, in order.
    pub rest: Vec<String>,
}

impl Parsed {
    /// The value of an option given last.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Whether an option was given.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// The first `N` other arguments.
    pub fn first<const N: usize>(&self) -> Option<[&str; N]> {
        let words: Vec<&str> = self.rest.iter().take(N).map(String::as_str).collect();
        words.try_into().ok()
    }
}

/// Parses `arguments`; `--` ends the options.
///
/// # Errors
/// An unknown option, or one without its value.
pub fn parse(arguments: &[String], known: &[Known]) -> Result<Parsed> {
    let (parsed, outcome) = parse_up_to(arguments, known);
    outcome.map(|()| parsed)
}

/// The arguments before the first wrong word, and the error of that word. The caller checks the values before it first.
pub fn parse_up_to(arguments: &[String], known: &[Known]) -> (Parsed, Result<()>) {
    let mut parsed = Parsed::default();
    let outcome = take(arguments, known, &mut parsed);
    (parsed, outcome)
}

/// The arguments that are no options, whatever the options are.
pub fn others(arguments: &[String], known: &[Known]) -> Vec<String> {
    let mut parsed = Parsed::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        // A wrong word counts for nothing.
        let _ = take_word(word, &mut words, known, &mut parsed);
    }
    parsed.rest
}

fn take(arguments: &[String], known: &[Known], parsed: &mut Parsed) -> Result<()> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        take_word(word, &mut words, known, parsed)?;
    }
    Ok(())
}

/// Takes `word`, and what belongs to it of the `words` after it.
fn take_word(
    word: &String,
    words: &mut std::slice::Iter<'_, String>,
    known: &[Known],
    parsed: &mut Parsed,
) -> Result<()> {
    if word == "--" {
        parsed.rest.extend(words.by_ref().cloned());
    } else if let Some(long) = word.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (long, None),
        };
        let Some((name, _, takes)) = known.iter().find(|(known, _, _)| *known == name) else {
            return refused(format!("invalid option -- '{long}'"));
        };
        let value = match (takes, value) {
            (false, None) => String::new(),
            (false, Some(_)) => return refused(format!("option takes no arguments -- '{name}'")),
            (true, Some(value)) => value,
            (true, None) => required(words.next(), name)?,
        };
        parsed.options.push((name, value));
    } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
        short(letters, known, words, parsed)?;
    } else {
        parsed.rest.push(word.clone());
    }
    Ok(())
}

/// Whether the last of `arguments` is an option's letter without its value.
pub fn lacks_value(arguments: &[String], known: &[Known]) -> bool {
    let takes = |found: Option<&Known>| found.is_some_and(|(_, _, takes)| *takes);
    let is_bare = |word: &str| {
        let mut letters = word.strip_prefix('-').unwrap_or("").chars();
        let letter = letters.next();
        letters.next().is_none() && takes(known.iter().find(|(_, short, _)| Some(*short) == letter))
    };
    // Whether the last word is an option depends on all before it.
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            return false;
        }
        if is_bare(word) && words.next().is_none() {
            return true;
        }
    }
    false
}

fn short(
    letters: &str,
    known: &[Known],
    words: &mut std::slice::Iter<'_, String>,
    parsed: &mut Parsed,
) -> Result<()> {
    let mut rest = letters.chars();
    while let Some(letter) = rest.next() {
        // A blank stands for an option without a letter.
        let has_letter = |option: &&Known| option.1 == letter && letter != ' ';
        let Some((name, _, takes)) = known.iter().find(has_letter) else {
            // The letter's first byte.
            let byte = text::of(&text::bytes(letter.encode_utf8(&mut [0; 4]))[..1]).into_owned();
            return refused(format!("invalid option -- '{byte}'"));
        };
        if !takes {
            parsed.options.push((name, String::new()));
            continue;
        }
        let glued = rest.as_str();
        let value = match glued.is_empty() {
            true => match words.next() {
                Some(value) => value.clone(),
                None => return refused(format!("option requires an argument -- '{letter}'")),
            },
            false => glued.to_string(),
        };
        parsed.options.push((name, value));
        break;
    }
    Ok(())
}

fn required(value: Option<&String>, name: &str) -> Result<String> {
    match value {
        Some(value) => Ok(value.clone()),
        None => refused(format!("option requires argument -- '{name}'")),
    }
}

/// Splits a line as the pipe mode does: blanks separate, quotes group words, and nothing else has a meaning. `None`
/// for a quote that does not end.
pub fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote, mut open) = (vec![], String::new(), None, false);
    for letter in line.chars() {
        match (letter, quote) {
            (letter, Some(end)) if letter == end => quote = None,
            ('"' | '\'', None) => (quote, open) = (Some(letter), true),
            (' ', None) => {
                if std::mem::take(&mut open) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (letter, _) => {
                word.push(letter);
                open = true;
            }
        }
    }
    if quote.is_some() {
        return None;
    }
    if open {
        words.push(word);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Known] = &[("step", 's', true), ("no-overwrite", 'O', false)];

    fn line(text: &str) -> Result<Parsed> {
        parse(&words(text).unwrap(), KNOWN)
    }

    #[test]
    fn options_stand_anywhere_until_two_dashes() {
        let parsed = line("a --step=5 b -Os7 -- -x").unwrap();
        assert_eq!(parsed.options, [("step", "5".into()), ("no-overwrite", "".into()), ("step", "7".into())]);
        assert_eq!(parsed.rest, ["a", "b", "-x"]);
    }

    #[test]
    fn unknown_and_incomplete_options_are_told() {
        assert_eq!(line("--st=5").unwrap_err().to_string(), "invalid option -- 'st=5'");
        assert_eq!(line("-1:2").unwrap_err().to_string(), "invalid option -- '1'");
        assert_eq!(line("--step").unwrap_err().to_string(), "option requires argument -- 'step'");
        let told = line("--no-overwrite=").unwrap_err().to_string();
        assert_eq!(told, "option takes no arguments -- 'no-overwrite'");
    }

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(words(r#"a "b c" 'd "e' f\ g """#).unwrap(), ["a", "b c", "d \"e", "f\\", "g", ""]);
        assert_eq!(words("a \"b"), None);
    }
}
