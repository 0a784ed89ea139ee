//! A busy machine: child processes that compile, send datagrams over loopback and touch memory, so that the
//! kernel's numbers really change. They end with the benchmark, even when that is killed.

use std::io::Read;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::error::BenchError;
use crate::program::{failed, sources};

/// What keeps a machine busy, and how many of each: together they want more than two cores.
const WORKERS: [&str; 3] = ["compile", "datagrams", "memory"];

/// Datagrams that go out in one burst.
const BURST: usize = 20;

/// The pause between two bursts: the counters move thousands of times a second, the core is not full.
const PAUSE: Duration = Duration::from_micros(500);

/// Bytes that the memory worker touches and gives back.
const TOUCHED: usize = 64 << 20;

/// Running workers; dropped, they end.
pub struct Load {
    workers: Vec<Child>,
}

impl Load {
    /// Starts all workers.
    pub fn start() -> Result<Self, BenchError> {
        let own = std::env::current_exe().map_err(BenchError::file("this program"))?;
        let mut load = Load { workers: Vec::new() };
        for kind in WORKERS {
            let worker = Command::new(&own)
                .args(["load", kind])
                .stdin(Stdio::piped())
                .spawn()
                .map_err(|e| failed(format!("load {kind}"), e))?;
            load.workers.push(worker);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            drop(worker.stdin.take());
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

/// The body of a worker process: works until its standard input ends.
pub fn work(kind: &str) -> Result<(), BenchError> {
    std::thread::spawn(|| {
        // The parent holds the other end; when it goes, however it goes, this read returns.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    match kind {
        "compile" => compile(),
        "datagrams" => datagrams(),
        "memory" => touch_memory(),
        _ => Err(BenchError::Usage(format!("no load called '{kind}'; there are {}", WORKERS.join(", ")))),
    }
}

/// Real compiler runs: processes, files, page faults.
fn compile() -> Result<(), BenchError> {
    loop {
        let status = Command::new("cc")
            .args(["-O2", "-c", "-o", "/dev/null"])
            .arg(sources().join("table.c"))
            .stderr(Stdio::null())
            .status();
        status.map_err(|e| failed("cc", e))?;
    }
}

/// Bursts over loopback: interrupts, context switches, interface counters.
fn datagrams() -> Result<(), BenchError> {
    let loopback = |e| failed("a socket on loopback", e);
    let receiver = UdpSocket::bind("127.0.0.1:0").map_err(loopback)?;
    let address = receiver.local_addr().map_err(loopback)?;
    std::thread::spawn(move || {
        let mut room = [0; 2048];
        while receiver.recv(&mut room).is_ok() {}
    });
    let sender = UdpSocket::bind("127.0.0.1:0").map_err(loopback)?;
    loop {
        for _ in 0..BURST {
            let _ = sender.send_to(&[0x55; 700], address); // a full queue is no reason to stop
        }
        std::thread::sleep(PAUSE);
    }
}

/// Takes and returns memory: the free, active and mapped numbers of meminfo.
fn touch_memory() -> Result<(), BenchError> {
    loop {
        let mut room = vec![0u8; TOUCHED];
        for page in room.chunks_mut(4096) {
            page[0] = 1;
        }
        std::hint::black_box(&room);
        drop(room);
        std::thread::sleep(Duration::from_millis(5));
    }
}
