//! The identity that the node of these tests shows in its Hello.

use khz_link::{Identity, Role};

pub fn identity() -> Identity {
    Identity {
        role: Role::Node,
        name: "n1".into(),
        machine: [1; 16],
        boot: [2; 16],
        started: 1,
        start_nonce: 1,
        program: "test".into(),
        prove: None,
    }
}
