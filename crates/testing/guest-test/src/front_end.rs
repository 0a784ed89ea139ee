//! The front end of a small parallel program: it hands out the input, and returns the messages that its processes send.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// What each process fetches: a second of the front end's network.
const INPUT_BYTES: usize = 12 << 20;

/// The front end sends a piece, and waits before the next: 100 Mbit/s, as a cluster of 2001 had. Then the host's speed
/// does not show in the guests' interrupts.
const PIECE_BYTES: usize = 16 << 10;
const PIECE_TIME: Duration = Duration::from_micros(1_300);

/// Opens one on the loopback, and returns its port. Its threads end with this process.
pub fn open() -> u16 {
    let door = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = door.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for process in door.incoming().flatten() {
            std::thread::spawn(move || serve(process));
        }
    });
    port
}

/// Does what a process asks for in its first line. A process that goes away is its launcher's concern.
fn serve(mut process: TcpStream) -> io::Result<()> {
    let mut said = BufReader::new(process.try_clone()?);
    let mut request = String::new();
    said.read_line(&mut request)?;
    match request.trim_end() {
        "input" => send_input(&mut process),
        "exchange" => io::copy(&mut said, &mut process).map(drop),
        other => panic!("BUG: a process asked the front end for: {other}"),
    }
}

fn send_input(process: &mut TcpStream) -> io::Result<()> {
    let mut due = Instant::now();
    for _ in 0..INPUT_BYTES / PIECE_BYTES {
        process.write_all(&[0; PIECE_BYTES])?;
        due += PIECE_TIME;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}
