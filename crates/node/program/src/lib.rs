//! Programs: WebAssembly modules that are executed row by row, where a plan's expressions are not enough. A program gets rows of
//! series, keeps what it likes between them, and says which rows of values of its own come out. docs/handlers.md is for their
//! authors.
//!
//! A [`Program`] is a module that was checked and compiled, named by its hash. An [`Instance`] is one run of it, with a memory of its
//! own: it learns its series ([`Instance::begin`]), and then takes row after row ([`Instance::row`]). Whatever the module does costs at
//! most the [`Limits`]; then the instance is dead, and its owner begins another one.
//!
//! Reads no files, knows no nodes and channels, starts no process (`khz-sandbox` does).

#![forbid(unsafe_code)]

mod column;
mod error;
mod hash;
mod host;
mod instance;
pub mod limits;
mod outputs;
mod packed;
mod program;
mod room;

pub use column::Column;
pub use error::{Fault, ProgramError};
pub use hash::ProgramHash;
pub use instance::{Input, Instance, Spent};
pub use limits::Limits;
pub use packed::{pack, unpack};
pub use program::Program;
