//! Every view of the page in a real headless browser. One program: each of nineteen would link a gatherer, a hub and doors again.

mod access;
mod alerts;
mod boards;
mod cluster;
mod compare;
mod events;
mod firefox;
mod modules;
mod node_more;
mod page;
mod palette;
mod panel_modules;
mod past;
mod postcard;
mod query;
mod signals;
mod time;
mod tour;
mod waterfall;
