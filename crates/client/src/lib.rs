//! The library for programs that read a cluster watched by Kilohertz.

#![deny(unsafe_code)]

pub mod access;
pub mod place;

pub use access::{Access, AccessError};
