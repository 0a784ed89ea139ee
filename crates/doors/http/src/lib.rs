//! The HTTP door: the page, the Prometheus exposition, queries, streams and history over one listening
//! socket. It reads only through [`khz_model::Query`], so it does not know what answers. It starts no threads
//! of its own, gathers nothing, and sleeps when no request comes.

#![forbid(unsafe_code)]

mod accept;
mod actions;
mod assets;
mod bearer;
mod black_box;
mod boards;
mod bodies;
mod catalog;
mod channel_cost;
mod channel_rows;
mod channels;
mod clock;
mod collect;
mod counters;
mod descriptions;
mod door;
mod encoder;
mod engine;
mod event_stream;
mod events;
mod exchange;
mod exposition;
mod guard;
mod gzip;
mod history;
mod jobs;
mod json;
mod latest;
mod layout;
pub mod limits;
mod measure;
mod misses;
mod node_names;
mod nodes;
mod pages;
mod params;
mod places;
mod prometheus;
mod published;
mod range;
mod refusal;
mod roster;
mod routes;
mod rules;
mod scrape_nodes;
mod steps;
mod stream;
mod stream_bell;
mod talk;
mod tallies;
mod targets;
mod tiles;
mod tour;
mod turns;
mod versions;

pub use actions::Actions;
pub use assets::page_file;
pub use black_box::{AFTER as FROZEN_AFTER, BEFORE as FROZEN_BEFORE, BlackBox, FreezeRefusal, FreezeWish};
pub use boards::{PanelKind, SavedBoard, SavedBoards, SavedPanel, Shows};
pub use collect::collectors;
pub use counters::Counters;
pub use door::{Bound, Door, NodeGroup};
pub use engine::{ASKED_BY, Engine, EngineAnswer, EngineError, Question};
pub use exposition::{Format, render, render_own};
pub use jobs::JobDesk;
pub use limits::Limits;
pub use routes::documented;
pub use tour::{Stop, Tour};
