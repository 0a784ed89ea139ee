//! A process watched from outside, through the kernel's numbers: CPU time in nanoseconds, context switches,
//! reads, memory. The same for every contender, so that none reports about itself.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::BenchError;
use crate::program::failed;

/// How long a process may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// How often to check whether a process has ended.
const LOOK: Duration = Duration::from_millis(5);

/// The kernel's counts for a process until now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// CPU nanoseconds of all threads (`/proc/PID/task/*/schedstat`).
    pub cpu_ns: u64,
    /// Context switches of all threads, voluntary or not.
    pub switches: u64,
    /// Calls of read(2) and similar calls.
    pub reads: u64,
}

/// Memory and threads of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// `RssAnon` in kB.
    pub anonymous_kb: u64,
    /// `RssShmem` in kB.
    pub shared_kb: u64,
    /// `VmRSS` in kB: everything that it holds in memory.
    pub resident_kb: u64,
    /// Threads.
    pub threads: u64,
}

/// A child process under watch; dropping it kills it.
pub struct Watched {
    name: String,
    child: Child,
    proc: PathBuf,
}

impl Watched {
    /// Starts it, without input and with its output piped to us.
    pub fn start(command: &mut Command) -> Result<Self, BenchError> {
        Self::start_with(command, Stdio::null())
    }

    /// The same with this input.
    pub fn start_with(command: &mut Command, input: Stdio) -> Result<Self, BenchError> {
        let name = format!("{command:?}");
        let child =
            command.stdin(input).stdout(Stdio::piped()).spawn().map_err(|e| failed(name.clone(), e))?;
        let proc = Path::new("/proc").join(child.id().to_string());
        Ok(Watched { name, child, proc })
    }

    /// Its output; only once.
    pub fn output(&mut self) -> Result<ChildStdout, BenchError> {
        self.child.stdout.take().ok_or_else(|| failed(&self.name, "its output is read already"))
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// One of its files under `/proc`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.proc.join(name)
    }

    /// Its counts until now.
    pub fn counted(&self) -> Result<Counted, BenchError> {
        let mut sum = Counted::default();
        let tasks = self.proc.join("task");
        for task in fs::read_dir(&tasks).map_err(BenchError::file(&tasks))?.flatten() {
            let path = task.path();
            // A thread may end between the listing and the reading; its time is then missing.
            let (Ok(schedstat), Ok(status)) =
                (fs::read_to_string(path.join("schedstat")), fs::read_to_string(path.join("status")))
            else {
                continue;
            };
            sum.cpu_ns += schedstat.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
            sum.switches += field(&status, "voluntary_ctxt_switches").unwrap_or(0)
                + field(&status, "nonvoluntary_ctxt_switches").unwrap_or(0);
        }
        sum.reads = field(&self.read("io")?, "syscr").unwrap_or(0);
        Ok(sum)
    }

    /// Its memory and threads now.
    pub fn held(&self) -> Result<Held, BenchError> {
        let status = self.read("status")?;
        Ok(Held {
            anonymous_kb: field(&status, "RssAnon").unwrap_or(0),
            shared_kb: field(&status, "RssShmem").unwrap_or(0),
            resident_kb: field(&status, "VmRSS").unwrap_or(0),
            threads: field(&status, "Threads").unwrap_or(0),
        })
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Bytes that it made the disk read, and bytes of pages that it made dirty (`/proc/PID/io`).
    pub fn disk_bytes(&self) -> Result<(u64, u64), BenchError> {
        let text = self.read("io")?;
        Ok((field(&text, "read_bytes").unwrap_or(0), field(&text, "write_bytes").unwrap_or(0)))
    }

    /// Kills it, as a power cut would.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
    }

    /// Sends SIGTERM, waits for the end, and returns the rest of `output`.
    pub fn end(mut self, mut output: ChildStdout) -> Result<String, BenchError> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).map_err(BenchError::call("kill"))?;
        let asked = Instant::now();
        loop {
            match self.child.try_wait().map_err(|e| failed(&self.name, e))? {
                Some(status) if status.success() => break,
                Some(status) => return Err(failed(&self.name, format!("ended with {status}"))),
                None if asked.elapsed() > GRACE => {
                    return Err(failed(&self.name, format!("does not end on SIGTERM within {GRACE:?}")));
                }
                None => std::thread::sleep(LOOK),
            }
        }
        let mut text = String::new();
        output.read_to_string(&mut text).map_err(|e| failed(&self.name, e))?;
        Ok(text)
    }

    fn read(&self, file: &str) -> Result<String, BenchError> {
        let path = self.file(file);
        fs::read_to_string(&path).map_err(BenchError::file(path))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The number after `name:`.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let status = "nonvoluntary_ctxt_switches:\t7\nvoluntary_ctxt_switches:\t42\nRssAnon:\t  96 kB\n";
        assert_eq!(field(status, "voluntary_ctxt_switches"), Some(42));
        assert_eq!(field(status, "RssAnon"), Some(96));
        assert_eq!(field(status, "Rss"), None);
    }

    #[test]
    fn a_childs_reads_and_cpu_time_are_seen_and_it_ends_when_asked() {
        let script = "trap 'echo over; exit 0' TERM; echo ready; i=0; while :; do i=$((i+1)); done";
        let mut child = Watched::start(Command::new("sh").args(["-c", script])).unwrap();
        let mut output = child.output().unwrap();
        output.read_exact(&mut [0; 6]).unwrap();
        let first = child.counted().unwrap();
        while child.counted().unwrap().cpu_ns == first.cpu_ns {}
        let held = child.held().unwrap();
        assert_eq!(held.threads, 1);
        assert!(held.anonymous_kb > 0);
        assert_eq!(child.end(output).unwrap(), "over\n");
    }
}
