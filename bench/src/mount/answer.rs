//! A daemon that returns its text over a local socket: how programs read where there is no file. A request is
//! the number of bytes wanted.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::program::failed;
use crate::watched::Watched;

/// The longest text of a request.
const TEXT_MAX: usize = 64 << 10;

/// Longest time for the daemon to start.
const PATIENCE: Duration = Duration::from_secs(5);

/// The daemon's process.
pub fn work(socket: &str) -> Result<(), BenchError> {
    let wrong = |e: std::io::Error| failed("the daemon at a socket", e);
    let listener = UnixListener::bind(socket).map_err(wrong)?;
    let (mut asker, _) = listener.accept().map_err(wrong)?;
    let text = vec![b'7'; TEXT_MAX];
    let mut wanted = [0; 4];
    while asker.read_exact(&mut wanted).is_ok() {
        let count = (u32::from_le_bytes(wanted) as usize).min(TEXT_MAX);
        asker.write_all(&text[..count]).map_err(wrong)?;
    }
    Ok(())
}

/// The daemon, and a connection to it.
pub struct Daemon {
    asker: UnixStream,
    room: Vec<u8>,
    // Killed when dropped.
    _process: Watched,
}

impl Daemon {
    /// Starts it with its socket in this folder.
    pub fn start(folder: &Path) -> Result<Self, BenchError> {
        let own = std::env::current_exe().map_err(BenchError::file("this program"))?;
        let socket = folder.join("answer.sock");
        let process = Watched::start(Command::new(own).args(["part", "answer"]).arg(&socket))?;
        let start = Instant::now();
        let asker = loop {
            match UnixStream::connect(&socket) {
                Ok(asker) => break asker,
                Err(e) if start.elapsed() > PATIENCE => return Err(failed("the daemon at a socket", e)),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        Ok(Daemon { asker, room: vec![0; TEXT_MAX], _process: process })
    }

    /// Requests this many bytes.
    pub fn ask(&mut self, bytes: usize) -> Result<(), BenchError> {
        let wrong = |e: std::io::Error| failed("the daemon at a socket", e);
        self.asker.write_all(&(bytes as u32).to_le_bytes()).map_err(wrong)?;
        self.asker.read_exact(&mut self.room[..bytes]).map_err(wrong)?;
        std::hint::black_box(&self.room);
        Ok(())
    }
}
