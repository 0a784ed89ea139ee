//! Two plain TCP hops: a program that forwards bytes, to compare with a hub.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::error::BenchError;
use crate::program::failed;

/// Prints its address, accepts two connections, and forwards from the first to the second.
pub fn work() -> Result<(), BenchError> {
    let wrong = |e: std::io::Error| failed("the relay", e);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(wrong)?;
    println!("{}", listener.local_addr().map_err(wrong)?);
    let (mut from, _) = listener.accept().map_err(wrong)?;
    let (mut to, _) = listener.accept().map_err(wrong)?;
    to.set_nodelay(true).map_err(wrong)?;
    let mut room = [0; 64 << 10];
    loop {
        match from.read(&mut room).map_err(wrong)? {
            0 => return Ok(()),
            read => to.write_all(&room[..read]).map_err(wrong)?,
        }
    }
}
