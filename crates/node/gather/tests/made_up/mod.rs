//! A made-up host in a directory, whose interfaces a test changes while an agent runs on it.

use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use khz_synthetic_host::{Host, Shape};

/// A host in a directory, removed when this is dropped.
pub struct Place(pub PathBuf);

impl Place {
    /// The host is in the folder `host`.
    pub fn new(name: &str) -> Self {
        let place = Place(std::env::temp_dir().join(format!("khz-made-up-{name}-{}", std::process::id())));
        let shape = Shape { cpus: 2, interrupts: 4, interfaces: 1, disks: 1 };
        Host::new(shape, 2026).write(&place.0.join("host")).unwrap();
        place
    }

    /// It has these interfaces now, each with the bytes that it has received.
    pub fn show<N: Display>(&self, interfaces: impl IntoIterator<Item = (N, u64)>) {
        let mut text =
            String::from("Inter-|   Receive                                                |  Transmit\n");
        text += " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n";
        for (name, bytes) in interfaces {
            text += &format!(" {name}: {bytes:8} 1 0 0 0 0 0 0 2 3 0 0 0 0 0 0\n");
        }
        // In place, since the agent keeps the file open, and without making it empty first: the agent may read it at any moment.
        let mut file = fs::OpenOptions::new().write(true).open(self.0.join("host/proc/net/dev")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.set_len(text.len() as u64).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits for a condition that must come true; the limit only ends a hanging test.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{what} never came");
        std::thread::sleep(Duration::from_millis(2));
    }
}
