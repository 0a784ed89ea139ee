//! What runs until somebody stops it: `khz` alone, an agent, a hub, and the parts that they share.

pub mod agent;
pub mod alone;
pub mod door;
pub mod gatherer;
pub mod hub;
pub mod job_socket;
pub mod own_link;
pub mod renew;
pub mod serve;
pub mod systemd;
pub mod trial;
