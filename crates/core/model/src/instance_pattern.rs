//! The part of a pattern between brackets: which instances it selects, by primary name and by labels.

use crate::escape::unescape;
use crate::glob::Glob;
use crate::instance::{self, Instance};
use crate::labels;
use crate::name::NameError;

/// Globs for the primary name and for some labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InstancePattern {
    /// `None`: any primary name, or none.
    name: Option<TextPattern>,
    /// Labels that must exist, with the pattern of each value.
    labels: Box<[(Box<str>, TextPattern)]>,
}

/// Text split at its unescaped stars, so that an escaped `*` matches only itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum TextPattern {
    Name(Box<str>),
    /// A glob over the text as it is *written* (escaped): in that form no escaped mark acts as a glob.
    Written(Glob),
}

impl InstancePattern {
    /// Reads `written`, which begins at byte `at` of `whole` (for the error's column).
    pub fn parse(written: &str, at: usize, whole: &str) -> Result<Self, NameError> {
        let (name, rest) = instance::split(written);
        let name = match rest {
            Some((0, _)) => None,
            _ => Some(TextPattern::parse(name, at, whole)?),
        };
        let mut read = Vec::new();
        if let Some((from, rest)) = rest {
            for (part_from, part) in labels::parts(rest) {
                let (label, value, value_at) = labels::split(part, at + from + part_from, whole)?;
                read.push((label.into(), TextPattern::parse(value, value_at, whole)?));
            }
        }
        Ok(InstancePattern { name, labels: read.into() })
    }

    pub fn matches(&self, instance: &Instance) -> bool {
        let is_value = |name: &str, pattern: &TextPattern| {
            instance.labels().any(|(found, value)| found == name && pattern.matches(value))
        };
        self.name.as_ref().is_none_or(|name| name.matches(instance.name()))
            && self.labels.iter().all(|(name, pattern)| is_value(name, pattern))
    }
}

impl TextPattern {
    fn parse(written: &str, at: usize, whole: &str) -> Result<Self, NameError> {
        let name = unescape(written, at, whole)?;
        Ok(if written.contains(['*', '?']) {
            // Between brackets these two need no escape, and people type them as they are.
            TextPattern::Written(Glob::new(&written.replace('/', "%2F").replace(':', "%3A")))
        } else {
            TextPattern::Name(name.into())
        })
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            TextPattern::Name(name) => **name == *text,
            TextPattern::Written(glob) => {
                // A text without a NUL is an instance's; its printed form is the written one.
                Instance::from_text(text).is_some_and(|written| glob.matches(&written.to_string()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Labels;
    use proptest::prelude::*;

    fn port(name: &str, port: &str) -> Instance {
        let labels = Labels::new([("port", port), ("net", "ib")]).unwrap();
        Instance::from_kernel(name.as_bytes()).with_labels(&labels)
    }

    #[test]
    fn labels_that_are_not_named_may_have_any_value() {
        let plain = Instance::from_kernel(b"mlx5_0");
        for (written, first, second, bare) in [
            ("mlx5_0", true, false, true),
            ("mlx5_*", true, true, true),
            ("port=1", true, true, false),
            ("mlx5_0,port=1", true, false, false),
            ("mlx5_*,port=1,net=i?", true, true, false),
            ("*,port=2", false, false, false),
            ("port=*", true, true, false),
            ("Port=1", false, false, false),
            ("net=ib,port=1", true, true, false),
        ] {
            let pattern = InstancePattern::parse(written, 0, written).unwrap();
            let found =
                [port("mlx5_0", "1"), port("mlx5_1", "1"), plain.clone()].map(|one| pattern.matches(&one));
            assert_eq!(found, [first, second, bare], "{written}");
        }
    }

    #[test]
    fn an_escaped_star_in_a_value_is_only_a_star() {
        let matches = |written: &str, value: &str| {
            InstancePattern::parse(written, 0, written).unwrap().matches(&port("d", value))
        };
        assert!(matches("port=%2A", "*") && !matches("port=%2A", "1"));
        assert!(matches("port=%2A*", "*1") && !matches("port=%2A*", "11"));
    }

    #[test]
    fn slashes_and_colons_may_be_typed_as_they_are() {
        let group = Instance::from_kernel(b"system.slice/a:b.service");
        for (written, is_it) in [
            ("system.slice/a:b.service", true),
            ("system.slice%2Fa%3Ab.service", true),
            ("system.slice/*", true),
            ("*/a:?.service", true),
            ("system.slice%2F*", true),
            ("*/c.service", false),
        ] {
            let pattern = InstancePattern::parse(written, 0, written).unwrap();
            assert_eq!(pattern.matches(&group), is_it, "{written}");
        }
    }

    proptest! {
        #[test]
        fn an_instance_is_matched_by_its_own_text(
            name in "\\PC{1,8}", labels in prop::collection::btree_map("[a-z]{1,4}", "[^\0]{1,8}", 0..3),
        ) {
            let labels = Labels::new(labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))).unwrap();
            let instance = Instance::from_kernel(name.as_bytes()).with_labels(&labels);
            let written = instance.to_string();
            prop_assert!(InstancePattern::parse(&written, 0, &written).unwrap().matches(&instance));
        }
    }
}
