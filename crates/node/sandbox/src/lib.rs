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

pub use confine::{Confined, confine};
pub use sandbox::{ChildCommand, Sandbox, Settings};
