//! What people see: tables, the terminal, numbers as text, how a command ends, the log.

pub mod fit;
pub mod hub_status_line;
pub mod log;
pub mod look;
pub mod matrix;
pub mod misses;
pub mod order;
pub mod outcome;
pub mod quantities;
pub mod spark;
pub mod status_line;
pub mod table;
pub mod terminal;
