//! The words of a template: text, and what stands within actions.

use super::TemplateFault;

/// A word within an action.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    /// `{{`
    Open,
    /// `}}`
    Close,
    Text(String),
    Space,
    Identifier(String),
    /// `.name`
    Field(String),
    Dot,
    /// `$name`, `$` alone is empty.
    Variable(String),
    Quoted(String),
    Int(i64),
    Float(f64),
    /// `(`, `)`, `|`, `,`, `=`
    Sign(char),
    /// `:=`
    Declare,
    End,
}

const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// All words, each with the byte where it begins.
pub(super) fn words(text: &str) -> Result<Vec<(usize, Word)>, TemplateFault> {
    let mut lexer = Lexer { text, at: 0, words: Vec::new() };
    lexer.outside()?;
    lexer.words.push((text.len(), Word::End));
    Ok(lexer.words)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    words: Vec<(usize, Word)>,
}

fn fault<T>(at: usize, problem: impl Into<String>) -> Result<T, TemplateFault> {
    Err(TemplateFault { at, problem: problem.into() })
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Text and actions.
    fn outside(&mut self) -> Result<(), TemplateFault> {
        let mut trims = false;
        loop {
            let rest = self.rest();
            let next = rest.find("{{");
            let mut text = &rest[..next.unwrap_or(rest.len())];
            let begin = self.at + text.len();
            let (mut shown, mut shown_at) = (text, self.at);
            if trims {
                shown = text.trim_start_matches(SPACE);
                shown_at += text.len() - shown.len();
            }
            let trims_before = next.is_some_and(|next| is_left_trim(&rest[next + 2..]));
            if trims_before {
                shown = shown.trim_end_matches(SPACE);
            }
            if !shown.is_empty() {
                self.words.push((shown_at, Word::Text(shown.to_owned())));
            }
            if next.is_none() {
                return Ok(());
            }
            self.at = begin + 2;
            let inside = self.at + if trims_before { 2 } else { 0 };
            text = &self.text[inside..];
            if text.starts_with("/*") {
                let Some(end) = text.find("*/") else { return fault(begin, "this comment has no end") };
                let after = &text[end + 2..];
                trims = after.starts_with(" -}}") || after.starts_with("\t-}}") || after.starts_with("\n-}}");
                if !trims && !after.starts_with("}}") {
                    return fault(begin, "a comment stands alone in its action: {{/* ... */}}");
                }
                self.at = inside + end + 2 + if trims { 4 } else { 2 };
                continue;
            }
            self.words.push((begin, Word::Open));
            self.at = inside;
            trims = self.inside(begin)?;
        }
    }

    /// The words of an action; true if the white space after it is left out.
    fn inside(&mut self, begin: usize) -> Result<bool, TemplateFault> {
        loop {
            let (at, rest) = (self.at, self.rest());
            let Some(c) = rest.chars().next() else {
                return fault(begin, "this action has no end: write }}");
            };
            let has_trim = c.is_ascii_whitespace() && rest[1..].starts_with("-}}");
            if has_trim || rest.starts_with("}}") {
                self.words.push((at, Word::Close));
                self.at += if has_trim { 4 } else { 2 };
                return Ok(has_trim);
            }
            if SPACE.contains(&c) {
                let all = rest.len() - rest.trim_start_matches(SPACE).len();
                // The space that belongs to a trim marker is left.
                let all = if rest[all..].starts_with("-}}") { all - 1 } else { all };
                self.at += all.max(1);
                self.words.push((at, Word::Space));
                continue;
            }
            let word = self.word(c)?;
            self.words.push((at, word));
        }
    }

    fn word(&mut self, c: char) -> Result<Word, TemplateFault> {
        let (at, rest) = (self.at, self.rest());
        let named = |text: &str| {
            text.chars().take_while(|c| *c == '_' || c.is_alphanumeric()).map(char::len_utf8).sum::<usize>()
        };
        match c {
            '(' | ')' | '|' | ',' | '=' => {
                self.at += 1;
                Ok(Word::Sign(c))
            }
            ':' if rest.starts_with(":=") => {
                self.at += 2;
                Ok(Word::Declare)
            }
            '"' => self.quoted(),
            '`' => match rest[1..].find('`') {
                Some(end) => {
                    self.at += end + 2;
                    Ok(Word::Quoted(rest[1..=end].replace('\r', "")))
                }
                None => fault(at, "this text in ` has no end"),
            },
            '\'' => self.character(),
            '$' => {
                let length = named(&rest[1..]);
                self.at += 1 + length;
                Ok(Word::Variable(rest[1..=length].to_owned()))
            }
            '.' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let length = named(&rest[1..]);
                self.at += 1 + length;
                Ok(if length == 0 { Word::Dot } else { Word::Field(rest[1..=length].to_owned()) })
            }
            '+' | '-' | '.' | '0'..='9' => self.number(),
            c if c == '_' || c.is_alphabetic() => {
                let length = named(rest);
                self.at += length;
                Ok(Word::Identifier(rest[..length].to_owned()))
            }
            c => fault(at, format!("'{}' cannot stand here", c.escape_debug())),
        }
    }

    fn quoted(&mut self) -> Result<Word, TemplateFault> {
        let begin = self.at;
        let mut text = String::new();
        self.at += 1;
        loop {
            let (at, Some(c)) = (self.at, self.rest().chars().next()) else {
                return fault(begin, "this text has no end: write \"");
            };
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(Word::Quoted(text)),
                '\n' => return fault(begin, "this text has no end in its line: write \""),
                '\\' => text.push(self.escape(at, '"')?),
                c => text.push(c),
            }
        }
    }

    fn character(&mut self) -> Result<Word, TemplateFault> {
        let begin = self.at;
        self.at += 1;
        let wrong = "a character in ' is one character";
        let Some(c) = self.rest().chars().next() else { return fault(begin, wrong) };
        self.at += c.len_utf8();
        let c = if c == '\\' { self.escape(begin + 1, '\'')? } else { c };
        if !self.rest().starts_with('\'') {
            return fault(begin, wrong);
        }
        self.at += 1;
        Ok(Word::Int(i64::from(u32::from(c))))
    }

    /// What follows a backslash.
    fn escape(&mut self, at: usize, quote: char) -> Result<char, TemplateFault> {
        let wrong = || fault(at, "this is no escape: write \\n, \\t, \\\\, \\\" or \\u00e4");
        let Some(c) = self.rest().chars().next() else { return wrong() };
        self.at += c.len_utf8();
        let digits = match c {
            'a' => return Ok('\x07'),
            'b' => return Ok('\x08'),
            'f' => return Ok('\x0c'),
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            'v' => return Ok('\x0b'),
            '\\' => return Ok('\\'),
            c if c == quote => return Ok(c),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return wrong(),
        };
        let code = self.rest().get(..digits).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        // A byte beyond ASCII alone would be no UTF-8.
        let Some(c) = code.and_then(char::from_u32).filter(|c| digits > 2 || c.is_ascii()) else {
            return wrong();
        };
        self.at += digits;
        Ok(c)
    }

    fn number(&mut self) -> Result<Word, TemplateFault> {
        let (at, rest) = (self.at, self.rest());
        let mut length = usize::from(rest.starts_with(['+', '-']));
        let is_hex = rest[length..].starts_with("0x") || rest[length..].starts_with("0X");
        let mut before = ' ';
        for c in rest[length..].chars() {
            let is_sign = matches!(c, '+' | '-')
                && ((matches!(before, 'e' | 'E') && !is_hex) || matches!(before, 'p' | 'P'));
            if !(c.is_alphanumeric() || c == '.' || c == '_' || is_sign) {
                break;
            }
            length += c.len_utf8();
            before = c;
        }
        self.at += length;
        let word = rest[..length].replace('_', "");
        let (sign, plain) = match word.strip_prefix(['+', '-']) {
            Some(plain) => (if word.starts_with('-') { "-" } else { "" }, plain.to_ascii_lowercase()),
            None => ("", word.to_ascii_lowercase()),
        };
        let digits = |digits: &str, base| i64::from_str_radix(&format!("{sign}{digits}"), base).ok();
        let whole = if let Some(hex) = plain.strip_prefix("0x") {
            digits(hex, 16)
        } else if let Some(octal) = plain.strip_prefix("0o") {
            digits(octal, 8)
        } else if let Some(binary) = plain.strip_prefix("0b") {
            digits(binary, 2)
        } else if plain.len() > 1 && plain.starts_with('0') && plain.bytes().all(|byte| byte.is_ascii_digit())
        {
            digits(&plain, 8)
        } else {
            plain.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits(&plain, 10)).flatten()
        };
        if let Some(number) = whole {
            return Ok(Word::Int(number));
        }
        let is_float =
            plain.starts_with(|c: char| c.is_ascii_digit() || c == '.') && plain.contains(['.', 'e']);
        match format!("{sign}{plain}").parse::<f64>() {
            Ok(number) if is_float && number.is_finite() => {
                // As in Go, a float that is whole serves as a whole number, too; its kind decides.
                Ok(Word::Float(number))
            }
            _ => fault(at, format!("'{}' is no number", &rest[..length])),
        }
    }
}

/// True for `- ` after the opening braces.
fn is_left_trim(text: &str) -> bool {
    text.starts_with('-') && text[1..].starts_with(SPACE)
}
