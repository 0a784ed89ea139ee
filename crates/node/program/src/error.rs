//! Why a module is no program, and why a program has ended.

use crate::limits::{MODULE_BYTES_MAX, PACKED_BYTES_MAX, VERSION};

/// Why a module cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// It is too large.
    #[error("the module has {bytes} bytes; a program has {MODULE_BYTES_MAX} at most")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
    },
    /// It is too large for nodes.
    #[error(
        "the module has {bytes} bytes when it is packed; nodes take {PACKED_BYTES_MAX} at most (`khz handler test` takes it)"
    )]
    TooLargePacked {
        /// Its bytes, packed.
        bytes: usize,
    },
    /// What came is no packed module.
    #[error("the module is damaged: it cannot be unpacked")]
    Damaged,
    /// The bytes are no module, or use what is not allowed.
    #[error("this is no WebAssembly module that khz can execute: {0}")]
    Invalid(String),
    /// It does not export what a program has to.
    #[error("the module does not export {what}; docs/handlers.md has what a program exports")]
    Lacks {
        /// What is missing.
        what: &'static str,
    },
    /// It wants something that khz does not give.
    #[error(
        "the module imports {module}.{name}, which khz does not have; a program imports from \"khz\" only: output, put, name, unit, is_counter, say"
    )]
    Imports {
        /// The module of the import.
        module: String,
        /// Its name.
        name: String,
    },
    /// It was made for another interface.
    #[error("the module was made for version {version} of the interface; this khz has version {VERSION}")]
    Version {
        /// What it says.
        version: i32,
    },
    /// It has no room for as many series.
    #[error(
        "the program has room for {room} series, and gets {series}: give it fewer, or make its room larger"
    )]
    TooManySeries {
        /// Its room.
        room: usize,
        /// The series.
        series: usize,
    },
    /// It does not want these series.
    #[error("the program refuses these series: its khz_begin returned {0}")]
    Refuses(i32),
    /// It ended while it was started, or while it began.
    #[error("{0}")]
    Fault(#[from] Fault),
}

/// Why a program that was running has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It used up its fuel.
    #[error("the program did not end within {0} units of fuel: it loops, or does too much for one row")]
    Fuel(u64),
    /// It did what no program may do.
    #[error("the program failed: {0}")]
    Trap(String),
    /// It gave the host an address outside its memory.
    #[error("the program gave khz.{call} an address outside its memory")]
    Address {
        /// The call.
        call: &'static str,
    },
    /// It gave the host a number that stands for nothing.
    #[error("the program gave khz.{call} a number that stands for nothing")]
    Number {
        /// The call.
        call: &'static str,
    },
    /// It called what may be called only while it begins.
    #[error("the program called khz.output for a row; only khz_begin may")]
    Late,
    /// Its room is not in its memory.
    #[error("khz_room returned an address whose arrays are outside the program's memory")]
    Room,
    /// An earlier fault has ended it.
    #[error("the program has ended before")]
    Dead,
}
