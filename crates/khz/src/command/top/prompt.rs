//! A line that somebody types: a search, or a time.

/// Characters of a prompt; a longer text is no name.
const CHARS_MAX: usize = 256;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A part of a name.
    Search,
    /// A moment.
    Time,
}

/// The line.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// What for.
    pub kind: Kind,
    /// What is typed until now.
    pub text: String,
}

impl Prompt {
    /// An empty line.
    pub fn new(kind: Kind) -> Self {
        Prompt { kind, text: String::new() }
    }

    /// A character more.
    pub fn put(&mut self, c: char) {
        if self.text.chars().count() < CHARS_MAX && !c.is_control() {
            self.text.push(c);
        }
    }

    /// The last character goes; false where there was none.
    pub fn erase(&mut self) -> bool {
        self.text.pop().is_some()
    }

    /// What stands before the text.
    pub fn label(&self) -> &'static str {
        match self.kind {
            Kind::Search => "search: ",
            Kind::Time => "go to (14:03, -10m): ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_limit_and_no_control_characters() {
        let mut prompt = Prompt::new(Kind::Search);
        "a\u{1b}\n".chars().for_each(|c| prompt.put(c));
        assert_eq!(prompt.text, "a");
        (0..1_000).for_each(|_| prompt.put('x'));
        assert_eq!(prompt.text.len(), CHARS_MAX);
        assert!(prompt.erase() && prompt.text.len() == CHARS_MAX - 1);
    }
}
