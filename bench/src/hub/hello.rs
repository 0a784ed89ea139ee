//! The greeting of the benchmarks' own peers of a hub.

use khz_link::limits::VERSION;
use khz_link::{Hello, Role};

/// Puts the greeting of a peer of this name, on a machine of its own, behind `out`. Nothing in it depends on the hub's,
/// so that need not be waited for.
pub fn greet(role: Role, name: &str, machine: u8, out: &mut Vec<u8>) {
    Hello {
        version: VERSION,
        role,
        name,
        machine: [machine; 16],
        boot: [machine; 16],
        started: 1,
        start_nonce: 1,
        program: "bench",
        proof: None,
        abilities: 0,
    }
    .put(out);
}
