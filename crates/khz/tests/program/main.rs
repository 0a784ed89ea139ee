//! The whole program as a user meets it: real processes, real sockets on loopback, what they print and how
//! they exit.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod actions;
mod bind;
mod certs;
mod channels;
mod churn;
mod client;
mod crowded;
mod described;
mod elsewhere;
mod engine;
mod examples;
mod exposition;
mod fail_back;
mod health;
mod hostlists;
mod kept;
mod link;
mod live;
mod memory;
mod parquet;
mod past;
mod process;
mod promql;
mod publish;
mod ranked;
mod record;
mod recorded;
mod recorder;
mod refused;
mod remote_read;
mod remote_write;
mod remote_write_tls;
mod ring;
mod ring_place;
mod roles;
mod rrd;
mod rules;
mod rules_at_nodes;
mod scores;
mod service;
mod shared_rules;
mod simulate;
mod slowed;
mod slurm;
mod store;
mod summaries;
mod text;
mod text_source;
mod usage;
mod wakeups;
mod watched;
