//! Prometheus' text format, version 0.0.4, as programs write it into files for node_exporter: text to families of samples.
//! Any text gives either its families or an error with line and column.
//!
//! It accepts what Prometheus' own reader of this format accepts, and refuses what that refuses: a text that ends in the middle of a line,
//! a second `# TYPE` of a name, a `# TYPE` after a sample. Samples with a time are refused, since node_exporter leaves out
//! files that have one.

use std::borrow::Cow;
use std::collections::HashMap;

/// What `# TYPE` says of a sample's name, as far as it matters for a single number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `counter`.
    Counter,
    /// `gauge`.
    Gauge,
    /// `untyped`, no type, or a part of a histogram or a summary.
    Untyped,
}

/// All samples of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family<'a> {
    /// The name of its samples: `x_bucket` is another family than `x_sum`.
    pub name: &'a str,
    /// The text of `# HELP`, or nothing.
    pub help: Cow<'a, str>,
    /// What its numbers are.
    pub kind: Kind,
    /// The samples, in the order of the text.
    pub samples: Vec<Sample<'a>>,
}

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Its line in the text, from 1.
    pub line: u32,
    /// Names and values of its labels.
    pub labels: Vec<(&'a str, Cow<'a, str>)>,
    /// Its value.
    pub value: f64,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct ExpositionError {
    /// From 1.
    pub line: u32,
    /// In bytes, from 1.
    pub column: usize,
    /// In words.
    pub problem: &'static str,
}

/// What was declared of a name.
#[derive(Default)]
struct Declared<'a> {
    help: Option<Cow<'a, str>>,
    kind: Option<&'a str>,
}

/// The families of a text, in the order of their first samples.
///
/// # Errors
/// The text is not of this format, or a sample has a time.
pub fn families(text: &str) -> Result<Vec<Family<'_>>, ExpositionError> {
    let mut declared: HashMap<&str, Declared<'_>> = HashMap::new();
    let mut families: Vec<Family<'_>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (number, whole) in (1..).zip(text.split_inclusive('\n')) {
        let mut line = Line { number, whole, at: 0 };
        let Some(content) = whole.strip_suffix('\n') else {
            line.at = whole.len();
            return Err(line.error("the text ends in the middle of a line: a newline is missing"));
        };
        line.whole = content;
        line.blanks();
        if line.takes("#") {
            let is_known = |name: &str| places.contains_key(name);
            line.declaration(&mut declared, is_known)?;
        } else if !line.is_over() {
            let name = line.name(is_name_byte, "a sample begins with the name of a metric")?;
            let sample = line.sample()?;
            let place = *places.entry(name).or_insert_with(|| {
                families.push(family(name, &declared));
                families.len() - 1
            });
            families[place].samples.push(sample);
        }
    }
    Ok(families)
}

/// A family without samples yet, as it was declared.
fn family<'a>(name: &'a str, declared: &HashMap<&'a str, Declared<'a>>) -> Family<'a> {
    let own = declared.get(name);
    let kind = match own.and_then(|own| own.kind) {
        Some("counter") => Kind::Counter,
        Some("gauge") => Kind::Gauge,
        _ => Kind::Untyped,
    };
    // The parts of a histogram share the help of the whole.
    let whole = ["_bucket", "_sum", "_count"].iter().find_map(|part| declared.get(name.strip_suffix(part)?));
    let help = [own, whole].into_iter().flatten().find_map(|declared| declared.help.clone());
    Family { name, help: help.unwrap_or_default(), kind, samples: Vec::new() }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':'
}

/// The number of a word, as Go's `strconv.ParseFloat` reads it, or what is wrong with it. `+Inf` and `NaN` are numbers; a NaN has no
/// sign.
fn number(word: &str) -> Result<f64, &'static str> {
    let is_signed = word.starts_with(['+', '-']);
    match word.parse::<f64>() {
        Ok(number) if number.is_infinite() && word.bytes().any(|byte| byte.is_ascii_digit()) => {
            Err("the value is beyond what a double can be")
        }
        Ok(number) if !(number.is_nan() && is_signed) => Ok(number),
        _ => Err("here stands the value, a number"),
    }
}

fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// A line, and how far it was read.
struct Line<'a> {
    number: u32,
    whole: &'a str,
    at: usize,
}

impl<'a> Line<'a> {
    fn error(&self, problem: &'static str) -> ExpositionError {
        ExpositionError { line: self.number, column: self.at + 1, problem }
    }

    fn rest(&self) -> &'a str {
        &self.whole[self.at..]
    }

    fn is_over(&self) -> bool {
        self.rest().is_empty()
    }

    fn blanks(&mut self) {
        self.at += self.rest().bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    }

    /// Passes this mark, if it is next.
    fn takes(&mut self, mark: &str) -> bool {
        let is_next = self.rest().starts_with(mark);
        self.at += if is_next { mark.len() } else { 0 };
        is_next
    }

    /// The next word of these bytes, which does not begin with a digit, and the blanks after it.
    fn name(&mut self, is_of_it: fn(u8) -> bool, problem: &'static str) -> Result<&'a str, ExpositionError> {
        let rest = self.rest();
        let length = rest.bytes().take_while(|&byte| is_of_it(byte)).count();
        if length == 0 || rest.as_bytes()[0].is_ascii_digit() {
            return Err(self.error(problem));
        }
        self.at += length;
        self.blanks();
        Ok(&rest[..length])
    }

    /// The next word up to a blank, and the blanks after it.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let length = rest.find([' ', '\t']).unwrap_or(rest.len());
        self.at += length;
        self.blanks();
        &rest[..length]
    }

    /// What follows `#`: all but HELP and TYPE is a comment.
    fn declaration(
        &mut self,
        declared: &mut HashMap<&'a str, Declared<'a>>,
        has_samples: impl Fn(&str) -> bool,
    ) -> Result<(), ExpositionError> {
        self.blanks();
        let what = self.word();
        if what != "HELP" && what != "TYPE" {
            return Ok(());
        }
        let start = self.at;
        let name = self.name(is_name_byte, "here stands the name of a metric")?;
        let said = declared.entry(name).or_default();
        if what == "HELP" {
            if said.help.replace(unescaped(self.rest(), false)).is_some() {
                self.at = start;
                return Err(self.error("a second HELP of this name"));
            }
            return Ok(());
        }
        if said.kind.is_some() || has_samples(name) {
            self.at = start;
            return Err(self.error("a second TYPE of this name, or a TYPE after its first sample"));
        }
        let at = self.at;
        let kind = self.word();
        if !matches!(kind, "counter" | "gauge" | "histogram" | "summary" | "untyped") || !self.is_over() {
            self.at = at;
            return Err(self.error("the type is counter, gauge, histogram, summary or untyped"));
        }
        said.kind = Some(kind);
        Ok(())
    }

    /// What follows a sample's name.
    fn sample(&mut self) -> Result<Sample<'a>, ExpositionError> {
        let labels = if self.takes("{") { self.labels()? } else { Vec::new() };
        self.blanks();
        let at = self.at;
        let value = number(self.word()).map_err(|problem| Line { at, ..*self }.error(problem))?;
        if !self.is_over() {
            return Err(
                self.error("after the value nothing may stand: times are refused, the file's age tells")
            );
        }
        Ok(Sample { line: self.number, labels, value })
    }

    /// The labels after the opening brace.
    fn labels(&mut self) -> Result<Vec<(&'a str, Cow<'a, str>)>, ExpositionError> {
        let mut labels: Vec<(&str, Cow<'_, str>)> = Vec::new();
        loop {
            self.blanks();
            if self.takes("}") {
                return Ok(labels);
            }
            let at = self.at;
            let name = self.name(is_label_byte, "here stands the name of a label, or '}'")?;
            if name == "__name__" || labels.iter().any(|(other, _)| *other == name) {
                self.at = at;
                return Err(self.error("this label stands here twice, or is a name of its own"));
            }
            if !self.takes("=") {
                return Err(self.error("here stands '=' and the value of the label"));
            }
            self.blanks();
            labels.push((name, self.quoted()?));
            self.blanks();
            if !self.takes(",") && !self.rest().starts_with('}') {
                return Err(self.error("here stands ',' or '}'"));
            }
        }
    }

    /// A text in quotes, in which `\\`, `\"` and `\n` are escaped.
    fn quoted(&mut self) -> Result<Cow<'a, str>, ExpositionError> {
        if !self.takes("\"") {
            return Err(self.error("the value of a label stands in quotes"));
        }
        let rest = self.rest();
        let mut is_escaped = false;
        for (length, byte) in rest.bytes().enumerate() {
            match byte {
                _ if is_escaped && !matches!(byte, b'\\' | b'"' | b'n') => {
                    self.at += length;
                    return Err(self.error("after a backslash stands a backslash, a quote or n"));
                }
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => {
                    self.at += length + 1;
                    return Ok(unescaped(&rest[..length], true));
                }
                _ => {}
            }
        }
        Err(self.error("the quote of this value is not closed"))
    }
}

/// In help texts, a backslash before anything but `\` and `n` stays.
fn unescaped(text: &str, quotes: bool) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text.chars());
    while let Some(next) = rest.next() {
        match (next, rest.as_str().chars().next()) {
            ('\\', Some('n')) => plain.push('\n'),
            ('\\', Some('\\')) => plain.push('\\'),
            ('\\', Some('"')) if quotes => plain.push('"'),
            _ => {
                plain.push(next);
                continue;
            }
        }
        rest.next();
    }
    Cow::Owned(plain)
}

/// Writes a text with `\` and newlines escaped, and quotes where it stands in quotes.
pub fn escape(text: &str, quotes: bool, into: &mut String) {
    for sign in text.chars() {
        match sign {
            '\\' => into.push_str("\\\\"),
            '\n' => into.push_str("\\n"),
            '"' if quotes => into.push_str("\\\""),
            _ => into.push(sign),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(text: &str) -> String {
        families(text).unwrap_err().to_string()
    }

    #[test]
    fn a_text_gives_its_families_in_order() {
        let text = "# a comment\n\
            # HELP jobs_total Jobs\\nso \\far.\n# TYPE jobs_total counter\n\
            jobs_total{queue=\"a\\\"b\", host = \"\\\\x\\n\",} 1e3\n\n\
            \tup:now   +Inf\n\
            jobs_total -0.5\n\
            # TYPE took histogram\n# HELP took Seconds.\n\
            took_bucket{le=\"+Inf\"} 4\ntook_sum NaN\n";
        let families = families(text).unwrap();
        let names: Vec<_> = families.iter().map(|f| (f.name, f.kind, f.samples.len(), &*f.help)).collect();
        assert_eq!(
            names,
            [
                ("jobs_total", Kind::Counter, 2, "Jobs\nso \\far."),
                ("up:now", Kind::Untyped, 1, ""),
                ("took_bucket", Kind::Untyped, 1, "Seconds."),
                ("took_sum", Kind::Untyped, 1, "Seconds."),
            ]
        );
        let first = &families[0].samples[0];
        assert_eq!(first.labels, [("queue", "a\"b".into()), ("host", "\\x\n".into())]);
        assert_eq!((first.line, first.value), (4, 1000.0));
        assert_eq!(families[1].samples[0].value, f64::INFINITY);
        assert!(families[3].samples[0].value.is_nan());
        assert_eq!(super::families("").unwrap(), []);
    }

    /// As Prometheus' own reader: Go's `strconv.ParseFloat`, without hexadecimal digits and underscores.
    #[test]
    fn a_value_is_what_go_takes_for_one() {
        let value =
            |word: &str| families(&format!("a {word}\n")).map(|families| families[0].samples[0].value);
        for (word, number) in [
            ("+Inf", f64::INFINITY),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("1e308", 1e308),
            ("+5", 5.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1E3", 1_000.0),
            ("1e-400", 0.0),
            ("-0", 0.0),
        ] {
            assert_eq!(value(word), Ok(number), "{word}");
        }
        assert!(value("NaN").unwrap().is_nan() && value("nan").unwrap().is_nan());
        for word in ["1e400", "-1e400", "1e309", "1.8e308", "999999e999999"] {
            let error = value(word).unwrap_err();
            assert_eq!(
                (error.column, error.problem),
                (3, "the value is beyond what a double can be"),
                "{word}"
            );
        }
        for word in ["0x10", "0x1p4", "1_000", "-NaN", "+nan", "1e", "--1", "infinit", "1,5", "e5", "."] {
            assert_eq!(value(word).unwrap_err().problem, "here stands the value, a number", "{word}");
        }
    }

    #[test]
    fn an_error_says_where_and_what() {
        for (text, wanted) in [
            ("a 1", "line 1, column 4: the text ends in the middle of a line: a newline is missing"),
            ("a 1\n1a 2\n", "line 2, column 1: a sample begins with the name of a metric"),
            ("a one\n", "line 1, column 3: here stands the value, a number"),
            ("a\n", "line 1, column 2: here stands the value, a number"),
            (
                "a 1 1600000000000\n",
                "line 1, column 5: after the value nothing may stand: times are refused, the file's age tells",
            ),
            ("a{b=\"c\" 1\n", "line 1, column 9: here stands ',' or '}'"),
            ("a{b=\"c} 1\n", "line 1, column 6: the quote of this value is not closed"),
            ("a{b=\"\\d\"} 1\n", "line 1, column 7: after a backslash stands a backslash, a quote or n"),
            ("a{b=c} 1\n", "line 1, column 5: the value of a label stands in quotes"),
            ("a{b\n", "line 1, column 4: here stands '=' and the value of the label"),
            (
                "a{b=\"1\",b=\"2\"} 1\n",
                "line 1, column 9: this label stands here twice, or is a name of its own",
            ),
            ("# HELP a x\n# HELP a y\n", "line 2, column 8: a second HELP of this name"),
            (
                "a 1\n# TYPE a gauge\n",
                "line 2, column 8: a second TYPE of this name, or a TYPE after its first sample",
            ),
            (
                "# TYPE a gage\n",
                "line 1, column 10: the type is counter, gauge, histogram, summary or untyped",
            ),
            ("# TYPE ä gauge\n", "line 1, column 8: here stands the name of a metric"),
        ] {
            assert_eq!(error(text), wanted, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_label_and_help_is_read_back(value in ".*", help in "[^ \\t].*") {
            let mut text = String::from("# HELP a ");
            escape(&help, false, &mut text);
            text.push_str("\na{b=\"");
            escape(&value, true, &mut text);
            text.push_str("\"} 1\n");
            let families = families(&text).unwrap();
            prop_assert_eq!(&*families[0].help, &*help);
            prop_assert_eq!(&*families[0].samples[0].labels[0].1, &*value);
        }

        #[test]
        fn any_text_gives_families_or_an_error(text in "[ #aA_:{}=\",\\\\n0-9.eHELPTYPEcounter\\n\\t]{0,80}") {
            let _ = families(&text);
        }
    }
}
