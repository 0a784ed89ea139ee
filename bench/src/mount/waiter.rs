//! Programs on other nodes that sleep until a mounted value changes. Each value is the time at which it was
//! published, so the reader knows how long it took. One thread for each file, one process for all.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::error::BenchError;
use crate::program::failed;

/// Ignores values that were published before this reader first slept.
const SETTLING: Duration = Duration::from_millis(200);

/// The present time, in the format of the published values.
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The process `SECONDS FILE...`: prints microseconds, one line for each value.
pub fn work(words: &[&str]) -> Result<(), BenchError> {
    let Some((seconds, files)) = words.split_first() else {
        return Err(BenchError::Usage("wait SECONDS FILE...".into()));
    };
    let seconds = seconds.parse().map_err(|_| BenchError::Usage(format!("'{seconds}' is no number")))?;
    let until = Instant::now() + Duration::from_secs(seconds);
    let found: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = files.iter().map(|file| scope.spawn(move || wait_on(file, until))).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let mut text = String::new();
    for times in found {
        for micros in times.map_err(|_| failed("the reader", "it panicked"))?? {
            text.push_str(&format!("{micros:.3}\n"));
        }
    }
    print!("{text}");
    Ok(())
}

fn wait_on(path: &str, until: Instant) -> Result<Vec<f64>, BenchError> {
    let file = File::open(path).map_err(BenchError::file(path))?;
    let (mut times, mut room, mut last) = (Vec::new(), [0; 64], 0);
    let begins = now_ns() + SETTLING.as_nanos() as u64;
    let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while Instant::now() < until {
        let mut fds = [PollFd::new(&file, PollFlags::IN)];
        if poll(&mut fds, Some(&timeout)).map_err(BenchError::call("poll"))? == 0 {
            continue;
        }
        let count = file.read_at(&mut room, 0).map_err(BenchError::file(path))?;
        let now = now_ns();
        let text = std::str::from_utf8(&room[..count]).unwrap_or_default();
        // A text without its newline is incomplete: it is read again with the next change.
        let Some(published) = text.strip_suffix('\n').and_then(|digits| digits.parse::<u64>().ok()) else {
            continue;
        };
        if published != last && published > begins {
            times.push(now.saturating_sub(published) as f64 / 1e3);
        }
        last = published;
    }
    Ok(times)
}

/// Runs the process with this command; returns the microseconds of every value.
pub fn wait(mut command: Command, seconds: u64, files: &[String]) -> Result<Vec<f64>, BenchError> {
    command.args(["part", "wait", &seconds.to_string()]).args(files);
    let done = command.output().map_err(|e| failed("the reader", e))?;
    if !done.status.success() {
        return Err(failed("the reader", String::from_utf8_lossy(&done.stderr)));
    }
    let text = String::from_utf8_lossy(&done.stdout);
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}
