//! The caching daemon. So far: its durable log.

pub mod log;
