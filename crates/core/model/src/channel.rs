//! What a channel asks of a node: a name, and a handler as bytes. Only the crate `khz-plan` reads these bytes; hubs and links
//! carry them.

use std::fmt;
use std::sync::Arc;

use crate::name::NameError;

/// Longest name of a channel.
pub const CHANNEL_NAME_MAX: usize = 64;

/// The name of a channel: a small letter, then small letters, digits and `_`; at most [`CHANNEL_NAME_MAX`] bytes. The rows of a
/// channel have series of the metric `channel.NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelName(Arc<str>);

impl ChannelName {
    /// What the names of metrics of channels begin with.
    pub const PREFIX: &str = "channel.";

    /// Checks `text`.
    ///
    /// # Errors
    /// Returns what is wrong with it, and where.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let fits = |at: usize, byte: u8| {
            byte.is_ascii_lowercase() || at > 0 && (byte.is_ascii_digit() || byte == b'_')
        };
        if text.is_empty() {
            return Err(NameError::new(text, 0, "the name of a channel cannot be empty"));
        }
        if text.len() > CHANNEL_NAME_MAX {
            let problem = format!("the name of a channel has at most {CHANNEL_NAME_MAX} bytes");
            return Err(NameError::new(text, CHANNEL_NAME_MAX, problem));
        }
        match text.bytes().enumerate().find(|&(at, byte)| !fits(at, byte)) {
            None => Ok(ChannelName(text.into())),
            Some((at, _)) => Err(NameError::new(
                text,
                at,
                "the name of a channel starts with a small letter; small letters, digits and '_' follow",
            )),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the metric whose series the rows of the channel have.
    pub fn metric(&self) -> String {
        format!("{}{self}", ChannelName::PREFIX)
    }
}

impl fmt::Display for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a node does with rows before it sends them: it computes values, and leaves out rows. Channels with equal terms share one
/// lane. Terms without a handler are only a name that a hub knows ([`ChannelTerms::named`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChannelTerms {
    /// The channel's name.
    pub name: ChannelName,
    /// The handler, as docs/plan.md describes it. A node checks it.
    pub handler: Arc<[u8]>,
}

impl ChannelTerms {
    /// Those of the channel that the hub keeps under this name.
    pub fn named(name: ChannelName) -> Self {
        ChannelTerms { name, handler: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_metrics() {
        for good in ["a", "hot", "hot_2", &"x".repeat(CHANNEL_NAME_MAX)] {
            let name = ChannelName::new(good).unwrap();
            assert!(crate::name::is_metric_name(&name.metric()), "{good}");
        }
        for (bad, at) in
            [("", 0), ("Hot", 0), ("2hot", 0), ("_a", 0), ("a-b", 1), ("a.b", 1), ("hö", 1), ("a/../b", 1)]
        {
            assert_eq!(ChannelName::new(bad).unwrap_err().at, at, "{bad}");
        }
        assert_eq!(ChannelName::new(&"x".repeat(65)).unwrap_err().at, CHANNEL_NAME_MAX);
    }
}
