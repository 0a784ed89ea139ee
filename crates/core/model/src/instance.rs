//! An instance: which one of several like things a series is about. Most have one name, `eth0`; some need
//! further labels, `mlx5_0,port=1`. Held unescaped, printed escaped.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::escape::{escape, unescape};
use crate::labels::{self, Labels, MARK};
use crate::name::{NameError, stable_hash};

/// Longest primary name, unescaped: no kernel object has a longer one (NAME_MAX).
pub const INSTANCE_MAX: usize = 255;

/// Which one of several like things: `eth0` in `net.rx_bytes[eth0]`, and in
/// `infiniband.rx_bytes[mlx5_0,port=1]` the device `mlx5_0`, which is its *primary* name, with the label `port`.
/// The primary name is the value of the label that the metric's catalogue entry names; it is empty where a
/// series has labels alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Instance(
    /// The primary name; then, for each label, the mark and `name=value`. It is one text, so that the many
    /// instances without labels need no more memory.
    Arc<str>,
);

impl Instance {
    /// Takes the name that the kernel prints. Bytes that are not UTF-8, and NUL, become `\xFF`, so that two names
    /// that differ only in them stay different. A name beyond [`INSTANCE_MAX`] is [`shortened`].
    pub fn from_kernel(name: &[u8]) -> Self {
        Instance(kernel_text(&shortened(name)).into())
    }

    /// The instance with exactly this primary name; `None` if the name has a NUL.
    pub fn from_text(name: &str) -> Option<Self> {
        (!name.contains(MARK)).then(|| Instance(name.into()))
    }

    /// The same instance with these labels instead of those that it has.
    #[must_use]
    pub fn with_labels(&self, labels: &Labels) -> Self {
        if labels.is_empty() {
            return Instance(self.name().into());
        }
        Instance(format!("{}{MARK}{}", self.name(), labels.as_marked()).into())
    }

    /// The same instance with `end` after its primary name.
    #[must_use]
    pub fn with_name_end(&self, end: &str) -> Self {
        let (name, labels) = (self.name(), &self.0[self.name().len()..]);
        Instance(format!("{name}{}{labels}", kernel_text(end.as_bytes())).into())
    }

    /// The unescaped primary name, without the labels.
    pub fn name(&self) -> &str {
        self.0.split_once(MARK).map_or(&self.0, |(name, _)| name)
    }

    /// The primary name; `None` where the instance has labels alone.
    pub fn primary(&self) -> Option<&str> {
        Some(self.name()).filter(|name| !name.is_empty() || !self.has_labels())
    }

    /// Names and values of the labels, sorted by name.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        labels::pairs(self.marked())
    }

    /// The labels as a set of their own.
    pub fn only_labels(&self) -> Labels {
        Labels::from_marked(self.marked()).unwrap_or_default()
    }

    /// True when it has labels besides its primary name.
    pub fn has_labels(&self) -> bool {
        self.0.contains(MARK)
    }

    /// Bytes of text that it holds.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Reads an escaped instance, as [`fmt::Display`] prints it.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        Self::parse_at(text, 0, text)
    }

    /// Reads `text`, which begins at byte `at` of `whole` (for the error's column).
    pub(crate) fn parse_at(text: &str, at: usize, whole: &str) -> Result<Self, NameError> {
        let (name, labels) = split(text);
        let instance = Instance::from_text(&unescape(name, at, whole)?)
            .ok_or_else(|| NameError::new(whole, at, "a name cannot contain a NUL"))?;
        match labels {
            None => Ok(instance),
            Some((from, labels)) => Ok(instance.with_labels(&labels::parse(labels, at + from, whole)?)),
        }
    }

    fn marked(&self) -> &str {
        self.0.split_once(MARK).map_or("", |(_, labels)| labels)
    }
}

/// The name with at most [`INSTANCE_MAX`] bytes. A longer name becomes its beginning, a hash of the whole name, and its end, so
/// that two names stay different.
pub fn shortened(name: &[u8]) -> Cow<'_, [u8]> {
    if name.len() <= INSTANCE_MAX {
        return name.into();
    }
    let hash = format!("~{:016x}~", stable_hash(name));
    let begin = (INSTANCE_MAX - hash.len()).div_ceil(2);
    let end = name.len() - (INSTANCE_MAX - hash.len() - begin);
    [&name[..begin], hash.as_bytes(), &name[end..]].concat().into()
}

/// Splits what stands between brackets into the primary name and, with their offset, the labels.
pub(crate) fn split(text: &str) -> (&str, Option<(usize, &str)>) {
    let first = text.split(',').next().unwrap_or_default();
    if first.contains('=') {
        return ("", Some((0, text)));
    }
    (first, text.get(first.len() + 1..).map(|labels| (first.len() + 1, labels)))
}

/// The kernel's bytes as text: a byte that is not UTF-8, or is NUL, becomes an escape such as `\xFF`. A backslash becomes `\x5C`
/// where it would look like the beginning of such an escape, so two names never become one. Other backslashes stay, such as those of
/// systemd (`\x2d`).
pub fn kernel_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        for (at, c) in valid.char_indices() {
            match c {
                MARK => text.push_str("\\x00"),
                '\\' if byte_at(&valid[at..]).is_some() => text.push_str("\\x5C"),
                c => text.push(c),
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02X}")));
    }
    text
}

/// The bytes of a text that [`kernel_text`] has made.
pub fn kernel_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, marked) = rest.split_at(at);
        bytes.extend(before.bytes());
        let (byte, length) = byte_at(marked).map_or((b'\\', 1), |byte| (byte, 4));
        bytes.push(byte);
        rest = &marked[length..];
    }
    bytes.extend(rest.bytes());
    bytes
}

/// The byte that a text begins with, if it begins as [`kernel_text`] writes bytes: `\x`, and two digits of 00, 5C, or 80 to FF.
fn byte_at(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("\\x")?.get(..2)?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
    let byte = u8::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(is_digit))?;
    (byte == 0 || byte == b'\\' || !byte.is_ascii()).then_some(byte)
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(self.name(), f)?;
        if self.has_labels() && !self.name().is_empty() {
            f.write_str(",")?;
        }
        labels::write_pairs(self.marked(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labelled(name: &str, pairs: &[(&str, &str)]) -> Instance {
        Instance::from_kernel(name.as_bytes()).with_labels(&Labels::new(pairs.iter().copied()).unwrap())
    }

    #[test]
    fn long_names_are_shortened_and_stay_different() {
        let long = |begin: &str, end: &str| format!("{begin}{}{end}", "x".repeat(400));
        let names = [long("a", "a"), long("b", "a"), long("a", "b"), "x".repeat(254) + "é", "x".repeat(256)];
        let short: Vec<Instance> = names.iter().map(|name| Instance::from_kernel(name.as_bytes())).collect();
        for (number, one) in short.iter().enumerate() {
            assert!(short[..number].iter().all(|other| other != one), "{one}");
            assert!(
                one.name().starts_with(&names[number][..100])
                    && one.name().ends_with(&names[number][300.min(names[number].len())..]),
                "{one}"
            );
        }
        let most = "x".repeat(INSTANCE_MAX);
        assert_eq!(Instance::from_kernel(most.as_bytes()).name(), most);
        // Names on the disk have it: it may not change.
        assert_eq!(&Instance::from_kernel(&[b'x'; 256]).name()[119..137], "~295fa478294e7725~");
    }

    #[test]
    fn labels_follow_the_primary_name() {
        let port = labelled("mlx5_0", &[("port", "1"), ("net", "a=b,c")]);
        assert_eq!(port.to_string(), "mlx5_0,net=a%3Db%2Cc,port=1");
        assert_eq!((port.name(), port.has_labels()), ("mlx5_0", true));
        assert_eq!(port.labels().collect::<Vec<_>>(), [("net", "a=b,c"), ("port", "1")]);
        assert_eq!(Instance::parse("mlx5_0,port=1,net=a%3Db%2Cc"), Ok(port.clone()));
        assert_eq!(port.only_labels().to_string(), "net=a%3Db%2Cc,port=1");
        assert_eq!(port.with_name_end("-copy1").to_string(), "mlx5_0-copy1,net=a%3Db%2Cc,port=1");
        let bare = port.with_labels(&Labels::new([]).unwrap());
        assert_eq!(bare, Instance::from_kernel(b"mlx5_0"));
        assert_eq!(
            (bare.has_labels(), bare.labels().count(), bare.to_string().as_str()),
            (false, 0, "mlx5_0")
        );
    }

    #[test]
    fn an_instance_may_have_labels_alone() {
        let one = labelled("", &[("port", "1")]);
        assert_eq!((one.to_string().as_str(), one.name(), one.primary()), ("port=1", "", None));
        assert_eq!(Instance::parse("port=1"), Ok(one));
        let empty = Instance::from_kernel(b"");
        assert_eq!(
            (empty.primary(), labelled("mlx5_0", &[("port", "1")]).primary()),
            (Some(""), Some("mlx5_0"))
        );
    }

    #[test]
    fn a_name_with_marks_of_labels_is_no_label() {
        let name = Instance::from_kernel(b"port=1,b=2\0c=3");
        assert_eq!(name.to_string(), "port%3D1%2Cb%3D2%5Cx00c%3D3");
        assert_eq!((name.has_labels(), Instance::parse(&name.to_string())), (false, Ok(name)));
        assert_eq!(Instance::from_text("a\0b=c"), None);
        assert!(Instance::parse("a%00b").is_err() && Instance::parse("a,b=c%00d").is_err());
    }

    #[test]
    fn errors_point_at_the_column() {
        for (text, column) in [("eth0,1", 6), ("eth0,", 6), ("eth0,a=", 8), ("a,b=1,c", 7), ("a,1=2", 3)] {
            let error = Instance::parse(text).unwrap_err();
            assert_eq!(error.at + 1, column, "{text}: {error}");
        }
    }

    #[test]
    fn a_backslash_is_changed_only_where_it_would_be_mistaken() {
        for (bytes, text) in [
            (&b"\xffq"[..], "\\xFFq"),
            (b"\\xFFq", "\\x5CxFFq"),
            (b"\\x5CxFFq", "\\x5Cx5CxFFq"),
            (b"\\x00", "\\x5Cx00"),
            (b"dev-disk-by\\x2duuid", "dev-disk-by\\x2duuid"),
            (b"a\\x5cb \\xff \\x7F \\xF \\", "a\\x5cb \\xff \\x7F \\xF \\"),
            (b"\\\xff", "\\\\xFF"),
        ] {
            assert_eq!(kernel_text(bytes), text);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_back_so_two_names_never_become_one(
            parts in prop::collection::vec(
                prop_oneof![
                    any::<Vec<u8>>(),
                    Just(b"\\".to_vec()), Just(b"x".to_vec()), Just(b"\\xFF".to_vec()), Just(b"5C".to_vec()),
                    Just(vec![0xff]), Just(b"F".to_vec()), Just(vec![0]), Just("\u{e4}".as_bytes().to_vec()),
                ],
                0..8,
            ),
        ) {
            let bytes = parts.concat();
            let text = kernel_text(&bytes);
            prop_assert_eq!(kernel_bytes(&text), bytes);
            prop_assert!(!text.contains(MARK));
        }

        #[test]
        fn any_text_has_bytes(text: String) {
            kernel_bytes(&text);
        }

        #[test]
        fn any_instance_with_labels_is_read_back_from_its_text(
            name in "\\PC{0,20}", labels in prop::collection::btree_map("[a-z]{1,4}", "[^\0]{1,12}", 0..4),
        ) {
            let labels = Labels::new(labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))).unwrap();
            let instance = Instance::from_kernel(name.as_bytes()).with_labels(&labels);
            prop_assert_eq!(Instance::parse(&instance.to_string()).unwrap(), instance);
        }
    }
}
