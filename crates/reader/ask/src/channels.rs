//! Channels of a running khz: listed, shown, defined, removed; and streams with a condition.

use std::time::Duration;

use khz_model::http_names::{CHANNELS_PATH, STREAM_PATH};
use serde::{Deserialize, Serialize};

use crate::server::percent_encoded;
use crate::{AskError, Server, Stream};

/// A channel, and what its door has sent of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// The role of who defined it.
    pub maker: String,
    /// Streams of its rows.
    pub readers: u64,
    /// Rows that were sent, to all readers together.
    pub rows: u64,
    /// Rows that readers have missed.
    pub lost: u64,
    /// Bytes of the events with these rows.
    pub bytes: u64,
    /// The definition, as docs/channels.md describes it.
    pub definition: serde_json::Value,
    /// What nodes have said that have sent no row since. Not in a list of channels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<ChannelNotice>,
    /// What it costs the nodes. Not in a list of channels, and `None` from a khz that does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<ChannelCost>,
}

/// What nodes have told of a channel, each since it began with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelCost {
    /// How many nodes execute it now.
    pub nodes: u64,
    /// Their numbers together.
    #[serde(flatten)]
    pub all: NodeCost,
    /// The node that takes the most time for a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dearest: Option<DearestNode>,
    /// The node that leaves out the most series of it, because the memory of its channels is full. `None`: no node does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
}

/// Series that a node leaves out of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The node.
    pub node: String,
    /// How many.
    pub series: u64,
}

/// What a channel has cost nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCost {
    /// Rows of readings that its handler has taken.
    pub rows_in: u64,
    /// Rows that it has written for readers.
    pub rows_out: u64,
    /// Bytes of these rows.
    pub bytes_out: u64,
    /// Time spent computing and writing, without gathering.
    pub time_ns: u64,
}

/// A node, and what a channel costs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DearestNode {
    /// Its name.
    pub node: String,
    /// What the channel costs it.
    #[serde(flatten)]
    pub cost: NodeCost,
}

impl NodeCost {
    /// The time of a row in ns; `None` before the first.
    pub fn row_ns(&self) -> Option<f64> {
        (self.rows_in > 0).then(|| self.time_ns as f64 / self.rows_in as f64)
    }
}

/// What nodes have said about a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelNotice {
    /// The nodes.
    pub nodes: Vec<String>,
    /// One sentence.
    pub text: String,
}

/// All channels of a khz.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Channels {
    /// In the order of their names.
    pub channels: Vec<Channel>,
    /// They survive the end of the program.
    pub kept: bool,
}

impl Server {
    /// Every channel.
    ///
    /// # Errors
    /// See [`AskError`]; the same holds for every request.
    pub fn channels(&self) -> Result<Channels, AskError> {
        self.get_json(CHANNELS_PATH)
    }

    /// The channel of this name.
    pub fn channel(&self, name: &str) -> Result<Channel, AskError> {
        self.get_json(&path(name))
    }

    /// Defines a channel as JSON; `is_new`: only if there is no other one of this name. Otherwise only if there is one; a khz
    /// that is older than this condition refuses.
    pub fn define_channel(&self, name: &str, definition: &str, is_new: bool) -> Result<Channel, AskError> {
        let done =
            self.put(&format!("{}?{}", path(name), if is_new { "new=1" } else { "known=1" }), definition);
        done.map_err(|error| match error {
            AskError::Refused(text) if !is_new && self.has_no_channel(name) => AskError::NoSuchChannel(text),
            other => other,
        })
    }

    /// Removes a channel.
    pub fn remove_channel(&self, name: &str) -> Result<(), AskError> {
        #[derive(Deserialize)]
        struct Removed {
            #[serde(rename = "removed")]
            _name: String,
        }
        self.delete(&path(name)).map(|_: Removed| ())
    }

    /// The rows of a channel as they come, for at most `span` where one is given.
    pub fn channel_rows(&self, name: &str, span: Option<Duration>) -> Result<Stream, AskError> {
        let rows = self.rows(&format!("{}/stream", path(name)), span);
        rows.map_err(|error| match error {
            // It may refuse for another reason, such as too many streams.
            AskError::Refused(text) if self.has_no_channel(name) => AskError::NoSuchChannel(text),
            other => other,
        })
    }

    /// True if a list of channels lacks this one.
    fn has_no_channel(&self, name: &str) -> bool {
        self.channels().is_ok_and(|list| list.channels.iter().all(|channel| channel.name != name))
    }

    /// Rows as the parameters of a stream say (docs/http.md), for at most `span` where one is given.
    pub fn rows_of(&self, parameters: &[(&str, String)], span: Option<Duration>) -> Result<Stream, AskError> {
        let pairs: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
        self.rows(&format!("{STREAM_PATH}?{}", pairs.join("&")), span)
    }
}

fn path(name: &str) -> String {
    format!("{CHANNELS_PATH}/{}", percent_encoded(name))
}
