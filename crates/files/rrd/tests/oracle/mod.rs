//! The installed rrdtool as a judge: one `rrdtool -` process in a directory of its own, and a seeded source of
//! random cases.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// What a command printed, and its error if it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub output: Vec<String>,
    pub error: Option<String>,
}

pub struct Oracle {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub dir: PathBuf,
}

static DIRECTORIES: AtomicU32 = AtomicU32::new(0);

/// A new directory. It is not removed, so that a failure keeps its files.
pub fn directory(name: &str) -> PathBuf {
    let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("khz-rrd-{}-{name}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

impl Oracle {
    pub fn start(dir: &Path) -> Self {
        Self::start_program("rrdtool", dir)
    }

    /// Another program that speaks the same pipe mode: ours.
    pub fn start_program(program: &str, dir: &Path) -> Self {
        Self::start_in_zone(program, dir, "UTC")
    }

    /// The same with another local time.
    pub fn start_in_zone(program: &str, dir: &Path, zone: &str) -> Self {
        let mut child = Command::new(program)
            .arg("-")
            .current_dir(dir)
            .env("TZ", zone)
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}; install Debian's package `rrdtool`"));
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, dir: dir.into() }
    }

    /// Runs one command line.
    pub fn run(&mut self, line: &str) -> Reply {
        writeln!(self.input, "{line}").expect("rrdtool died");
        self.input.flush().unwrap();
        let mut output = vec![];
        loop {
            let mut text = String::new();
            let read = self.output.read_line(&mut text).unwrap();
            assert!(read > 0, "rrdtool died of: {line}");
            let text = text.strip_suffix('\n').unwrap_or(&text);
            if text.starts_with("OK u:") {
                return Reply { output, error: None };
            }
            if let Some(error) = text.strip_prefix("ERROR: ") {
                return Reply { output, error: Some(error.into()) };
            }
            output.push(text.into());
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A seeded generator (xorshift64*): small, and the same everywhere.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// 0 to `n` - 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// How many random cases: `KHZ_RRD_CASES`, else `default`.
pub fn cases(default: u64) -> u64 {
    std::env::var("KHZ_RRD_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The first seed: `KHZ_RRD_SEED`, else 1.
pub fn first_seed() -> u64 {
    std::env::var("KHZ_RRD_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Where two byte strings first differ.
pub fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    if a == b {
        return None;
    }
    Some(a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len())))
}
