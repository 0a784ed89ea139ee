//! The names of things: nodes, instances and series, and how they are written and read. Refuses a name that
//! could be taken for something else: a node name is never a path, an instance never closes its own bracket.

use std::fmt;
use std::sync::Arc;

pub use crate::instance::{INSTANCE_MAX, Instance};

/// Longest node name, as in DNS.
pub const NODE_NAME_MAX: usize = 253;
/// Longest metric name.
pub const METRIC_NAME_MAX: usize = 128;

/// What is wrong with a name, and where. Prints a caret under the column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} (column {})\n  {text}\n  {:>column$}", self.at_char() + 1, '^', column = self.at_char() + 1)]
pub struct NameError {
    /// The whole text that was read.
    pub text: String,
    /// Byte offset of the problem in `text`.
    pub at: usize,
    /// One sentence that says what to write instead.
    pub problem: String,
}

impl NameError {
    pub(crate) fn new(text: &str, at: usize, problem: impl Into<String>) -> Self {
        NameError { text: text.to_owned(), at: at.min(text.len()), problem: problem.into() }
    }

    /// The column of the problem in characters, from 0.
    fn at_char(&self) -> usize {
        self.text.char_indices().take_while(|(i, _)| *i < self.at).count()
    }
}

/// How the names of owners of recorded series begin. No node can have such a name.
const OWNER_PREFIX: &str = "khz_rules.";
/// The most bytes of an owner's name that are its group's, escaped. A longer one is cut, and its hash follows.
const OWNER_GROUP_BYTES: usize = 200;

/// The name of a node: a letter or digit, then letters, digits, `-`, `.`, `_`; at most [`NODE_NAME_MAX`] bytes. A few names belong
/// to owners of recorded series and not to nodes ([`crate::recorded`]); names from outside never equal them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeName(Arc<str>);

impl NodeName {
    /// Checks `text`.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.starts_with(OWNER_PREFIX) {
            let problem = format!(
                "a node name cannot begin with '{OWNER_PREFIX}': khz keeps the results of rules there"
            );
            return Err(NameError::new(text, 0, problem));
        }
        NodeName::stored(text)
    }

    /// The owner of what a group of rules records. Each group has its own.
    pub fn of_group(group: &str) -> Self {
        let mut name = OWNER_PREFIX.to_owned();
        for byte in group.bytes() {
            match byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') {
                true => name.push(byte.into()),
                false => name.push_str(&format!("_{byte:02X}")),
            }
            if name.len() > OWNER_PREFIX.len() + OWNER_GROUP_BYTES {
                // No escaped byte begins like this.
                name.push_str(&format!("_.{:016x}", stable_hash(group.as_bytes())));
                break;
            }
        }
        NodeName(name.into())
    }

    /// True for an owner of recorded series.
    pub fn is_owner(&self) -> bool {
        is_owner(&self.0)
    }

    /// Checks `text` out of a file of khz: the name of a node or of an owner of recorded series.
    pub fn stored(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::new(text, 0, "a node name cannot be empty"));
        }
        if text.len() > NODE_NAME_MAX {
            return Err(NameError::new(
                text,
                NODE_NAME_MAX,
                format!("a node name has at most {NODE_NAME_MAX} bytes"),
            ));
        }
        let fits = |i: usize, b: u8| b.is_ascii_alphanumeric() || (i > 0 && matches!(b, b'-' | b'.' | b'_'));
        match text.bytes().enumerate().find(|&(i, b)| !fits(i, b)) {
            None => Ok(NodeName(text.into())),
            Some((at, _)) => Err(NameError::new(
                text,
                at,
                "a node name starts with a letter or digit; letters, digits, '-', '.' and '_' follow",
            )),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// True for the name of an owner of recorded series.
pub(crate) fn is_owner(name: &str) -> bool {
    name.starts_with(OWNER_PREFIX)
}

/// FNV-1a: the same in every version, because names on the disk have it.
pub(crate) fn stable_hash(text: &[u8]) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.iter().copied().fold(0xcbf2_9ce4_8422_2325, step)
}

/// True for a dotted metric name: words of `a-z 0-9 _` with single dots between them.
pub fn is_metric_name(text: &str) -> bool {
    text.len() <= METRIC_NAME_MAX
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.split('.').all(|word| {
            !word.is_empty()
                && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        })
}

/// The full name of a series: `node7:net.rx_bytes[eth0]`, `node7:infiniband.rx_bytes[mlx5_0,port=1]`; without a
/// node it means the local node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeriesName {
    /// The node, where one is named.
    pub node: Option<NodeName>,
    /// The metric's dotted name.
    pub metric: Box<str>,
    /// The instance, where the metric has instances.
    pub instance: Option<Instance>,
}

impl SeriesName {
    /// Reads `[NODE:]METRIC[[INSTANCE]]`, no globs.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let parts = Parts::split(text)?;
        let node = match parts.node {
            None => None,
            Some(name) => Some(NodeName::new(name).map_err(|e| NameError::new(text, e.at, e.problem))?),
        };
        if !is_metric_name(parts.metric) {
            return Err(NameError::new(
                text,
                parts.metric_at,
                "a metric name is lower-case words with dots, as mem.free",
            ));
        }
        let instance = match parts.instance {
            None => None,
            Some(instance) => Some(Instance::parse_at(instance, parts.instance_at, text)?),
        };
        Ok(SeriesName { node, metric: parts.metric.into(), instance })
    }
}

impl fmt::Display for SeriesName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = &self.node {
            write!(f, "{node}:")?;
        }
        f.write_str(&self.metric)?;
        match &self.instance {
            Some(instance) => write!(f, "[{instance}]"),
            None => Ok(()),
        }
    }
}

/// `NODE:METRIC[INSTANCE]` split at its marks, for names and patterns alike. Checks only the marks.
pub(crate) struct Parts<'a> {
    pub node: Option<&'a str>,
    pub metric: &'a str,
    pub metric_at: usize,
    pub instance: Option<&'a str>,
    pub instance_at: usize,
}

impl<'a> Parts<'a> {
    pub(crate) fn split(text: &'a str) -> Result<Self, NameError> {
        let wrong = |at, problem: &str| Err(NameError::new(text, at, problem));
        let (node, metric_at) = match colon_outside_brackets(text) {
            Some(colon) => (Some(&text[..colon]), colon + 1),
            None => (None, 0),
        };
        let rest = &text[metric_at..];
        let (metric, instance, instance_at) = match rest.find('[') {
            None => (rest, None, text.len()),
            Some(open) => {
                let from = metric_at + open + 1;
                let Some(close) = text[from..].find(']').map(|i| i + from) else {
                    return wrong(from - 1, "'[' is never closed");
                };
                if close + 1 != text.len() {
                    return wrong(close + 1, "nothing may follow the instance's ']'");
                }
                let instance = &text[from..close];
                if let Some(at) = instance.find('[') {
                    return wrong(from + at, "inside an instance '[' is written %5B");
                }
                if instance.is_empty() {
                    return wrong(from, "the brackets name no instance; [*] means all");
                }
                (&rest[..open], Some(instance), from)
            }
        };
        if let Some(at) = metric.find([']', ':', '/']) {
            return wrong(metric_at + at, "a metric name is lower-case words with dots, as mem.free");
        }
        if metric.is_empty() {
            return wrong(metric_at, "the metric is missing; * means all");
        }
        Ok(Parts { node, metric, metric_at, instance, instance_at })
    }
}

/// The ':' that ends the node part. Brackets before it belong to a hostlist; brackets after it, to an
/// instance.
fn colon_outside_brackets(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            b':' if depth == 0 => return Some(i),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_series_name_comes_apart() {
        let name = SeriesName::parse("node7:net.rx_bytes[eth0]").unwrap();
        assert_eq!(name.node.as_ref().unwrap().as_str(), "node7");
        assert_eq!(&*name.metric, "net.rx_bytes");
        assert_eq!(name.instance.as_ref().unwrap().name(), "eth0");
        assert_eq!(name.to_string(), "node7:net.rx_bytes[eth0]");
        assert_eq!(SeriesName::parse("load.1m").unwrap().to_string(), "load.1m");
    }

    #[test]
    fn marks_inside_an_instance_are_escaped() {
        let instance = Instance::from_kernel(b"a[b]:c*/d%");
        assert_eq!(instance.to_string(), "a%5Bb%5D%3Ac%2A%2Fd%25");
        assert_eq!(Instance::parse(&instance.to_string()).unwrap(), instance);
        assert_eq!(Instance::from_kernel(b"..").to_string(), "%2E%2E");
        let turned = Instance::from_kernel("eth\u{202e}0\u{200b}".as_bytes());
        assert_eq!(turned.to_string(), "eth%E2%80%AE0%E2%80%8B");
        assert_eq!(Instance::parse(&turned.to_string()).unwrap(), turned);
    }

    #[test]
    fn every_mark_is_escaped_and_no_other_letter_is() {
        for mark in ["%", "[", "]", ":", "*", "?", "/", "\\", ",", "\"", "'", " ", "\t", "\u{7f}", "\u{a0}"] {
            let escaped: String = mark.bytes().map(|byte| format!("%{byte:02X}")).collect();
            assert_eq!(Instance::from_kernel(mark.as_bytes()).to_string(), escaped, "{mark:?}");
        }
        for plain in ["eth0.100", "a-b_c", "...", ".", "ä"] {
            let shown = Instance::from_kernel(plain.as_bytes()).to_string();
            assert_eq!(shown == plain, plain != ".", "{plain}: as a file name it would be a directory");
        }
        for wrong in ["%", "%4", "%4g", "%+4", "a%"] {
            assert!(Instance::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Instance::parse("%41%c3%A4b").unwrap().name(), "Aäb");
        assert!(Instance::parse("%ff").is_err_and(|error| error.problem.contains("UTF-8")));
    }

    #[test]
    fn names_have_a_maximum_length() {
        let metric = |length: usize| is_metric_name(&"m".repeat(length));
        assert!(metric(METRIC_NAME_MAX) && !metric(METRIC_NAME_MAX + 1));
        let long = "i".repeat(INSTANCE_MAX + 10);
        assert_eq!(Instance::from_kernel(long.as_bytes()).name().len(), INSTANCE_MAX);
        for (name, is_one) in [
            ("mem.free", true),
            ("a_1.b2", true),
            ("", false),
            ("1a", false),
            ("a.", false),
            (".a", false),
            ("a..b", false),
            ("a.B", false),
            ("a-b", false),
        ] {
            assert_eq!(is_metric_name(name), is_one, "{name}");
        }
        let error = NodeName::new(&"n".repeat(NODE_NAME_MAX + 1)).unwrap_err();
        assert_eq!(error.at, NODE_NAME_MAX);
    }

    #[test]
    fn an_error_points_at_the_letter_not_at_the_byte() {
        let error = Instance::parse("äö%4").unwrap_err();
        assert_eq!(
            (error.at, error.to_string().split_once(" (column ").unwrap().1),
            (4, "3)\n  äö%4\n    ^")
        );
    }

    #[test]
    fn a_node_may_be_written_with_brackets_and_marks_may_not_stand_elsewhere() {
        let parts = |text| Parts::split(text).map(|parts| (parts.node, parts.metric, parts.instance));
        assert_eq!(parts("n[1-2],m[3]:cpu.*[*]").unwrap(), (Some("n[1-2],m[3]"), "cpu.*", Some("*")));
        assert_eq!(parts("cpu.*[7]").unwrap(), (None, "cpu.*", Some("7")));
        assert_eq!(parts("n1:fs.*[h:/a]").unwrap(), (Some("n1"), "fs.*", Some("h:/a")));
        for (text, at) in [
            ("", 0),
            ("n:", 2),
            ("a]b", 1),
            ("a/b", 1),
            ("n:a:b", 3),
            ("n:x[a[b]", 5),
            ("x[]", 2),
            ("x[a]b", 4),
        ] {
            assert_eq!(Parts::split(text).err().map(|error| error.at), Some(at), "{text}");
        }
    }

    #[test]
    fn names_that_differ_only_in_invalid_bytes_stay_different() {
        let [one, two] = [b"eth\xFE", b"eth\xFF"].map(|name| Instance::from_kernel(name));
        assert_ne!(one, two);
        assert_eq!(two.name(), "eth\\xFF");
        assert_eq!(Instance::parse(&two.to_string()), Ok(two));
    }

    #[test]
    fn errors_point_at_the_column() {
        for (text, column) in [
            ("node7:", 7),
            ("net.rx_bytes[eth0", 13),
            ("net.rx_bytes[]", 14),
            ("net.rx_bytes[eth0]x", 19),
            ("-n:mem.free", 1),
            ("n:Mem.Free", 3),
            ("n:mem..free", 3),
            ("net.x[%4]", 7),
        ] {
            let error = SeriesName::parse(text).unwrap_err();
            assert_eq!(error.at + 1, column, "{text}: {error}");
        }
        let shown = SeriesName::parse("net.rx_bytes[eth0").unwrap_err().to_string();
        assert_eq!(shown, "'[' is never closed (column 13)\n  net.rx_bytes[eth0\n              ^");
    }

    #[test]
    fn a_node_name_is_never_a_path() {
        for text in ["", ".", "..", "a/b", ".hidden", "-x", "a b", "ä", &"n".repeat(254)] {
            assert!(NodeName::new(text).is_err(), "{text}");
        }
        for text in ["n", "7", "node-7.rack_2", &"n".repeat(253)] {
            assert!(NodeName::new(text).is_ok(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_instance_survives_its_own_name(kernel in "\\PC{1,40}") {
            let name = SeriesName { node: None, metric: "net.rx_bytes".into(), instance: Some(Instance::from_kernel(kernel.as_bytes())) };
            prop_assert_eq!(SeriesName::parse(&name.to_string()).unwrap(), name);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,40}") {
            if let Err(error) = SeriesName::parse(&text) {
                let _ = error.to_string();
            }
        }
    }
}
