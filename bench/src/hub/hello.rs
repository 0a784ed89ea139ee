//! The greeting for the benchmarks' own peers of a hub.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};

use khz_link::limits::VERSION;
use khz_link::{Frame, Hello, Role};
use khz_model::NodeName;

use crate::error::BenchError;
use crate::program::failed;

/// Reads the hub's greeting and appends to `out` the greeting of a peer with this name, as if on another
/// machine. Uses the hub's run key, which is found if the hub is ours.
pub fn greet(
    mut socket: &TcpStream,
    hub: SocketAddr,
    (role, name): (Role, &str),
    machine: u8,
    out: &mut Vec<u8>,
) -> Result<(), BenchError> {
    let wrong = |e: std::io::Error| failed("a greeting", e);
    let mut length = [0; 4];
    socket.read_exact(&mut length).map_err(wrong)?;
    let mut frame = vec![0; u32::from_le_bytes(length) as usize];
    socket.read_exact(&mut frame).map_err(wrong)?;
    let (kind, body) = frame.split_first().ok_or_else(|| failed("a greeting", "it is empty"))?;
    let nonce = match Frame::decode(*kind, body) {
        Ok(Frame::Greeting(greeting)) => greeting.nonce,
        other => return Err(failed("a greeting", format!("{other:?}"))),
    };
    let known = khz_trust::Role::from_byte(role.byte()).map_err(|e| failed("a greeting", e))?;
    let as_name = NodeName::new(name).map_err(|e| failed("a greeting", e))?;
    let found = khz_client::near::at(None, hub);
    let proof = found.map(|found| found.key.token(known, &as_name).proof(&nonce));
    Hello {
        version: VERSION,
        role,
        name,
        machine: [machine; 16],
        boot: [machine; 16],
        started: 1,
        start_nonce: 1,
        program: "bench",
        proof,
        abilities: 0,
    }
    .put(out);
    Ok(())
}
