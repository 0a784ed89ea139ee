//! What runs until somebody stops it: `khz` alone, an agent, a hub, and the parts that they share. Only here
//! configuration, gathering, the link and the doors meet.

pub mod actions;
pub mod agent;
pub mod alone;
pub mod apart;
pub mod black_box;
pub mod boosts;
pub mod channels;
pub mod door_access;
pub mod doors;
pub mod engine;
pub mod gatherer;
pub mod hub;
pub mod job_socket;
pub mod jobs;
pub mod local_socket;
pub mod notify;
pub mod remote_write;
pub mod restart;
pub mod signals;
pub mod state_dir;
pub mod store;
pub mod systemd;
pub mod trial;
