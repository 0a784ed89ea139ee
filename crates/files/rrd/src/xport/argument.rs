//! One argument of a table, as words between colons: `COMMAND:word:key=value`. Knows their order and keys, not what they
//! mean.
//!
//! Words with a key may stand anywhere. The command is the first word without one, and of another word with a key only
//! the value counts.

use crate::error::{Error, Result, refused};

/// The words of an argument that are not used yet.
pub struct Argument<'a> {
    /// As it was given, for messages.
    pub text: &'a str,
    /// What it begins with.
    pub command: String,
    words: Vec<String>,
}

/// What `DEF`, `CDEF` and `VDEF` begin with: `NAME=VALUE`.
pub(super) struct Name {
    /// `None` where there was a value alone.
    pub name: Option<String>,
    /// A path or an expression.
    pub value: String,
}

impl<'a> Argument<'a> {
    /// The words of `text`; a colon in one of them is written with a backslash.
    ///
    /// # Errors
    /// No word can be the command.
    pub fn parse(text: &'a str) -> Result<Self> {
        let mut words: Vec<String> =
            text.replace("\\:", "\u{0}").split(':').map(|word| word.replace('\u{0}', ":")).collect();
        let Some(index) = words.iter().position(|word| !word.contains('=')) else {
            return refused(format!("no command set in argument {text}"));
        };
        Ok(Self { text, command: words.remove(index), words })
    }

    /// Takes the last word with this key; the value.
    pub fn keyed(&mut self, key: &str) -> Option<String> {
        let is_wanted = |word: &String| word.split_once('=').is_some_and(|(own, _)| own == key);
        let index = self.words.iter().rposition(is_wanted)?;
        Some(value(&self.words.remove(index)))
    }

    /// Takes the word `flag`, which stands anywhere; whether it was there.
    pub fn flag(&mut self, flag: &str) -> bool {
        let index = self.words.iter().position(|word| word == flag);
        index.map(|index| self.words.remove(index)).is_some()
    }

    /// Takes the first word, whole.
    pub fn next_word(&mut self) -> Option<String> {
        (!self.words.is_empty()).then(|| self.words.remove(0))
    }

    /// Takes the first word; its value.
    pub fn next_value(&mut self) -> Option<String> {
        self.next_word().map(|word| value(&word))
    }

    /// Takes a name and its value, which may also have the keys `vname`, and `rrd` or `rpn`.
    pub(super) fn name(&mut self) -> Result<Name> {
        let name = self.keyed("vname");
        let given = self.keyed("rrd").or_else(|| self.keyed("rpn"));
        if let (Some(name), Some(value)) = (&name, &given) {
            return Ok(Name { name: Some(name.clone()), value: value.clone() });
        }
        let word = self.next_word().ok_or_else(|| {
            Error::Refused(format!("No argument for definition of vdef/rrd in {}", self.text))
        })?;
        let key = word.split_once('=').map(|(key, _)| key.to_string());
        Ok(Name { name: name.or(key), value: given.unwrap_or_else(|| value(&word)) })
    }

    /// Refuses words that nothing has used.
    ///
    /// # Errors
    /// There are some.
    pub fn end(&self) -> Result<()> {
        if self.words.is_empty() {
            return Ok(());
        }
        refused(format!("Unused Arguments \"{}\" in command : {}", self.words.join(":"), self.text))
    }
}

/// A word without its key.
fn value(word: &str) -> String {
    word.split_once('=').map_or(word, |(_, value)| value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_keys_may_stand_anywhere() {
        let mut argument = Argument::parse("step=3:a=f\\:g.rrd:DEF:x:cf=LAST").unwrap();
        assert_eq!(argument.command, "DEF");
        assert_eq!(argument.keyed("step").as_deref(), Some("3"));
        let name = argument.name().unwrap();
        assert_eq!((name.name.as_deref(), name.value.as_str()), (Some("a"), "f:g.rrd"));
        assert_eq!(argument.keyed("cf").as_deref(), Some("LAST"));
        assert_eq!(argument.next_value().as_deref(), Some("x"));
        argument.end().unwrap();
    }

    #[test]
    fn a_name_and_its_value_may_each_have_a_key() {
        let name =
            |text: &str| Argument::parse(text).unwrap().name().map(|name| (name.name, name.value)).ok();
        let is = |name: &str, value: &str| Some((Some(name.to_string()), value.to_string()));
        assert_eq!(name("CDEF:b=a"), is("b", "a"));
        assert_eq!(name("CDEF:vname=b:a"), is("b", "a"));
        assert_eq!(name("CDEF:vname=b:rpn=a"), is("b", "a"));
        assert_eq!(name("CDEF:rpn=a:b=c"), is("b", "a"));
        assert_eq!(name("CDEF:a"), Some((None, "a".into())));
        assert_eq!(name("CDEF:vname=b"), None);
    }

    #[test]
    fn of_equal_keys_the_last_counts_and_the_others_are_unused() {
        let mut argument = Argument::parse("XPORT:legend=1:legend=2").unwrap();
        assert_eq!(argument.keyed("legend").as_deref(), Some("2"));
        assert!(argument.end().unwrap_err().to_string().contains("\"legend=1\""));
    }
}
