//! Asks a running khz: over HTTP, in TLS where the address says `https://`, or over its local socket. The calls block;
//! a command asks once and ends.
//!
//! Start with two types:
//!
//! - [`Server`] is the address of a khz and what we show it. Each request is one method: [`Server::query`],
//!   [`Server::catalogue`], [`Server::nodes`], [`Server::forget`], [`Server::history`], [`Server::past`],
//!   [`Server::past_recording`], [`Server::stream`], [`Server::rows_of`], [`Server::promql`], [`Server::promql_range`],
//!   [`Server::channels`] and its siblings.
//! - [`Stream`] gives rows as they come, in [`Piece`]s. It also says when the server falls silent and when it is back.
//!
//! Numbers stay exact: a value is the decimal that the kernel printed ([`Cell`], [`State`]). A value that does not exist
//! is absent or failed, with the reason, and never 0. Times are nanoseconds since 1970 ([`khz_model::Nanos`]).
//!
//! The crate prints nothing, reads no configuration and starts no server. docs/http.md describes the same requests.

#![forbid(unsafe_code)]

mod actions;
mod address;
mod ahead;
mod answer;
mod black_box;
mod cell;
mod channels;
mod engine;
mod error;
mod event;
mod foreign;
mod history;
mod jobs;
mod labels;
pub mod local;
mod login;
mod misses;
mod nodes;
mod piece;
mod place;
mod post;
mod promql;
mod range;
mod rules;
mod secrets;
mod server;
mod silence;
mod stream;
mod transport;

pub use actions::{ActionAnswer, ActionRun, ActionsAnswer};
pub use answer::{Answer, NodeAnswer, SeriesAnswer, State, series_name};
pub use black_box::{FreezeAnswer, FreezeBegun, FreezeGroup};
pub use cell::Cell;
pub use channels::{Channel, ChannelCost, ChannelNotice, Channels, DearestNode, LeftOut, NodeCost};
pub use engine::{Engine, EngineAnswer, Way};
pub use error::{AskError, sentence};
pub use foreign::is_secret_header;
pub use jobs::{JobAnswer, JobChanged, JobsAnswer};
pub use login::{Login, is_named, secret};
pub use misses::MissesAnswer;
pub use nodes::{Ages, Away, Forgotten, LaneStatus, NodeStatus, Nodes, Refused};
pub use piece::{Column, Piece, PieceError, Row};
pub use place::{ForeignServer, Place};
pub use post::{NoAnswer, Post, PostAnswer};
pub use promql::{PromqlAnswer, PromqlData, PromqlLabels, PromqlPoint, PromqlSample, PromqlSeries};
pub use range::{Past, PastBytes, PastLine, PastLines, PastPart, PastPoint, PastRow};
pub use rules::{
    AlertAnswer, Alerts, AlertsData, FailureAnswer, GroupAnswer, JudgedAnswer, LeadAnswer, RuleAnswer,
    RulePicture, RulesAnswer, RulesData, RulesInUse, ScoreAnswer, ScoresAnswer,
};
pub use secrets::Secrets;
pub use server::Server;
pub use stream::Stream;
