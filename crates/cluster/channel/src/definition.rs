//! A channel as somebody defines it: texts with units. Reads and writes it as JSON; `interest.rs` checks and compiles it.

use serde::{Deserialize, Serialize};

use crate::error::ChannelError;
use crate::limits::DEFINITION_BYTES;

/// A channel as somebody defines it (docs/channels.md). Quantities are texts with a unit, as on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// A hostlist: which nodes. `None`: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// Patterns: rows have the readings of these series, as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<String>,
    /// Rows have this function of a window of each of these series, as `mean 1s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<String>,
    /// PromQL: rows have what it gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expr: Option<String>,
    /// Rows have what this program gives for rows of the series: a WebAssembly module, packed, in base64
    /// ([`crate::program_text`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// How often a node gathers for it; `None`: once a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Gather at that rate even where the kernel refreshes the number more slowly.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    /// One row at most in each interval of this length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// PromQL: rows are sent while it has a value. `None`: while `expr` has one; for `series`, always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// How long the condition must hold first.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub holds: Option<String>,
    /// PromQL: what has begun goes on until this has a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unless: Option<String>,
    /// The condition counts if it held in this many of the last `of` rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<u8>,
    /// See `at_least`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u8>,
    /// One row when the condition begins to hold, instead of all while it holds.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
    /// With `once`: no other row for this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<String>,
    /// Rows that differ less than this from the one before are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadband: Option<String>,
    /// While the condition does not hold, rows are sent all the same, and nodes gather this many times more slowly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower: Option<u32>,
    /// When the condition begins to hold, rows of this long before are sent, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Rows of this long after the condition has held are sent, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The store keeps its rows for this long, if it has room for them. `None`: not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<String>,
    /// The hub's sinks that get its rows, by the names in its configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
}

impl Definition {
    /// Reads a definition as JSON.
    ///
    /// # Errors
    /// Returns what is wrong, with line and column.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ChannelError> {
        if bytes.len() > DEFINITION_BYTES {
            return Err(ChannelError::TooLong(bytes.len()));
        }
        // serde would take the fields of a list, too.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(ChannelError::Unreadable("it is no JSON object".to_owned()));
        }
        serde_json::from_slice(bytes).map_err(|error| ChannelError::Unreadable(error.to_string()))
    }

    /// The definition as JSON, on one line.
    pub fn to_json(&self) -> String {
        // Texts, numbers and flags are always JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The parameters of a stream that is this channel without its name (docs/http.md).
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let flag = |flag: bool| flag.then(|| "1".to_owned());
        let number = |number: Option<u8>| number.map(|number| number.to_string());
        let single = [
            ("nodes", self.nodes.clone()),
            ("each", self.each.clone()),
            ("expr", self.expr.clone()),
            ("rate", self.rate.clone()),
            ("exact", flag(self.exact)),
            ("every", self.every.clone()),
            ("when", self.when.clone()),
            ("for", self.holds.clone()),
            ("unless", self.unless.clone()),
            ("at_least", number(self.at_least)),
            ("of", number(self.of)),
            ("once", flag(self.once)),
            ("quiet", self.quiet.clone()),
            ("deadband", self.deadband.clone()),
            ("slower", self.slower.map(|times| times.to_string())),
            ("before", self.before.clone()),
            ("after", self.after.clone()),
        ];
        let series = self.series.iter().map(|pattern| ("match", pattern.clone()));
        series.chain(single.into_iter().filter_map(|(name, value)| Some((name, value?)))).collect()
    }

    /// Whether a node has to do anything with the rows.
    pub fn has_handler(&self) -> bool {
        let plain = Definition {
            name: self.name.clone(),
            nodes: self.nodes.clone(),
            series: self.series.clone(),
            rate: self.rate.clone(),
            exact: self.exact,
            ..Definition::default()
        };
        *self != plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_definition_reads_as_a_person_would_write_it() {
        let text = r#"{"name":"hot","nodes":"n[1-4]","expr":"node_load1 > 2","rate":"10Hz","for":"5s"}"#;
        let definition = Definition::from_json(text.as_bytes()).unwrap();
        assert_eq!(definition.holds.as_deref(), Some("5s"));
        assert_eq!(definition.to_json(), text);
        assert!(definition.has_handler());
        assert!(!Definition { expr: None, holds: None, ..definition }.has_handler());
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        for (text, problem) in [
            ("{\"nmae\":\"x\"}", "unknown field `nmae`"),
            ("{\"once\":1}", "line 1 column 9"),
            ("[]", "it is no JSON object"),
            ("", "it is no JSON object"),
            ("{\"series\":\"a\"}", "a sequence"),
            ("{\"at_least\":300}", "300"),
        ] {
            let error = Definition::from_json(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
        let long = vec![b' '; DEFINITION_BYTES + 1];
        assert!(matches!(Definition::from_json(&long), Err(ChannelError::TooLong(_))));
    }

    const FIELDS: &[&str] = &[
        "name", "nodes", "series", "each", "expr", "rate", "exact", "every", "when", "for", "unless",
        "at_least", "of", "once", "quiet", "deadband", "slower", "before", "after", "keep", "program",
        "other",
    ];

    const VALUES: &[&str] = &[
        "\"hot\"",
        "\"n[1-4]\"",
        "[\"mem.*\"]",
        "[]",
        "[1]",
        "\"histogram 10s\"",
        "\"mean 1s\"",
        "\"node_load1 > 2\"",
        "\"10Hz\"",
        "\"5s\"",
        "\"5%\"",
        "\"\"",
        "true",
        "false",
        "null",
        "0",
        "2",
        "3",
        "64",
        "-1",
        "1e99",
        "300",
        "{}",
        "\"\\u0000\"",
    ];

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Definition::from_json(&bytes).map(|definition| definition.interest().is_ok());
        }

        /// Any of the fields, with values that are right, nearly right, or of another type.
        #[test]
        fn any_json_is_refused_or_compiled_and_what_was_read_is_written_so_that_it_is_read_again(
            fields in prop::collection::btree_map(prop::sample::select(FIELDS), prop::sample::select(VALUES), 0..8),
        ) {
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            let text = format!("{{{}}}", fields.join(","));
            if let Ok(definition) = Definition::from_json(text.as_bytes()) {
                let again = Definition::from_json(definition.to_json().as_bytes());
                prop_assert_eq!(again.unwrap(), definition.clone());
                if let Ok(interest) = definition.interest() {
                    let terms = interest.channel.unwrap();
                    prop_assert!(khz_plan::Handler::take(&terms.handler).is_ok(), "{text}");
                }
            }
        }

        #[test]
        fn no_texts_make_the_compiler_panic(
            series in "[a-z.*\\[\\]{},:0-9]{0,20}", expr in "\\PC{0,40}", when in "[a-z(){}\\[\\]0-9 <>=\",.]{0,40}",
            span in "[0-9a-z.]{0,6}", count in any::<u8>(),
        ) {
            let definition = Definition {
                name: "x".into(), series: vec![series], holds: Some(span), when: Some(when), at_least: Some(count),
                of: Some(9), ..Definition::default()
            };
            let _ = definition.interest();
            let _ = Definition { series: Vec::new(), expr: Some(expr), ..definition }.interest();
        }
    }
}
