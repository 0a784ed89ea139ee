//! Labels: names with values that tell series of one metric apart, or that describe a node. They are held
//! sorted by name, each name once, so equal sets are equal texts.

use std::fmt;
use std::sync::Arc;

use crate::escape::{escape, unescape};
use crate::name::{METRIC_NAME_MAX, NameError};

/// The most labels of one series, or of one set: node_exporter's longest, `node_dmi_info`, has 19.
pub const LABELS_MAX: usize = 64;
/// The most bytes of all names and values of one set together, and two more bytes for each label.
pub const LABELS_BYTES_MAX: usize = 4_096;
/// Longest name of a label.
pub const LABEL_NAME_MAX: usize = METRIC_NAME_MAX;

/// Between two labels. No name or value has it ([`crate::Instance::from_kernel`]).
pub(crate) const MARK: char = '\0';

/// A set of labels, none twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<str>);

/// Why labels are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// A name that Prometheus would refuse, or one of its own.
    #[error(
        "'{0}' is not the name of a label: it has up to 128 letters, digits and '_', and begins with a letter, or '_' \
         and another character than '_'"
    )]
    Name(String),
    /// The same name again.
    #[error("the label '{0}' is there twice")]
    Twice(String),
    /// A value with a byte that marks the end of a label.
    #[error("the value of the label '{0}' contains a NUL")]
    Nul(String),
    /// More than [`LABELS_MAX`].
    #[error("a series has at most {LABELS_MAX} labels")]
    TooMany,
    /// More than [`LABELS_BYTES_MAX`].
    #[error("the labels of a series have at most {LABELS_BYTES_MAX} bytes together")]
    TooLong,
}

/// True for the name of a label: letters, digits and `_`, no digit first, and not `__`, with which Prometheus'
/// own names begin.
pub fn is_label_name(text: &str) -> bool {
    text.len() <= LABEL_NAME_MAX
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && !text.starts_with("__")
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl Labels {
    /// The set of these names and values, in any order. A label with an empty value is left out: to
    /// Prometheus the two are the same.
    pub fn new<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, LabelError> {
        let (mut pairs, mut bytes) = (Vec::new(), 0);
        for (name, value) in labels {
            if !is_label_name(name) {
                return Err(LabelError::Name(shortened(name)));
            }
            if value.contains(MARK) {
                return Err(LabelError::Nul(name.to_owned()));
            }
            if !value.is_empty() {
                bytes += name.len() + value.len() + 2;
                pairs.push((name, value));
            }
            if pairs.len() > LABELS_MAX {
                return Err(LabelError::TooMany);
            }
            if bytes > LABELS_BYTES_MAX {
                return Err(LabelError::TooLong);
            }
        }
        pairs.sort_unstable();
        if let Some(twice) = pairs.windows(2).find(|two| two[0].0 == two[1].0) {
            return Err(LabelError::Twice(twice[0].0.to_owned()));
        }
        let labels: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(Labels(labels.join("\0").into()))
    }

    /// Reads what [`fmt::Display`] prints: `machine=x86_64,release=6.18`.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.is_empty() { Ok(Labels::default()) } else { parse(text, 0, text) }
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        pairs(&self.0)
    }

    /// The value of a label.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// True without labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads labels as [`Labels::as_marked`] writes them; `None` if they are not sorted, not different, or break a
    /// limit.
    pub fn from_marked(marked: &str) -> Option<Self> {
        let labels = Labels::new(pairs(marked)).ok()?;
        (labels.as_marked() == marked).then_some(labels)
    }

    /// The labels as one text, sorted: `name=value`, with NUL between two. Part of the block format.
    pub fn as_marked(&self) -> &str {
        &self.0
    }

    /// True when another one shares this one's text.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Bytes of text that it holds.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}

impl Default for Labels {
    fn default() -> Self {
        Labels("".into())
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_pairs(&self.0, f)
    }
}

/// Names and values out of the text between the marks.
pub(crate) fn pairs(marked: &str) -> impl Iterator<Item = (&str, &str)> + Clone {
    marked.split(MARK).filter_map(|label| label.split_once('='))
}

/// `name=value,name=value`, with escaped values.
pub(crate) fn write_pairs(marked: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (number, (name, value)) in pairs(marked).enumerate() {
        write!(f, "{}{name}=", if number == 0 { "" } else { "," })?;
        escape(value, f)?;
    }
    Ok(())
}

/// The parts between commas, each with its offset in `text`.
pub(crate) fn parts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split(',').map(move |part| {
        let from = at;
        at += part.len() + 1;
        (from, part)
    })
}

/// Reads `name=value,name=value`, which begins at byte `at` of `whole`.
pub(crate) fn parse(text: &str, at: usize, whole: &str) -> Result<Labels, NameError> {
    let mut read = Vec::new();
    for (from, part) in parts(text) {
        let (name, value, value_at) = split(part, at + from, whole)?;
        read.push((name, unescape(value, value_at, whole)?));
    }
    Labels::new(read.iter().map(|(name, value)| (*name, value.as_str())))
        .map_err(|error| NameError::new(whole, at, error.to_string()))
}

/// Splits one `name=value`; the third is the offset of the value in `whole`.
pub(crate) fn split<'a>(
    part: &'a str,
    at: usize,
    whole: &str,
) -> Result<(&'a str, &'a str, usize), NameError> {
    let Some((name, value)) = part.split_once('=') else {
        return Err(NameError::new(
            whole,
            at,
            "a label is written name=value, and the instance's own name comes before its labels, as in [eth0,port=1]; a comma inside a name is written %2C",
        ));
    };
    if !is_label_name(name) {
        return Err(NameError::new(whole, at, LabelError::Name(shortened(name)).to_string()));
    }
    let value_at = at + name.len() + 1;
    if value.is_empty() {
        return Err(NameError::new(
            whole,
            value_at,
            "the label has no value: leave the label out; in a pattern, * means any value",
        ));
    }
    if let Some(equals) = value.find('=') {
        return Err(NameError::new(whole, value_at + equals, "inside a value '=' is written %3D"));
    }
    Ok((name, value, value_at))
}

/// A text for an error: other people's names may be long.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(labels: &[(&str, &str)]) -> Result<Labels, LabelError> {
        Labels::new(labels.iter().copied())
    }

    #[test]
    fn the_order_of_labels_does_not_matter_and_an_empty_one_is_none() {
        let labels = set(&[("port", "1"), ("device", "mlx5_0"), ("gone", "")]).unwrap();
        assert_eq!(labels, set(&[("device", "mlx5_0"), ("port", "1")]).unwrap());
        assert_eq!(labels.to_string(), "device=mlx5_0,port=1");
        assert_eq!((labels.get("port"), labels.get("gone"), labels.get("por")), (Some("1"), None, None));
        let empty = set(&[]).unwrap();
        assert!(empty.is_empty() && empty.iter().next().is_none() && !labels.is_empty());
        assert_eq!(Labels::parse("").as_ref(), Ok(&empty));
    }

    #[test]
    fn labels_that_are_no_set_are_refused() {
        assert_eq!(set(&[("a", "1"), ("b", "2"), ("a", "3")]), Err(LabelError::Twice("a".into())));
        assert!(set(&[("a", "1"), ("A", "2")]).is_ok(), "names that differ in case are two");
        for name in ["", "1a", "a-b", "ä", "__name__", "a b", "a=b"] {
            assert_eq!(set(&[(name, "x")]), Err(LabelError::Name(name.into())), "{name:?}");
        }
        for name in ["a", "_a", "A_1", "a__b"] {
            assert!(set(&[(name, "x")]).is_ok(), "{name:?}");
        }
        assert_eq!(set(&[("a", "x\0b=1")]), Err(LabelError::Nul("a".into())));
        let LabelError::Name(short) = set(&[(&"é".repeat(1_000), "x")]).unwrap_err() else { panic!() };
        assert_eq!(short.chars().count(), 41);
    }

    #[test]
    fn a_set_has_a_largest_size() {
        let names: Vec<String> = (0..=LABELS_MAX).map(|number| format!("l{number}")).collect();
        let with = |count: usize| Labels::new(names[..count].iter().map(|name| (name.as_str(), "v")));
        assert!(with(LABELS_MAX).is_ok());
        assert_eq!(with(LABELS_MAX + 1), Err(LabelError::TooMany));
        let long = |bytes: usize| set(&[("a", &"v".repeat(bytes))]);
        assert!(long(LABELS_BYTES_MAX - 3).is_ok());
        assert_eq!(long(LABELS_BYTES_MAX - 2), Err(LabelError::TooLong));
    }

    #[test]
    fn errors_point_at_the_column() {
        for (text, column) in
            [("a", 1), ("a=1,b", 5), ("a=", 3), ("=1", 1), ("a=1,b=2=3", 8), ("a=1,a=2", 1), ("a=%4", 3)]
        {
            let error = Labels::parse(text).unwrap_err();
            assert_eq!(error.at + 1, column, "{text}: {error}");
        }
    }

    #[test]
    fn only_the_one_text_of_a_set_is_read_as_that_set() {
        let labels = set(&[("b", "2"), ("a", "1=1")]).unwrap();
        assert_eq!(labels.as_marked(), "a=1=1\0b=2");
        assert_eq!(Labels::from_marked(labels.as_marked()).as_ref(), Some(&labels));
        assert_eq!(Labels::from_marked(""), Some(Labels::default()));
        for wrong in ["b=2\0a=1", "a=1\0a=2", "a=1\0", "\0a=1", "a", "a=", "1=a", "a=1\0b"] {
            assert_eq!(Labels::from_marked(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_labels_are_read_back_from_their_text(
            labels in prop::collection::btree_map("[a-zA-Z][a-zA-Z0-9_]{0,6}", "[^\0]{1,20}", 0..6),
        ) {
            let labels = Labels::new(labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))).unwrap();
            prop_assert_eq!(Labels::parse(&labels.to_string()).unwrap(), labels);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-c=,%0-9é]{0,20}") {
            if let Ok(labels) = Labels::parse(&text) {
                prop_assert_eq!(Labels::parse(&labels.to_string()), Ok(labels));
            }
        }
    }
}
