//! What a program may take, each with its reason.

/// Bytes of a module. Clang's `-O2` makes a few hundred bytes to some tens of KiB of a filter.
pub const MODULE_BYTES_MAX: usize = 1 << 20;

/// Bytes of a packed module on its way to nodes: as a text it is part of a channel's definition, which has 16 KiB. Modules are packed to
/// a half or a third.
pub const PACKED_BYTES_MAX: usize = 11 << 10;

/// The version of the interface: what `khz_version` returns.
pub const VERSION: i32 = 1;

/// Series of a row. A module says for how many it has room.
pub const SERIES_MAX: usize = 4_096;

/// Values that a program may give.
pub const OUTPUTS_MAX: usize = 256;

/// Bytes of the name of a value.
pub const OUTPUT_NAME_BYTES_MAX: usize = 64;

/// Bytes of a line that a program says. A longer one is cut.
pub const LINE_BYTES_MAX: usize = 256;

/// Lines of a call. The others are counted.
pub const LINES_MAX: usize = 8;

/// Fuel of one call into the host beside that of the instruction, so that a program cannot make the host work for nothing.
pub const FUEL_OF_A_CALL: u64 = 50;

/// What one instance may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of its memory.
    pub memory_bytes: usize,
    /// Fuel of one row: about an instruction each.
    pub fuel_of_a_row: u64,
    /// Fuel to begin with new series.
    pub fuel_to_begin: u64,
}

impl Default for Limits {
    /// A row may take some millisecond. The mean of 100 series takes 4,531 units and some 3 us.
    fn default() -> Self {
        Limits { memory_bytes: 4 << 20, fuel_of_a_row: 2_000_000, fuel_to_begin: 20_000_000 }
    }
}
