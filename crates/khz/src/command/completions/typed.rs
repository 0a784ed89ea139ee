//! The line that somebody has typed in bash, up to the cursor, and a word as bash takes it. Reads quotes and backslashes as bash
//! does. Variables and commands in the line stay text: nothing is executed.

/// What is typed.
#[derive(Debug, PartialEq, Eq)]
pub struct Typed {
    /// The words without their quotes; the last one is the word at the cursor, which may be empty.
    pub words: Vec<String>,
    /// The quote that is open at the cursor.
    quote: Option<char>,
    /// The part of the last word that bash leaves as it is: it replaces only what is after it.
    kept: String,
}

/// In these a new command begins.
const SEPARATORS: [char; 5] = [';', '|', '&', '(', '\n'];
/// Characters that mean themselves in a word of bash, beside letters and digits.
const PLAIN: &str = "._-+/:=@%,";
/// Characters with a meaning between double quotes.
const SPECIAL_IN_DOUBLE: [char; 5] = ['"', '\\', '$', '`', '!'];

impl Typed {
    /// Reads a line. After each of the characters `breaks` (COMP_WORDBREAKS) bash sees another word where we see one.
    pub fn read(line: &str, breaks: &str) -> Self {
        let (mut words, mut word, mut kept) = (Vec::new(), None::<String>, String::new());
        let mut quote = None;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match (quote, c) {
                (Some('\''), '\'') | (Some('"'), '"') => quote = None,
                (Some('"'), '\\') if chars.peek().is_some_and(|next| SPECIAL_IN_DOUBLE.contains(next)) => {
                    word.get_or_insert_default().extend(chars.next());
                }
                (Some(_), c) => word.get_or_insert_default().push(c),
                (None, '\\') => word.get_or_insert_default().extend(chars.next()),
                (None, '\'' | '"') => {
                    quote = Some(c);
                    kept.clone_from(word.get_or_insert_default());
                }
                (None, c) if SEPARATORS.contains(&c) => {
                    words.clear();
                    (word, kept) = (None, String::new());
                }
                (None, c) if c.is_whitespace() => {
                    words.extend(word.take());
                    kept.clear();
                }
                (None, c) => {
                    let word = word.get_or_insert_default();
                    word.push(c);
                    if breaks.contains(c) {
                        kept.clone_from(word);
                    }
                }
            }
        }
        words.push(word.unwrap_or_default());
        Typed { words, quote, kept }
    }

    /// What bash is to put instead of the last word, so that it means `word` to it; `None`: that cannot be written.
    pub fn reply(&self, word: &str) -> Option<String> {
        let rest = word.strip_prefix(self.kept.as_str())?;
        if rest.chars().any(char::is_control) {
            return None;
        }
        match self.quote {
            Some('\'') => (!rest.contains('\'')).then(|| rest.to_owned()),
            Some(_) => (!rest.contains(SPECIAL_IN_DOUBLE)).then(|| rest.to_owned()),
            None => Some(escaped(rest)),
        }
    }
}

/// A backslash before each character that may have a meaning.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 4);
    for c in text.chars() {
        if c.is_ascii() && !c.is_ascii_alphanumeric() && !PLAIN.contains(c) || c.is_whitespace() {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As bash has them by default.
    const BREAKS: &str = " \t\n\"'@><=;|&(:";

    fn replied(line: &str, word: &str) -> Option<String> {
        Typed::read(line, BREAKS).reply(word)
    }

    #[test]
    fn words_are_read_as_bash_reads_them() {
        for (line, words) in [
            ("khz get ", &["khz", "get", ""][..]),
            ("khz get mem.f", &["khz", "get", "mem.f"]),
            ("khz get 'node[1-3]:net.*[et", &["khz", "get", "node[1-3]:net.*[et"]),
            ("khz get \"a b\\\"c\"d e\\ f", &["khz", "get", "a b\"cd", "e f"]),
            ("cd /tmp; khz get $(rm x", &["rm", "x"]),
            ("echo `date` | khz get $HOME", &["khz", "get", "$HOME"]),
            ("khz get ''", &["khz", "get", ""]),
            ("khz get a\\", &["khz", "get", "a"]),
            ("", &[""]),
        ] {
            assert_eq!(Typed::read(line, BREAKS).words, words, "{line}");
        }
    }

    #[test]
    fn a_reply_means_the_word_whatever_is_in_it() {
        let word = "net.rx[a b;$(rm -rf ~)`x`'\"\\|&*?]";
        let reply = replied("khz get net", word).unwrap();
        assert_eq!(reply, r#"net.rx\[a\ b\;\$\(rm\ -rf\ \~\)\`x\`\'\"\\\|\&\*\?\]"#);
        assert_eq!(Typed::read(&format!("khz get {reply}"), BREAKS).words[2], word);
        assert_eq!(replied("khz get 'net", word), None, "no quote can be between single quotes");
        assert_eq!(replied("khz get \"net", word), None);
        assert_eq!(replied("khz get 'net", "net.rx[eth0]").unwrap(), "net.rx[eth0]");
        assert_eq!(replied("khz get net", "net.rx[a\nb]"), None, "no line break");
    }

    #[test]
    fn bash_replaces_only_what_is_after_the_last_of_its_breaks() {
        assert_eq!(replied("khz get node7:mem.f", "node7:mem.free").unwrap(), "mem.free");
        assert_eq!(replied("khz get 'node7:mem.f", "node7:mem.free").unwrap(), "node7:mem.free");
        assert_eq!(replied("khz get --server=unix:/r", "--server=unix:/run").unwrap(), "/run");
        assert_eq!(replied("khz get node7:mem.f", "node8:mem.free"), None);
    }
}
