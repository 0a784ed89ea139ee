//! A busy machine: child processes that compile, send datagrams over loopback and touch memory, so that the
//! kernel's numbers change. They end with the benchmark, even when it is killed.

use std::fs;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::error::BenchError;
use crate::program::{failed, sources};

/// The kinds of workers, one of each: together they want more than two cores.
const WORKERS: [&str; 3] = ["compile", "datagrams", "memory"];

/// Datagrams that go out in one burst.
const BURST: usize = 20;

/// The pause between two bursts: counters move thousands of times a second, but the core is not full.
const PAUSE: Duration = Duration::from_micros(500);

/// Bytes that the memory worker touches and frees.
const TOUCHED: usize = 64 << 20;

/// Running workers; dropping it ends them.
pub struct Load {
    workers: Vec<Child>,
}

impl Load {
    /// Starts all workers that keep a machine busy.
    pub fn start() -> Result<Self, BenchError> {
        Self::of(&WORKERS)
    }

    /// Starts workers of these kinds.
    pub fn of(kinds: &[&str]) -> Result<Self, BenchError> {
        let own = std::env::current_exe().map_err(BenchError::file("this program"))?;
        let mut load = Load { workers: Vec::new() };
        for kind in kinds {
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

/// The work of a worker process, until its standard input ends.
pub fn work(kind: &str) -> Result<(), BenchError> {
    std::thread::spawn(|| {
        // The parent holds the other end; however it ends, this read returns.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    match kind {
        "compile" => compile(),
        "datagrams" => datagrams(),
        "memory" => touch_memory(),
        "copy" => copy_over_loopback(),
        "pressure" => read_more_than_fits(),
        "spin" => loop {
            std::hint::spin_loop();
        },
        _ => Err(BenchError::Usage(format!("no load called '{kind}'"))),
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

/// Takes and returns memory, which moves the free, active and mapped numbers of meminfo.
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

/// A connection over loopback that carries as many bytes as it can.
fn copy_over_loopback() -> Result<(), BenchError> {
    let loopback = |e| failed("a connection over loopback", e);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(loopback)?;
    let address = listener.local_addr().map_err(loopback)?;
    std::thread::spawn(move || {
        let mut room = vec![0; 256 << 10];
        for mut stream in listener.incoming().flatten() {
            while stream.read(&mut room).is_ok_and(|n| n > 0) {}
        }
    });
    let mut stream = TcpStream::connect(address).map_err(loopback)?;
    let piece = vec![0x55; 64 << 10];
    loop {
        stream.write_all(&piece).map_err(loopback)?;
    }
}

/// The memory of the pressure worker, and the file that it reads repeatedly: the kernel constantly takes
/// pages back and reads them again, without harm to other processes.
const ROOM_BYTES: u64 = 48 << 20;
const FILE_BYTES: u64 = 192 << 20;

/// Runs in a memory control group that is too small for what it reads. Needs root.
fn read_more_than_fits() -> Result<(), BenchError> {
    let group = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].iter().map(Path::new).find(|g| g.is_dir());
    let group = group.ok_or_else(|| failed("a memory control group", "no /sys/fs/cgroup"))?.join("khz-bench");
    if !group.is_dir() {
        fs::create_dir(&group).map_err(BenchError::file(&group))?;
    }
    let put = |file: &str, text: String| {
        let path = group.join(file);
        fs::write(&path, text).map_err(BenchError::file(&path))
    };
    put("memory.limit_in_bytes", ROOM_BYTES.to_string())
        .or_else(|_| put("memory.max", ROOM_BYTES.to_string()))?;
    put("cgroup.procs", std::process::id().to_string())?;
    let path = std::env::temp_dir().join(format!("khz-bench-pressure-{}", std::process::id()));
    let file = fs::File::options().create(true).truncate(true).read(true).write(true).open(&path);
    let mut file = file.map_err(BenchError::file(&path))?;
    // Without a name, the file ends with the process.
    fs::remove_file(&path).map_err(BenchError::file(&path))?;
    let mut room = vec![0x55; 1 << 20];
    for _ in 0..FILE_BYTES / room.len() as u64 {
        file.write_all(&room).map_err(BenchError::file(&path))?;
    }
    file.sync_all().map_err(BenchError::file(&path))?;
    loop {
        file.rewind().map_err(BenchError::file(&path))?;
        while file.read(&mut room).map_err(BenchError::file(&path))? > 0 {}
    }
}
