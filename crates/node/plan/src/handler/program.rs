//! A program in place of a plan: a WebAssembly module, packed, and its name. This crate carries it, and does not execute it.

use std::fmt;
use std::sync::Arc;

/// A module on its way to nodes.
#[derive(Clone, PartialEq, Eq)]
pub struct PackedProgram {
    /// SHA-256 of the module: its name. Who executes the module checks it.
    pub hash: [u8; 32],
    /// The module, packed (`khz_program::pack`).
    pub packed: Arc<[u8]>,
}

impl fmt::Debug for PackedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedProgram").field("bytes", &self.packed.len()).finish_non_exhaustive()
    }
}
