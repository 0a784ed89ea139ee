//! Programs at a node: one child process of the agent executes all of them. It reads the rows of the node's lanes in shared memory,
//! and sends back the rows that come out, over a socket. It has neither files nor network, few system calls, bounded memory, and the
//! lowest scheduling class; the gather thread does not know it.
//!
//! [`Sandbox`] is the agent's end: it starts the child with the first program, writes its rows into lanes, ends the child with the last
//! program, and begins it again, later and later, when it has died. [`child`] is the other end. docs/handlers.md is for users.
//!
//! Knows neither links nor hubs, and does not execute a module itself (`khz-program` does).

#![forbid(unsafe_code)]

pub mod child;
mod confine;
mod counts;
mod entry;
mod keeper;
pub mod limits;
mod process;
mod runner;
mod sandbox;
mod wire;

/// For the fuzzer: reads bytes as a message of either end. What was read is written as it was read.
#[doc(hidden)]
pub fn check_message(bytes: &[u8]) {
    let mut again = Vec::new();
    if let Some(order) = wire::Order::take(bytes) {
        order.put(&mut again);
        assert_eq!(wire::Order::take(&again), Some(order));
    }
    if let Some(news) = wire::News::take(bytes) {
        news.put(&mut again);
        let read = wire::News::take(&again);
        // Numbers that are none are not equal to themselves.
        assert_eq!(format!("{read:?}"), format!("{:?}", Some(news)));
    }
}

pub use confine::{Confined, confine};
pub use sandbox::{ChildCommand, Sandbox, Settings};
