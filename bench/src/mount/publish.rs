//! From publishing at a node to a reader of the tree, by size: a number in a value file, and texts of 8 B to 64 kB,
//! which the node's kernel would print; beside copying as many bytes in memory, and reading them from a local file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::read::site_control;
use super::site::{Class, Site};
use super::timed::Times;
use crate::error::BenchError;
use crate::plot::{Line, Plot, Scale};
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};

const SIZES: [usize; 6] = [8, 64, 512, 4_096, 16_384, 65_536];
/// Longer than the age that a text of the mount may have (`TEXT_AGE_MAX`), and no multiple of a tick.
const PAUSE: Duration = Duration::from_micros(83_700);
/// Longest wait for what was published.
const PATIENCE: Duration = Duration::from_secs(5);
/// The rate at which a published number is gathered while a reader waits for it.
const RATE: &str = "1000Hz";
/// Copies in one call, so that the cost of the clock disappears.
const COPIES: usize = 64;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let mut site = Site::start(Class::Normal)?;
    let made_up = MadeUp::new(site.folder())?;
    let root = made_up.root.to_string_lossy().into_owned();
    site.agent("n1", &["--base-rate", "1Hz", "--cpu-max", "50%"])?;
    site.agent("n2", &["--root", &root, "--proc-allow", "bench/*"])?;
    let tree = site.mount()?;
    let turns = record.effort.of(100, 10);
    record.progress("a number");
    let number = number(&site, &tree.join("n1/metrics/job/published"), turns)?;
    record.progress("texts");
    let heads = ["bytes", "memcpy us", "local file us", "tree p50 us", "p99 us", "deviation us"];
    let mut table = Table::new(&heads);
    table.row(["8, a number".into(), "-".into(), "-".into()].into_iter().chain(three(&number)));
    keep(record, "8", "number", &number);
    let mut lines =
        ["tree, p50", "tree, p99", "tree, deviation", "a number, p50", "local file, p50", "memcpy, p50"]
            .map(|name| Line { name: name.into(), values: Vec::new() });
    for size in SIZES {
        record.progress(&format!("texts of {size} B"));
        let text = made_up.text(size, turns, &tree.join("n2/proc/bench"))?;
        let (copied, local) = (copies(size, turns)?, made_up.local(size, turns)?);
        for (who, times) in [("tree", &text), ("memcpy", &copied), ("local file", &local)] {
            keep(record, &size.to_string(), who, times);
        }
        let head = [size.to_string(), figure(copied.at(0.5)), figure(local.at(0.5))];
        table.row(head.into_iter().chain(three(&text)));
        let of_number = if size == SIZES[0] { number.at(0.5) } else { f64::NAN };
        let drawn = [text.at(0.5), text.at(0.99), text.deviation(), of_number, local.at(0.5), copied.at(0.5)];
        for (line, value) in lines.iter_mut().zip(drawn) {
            line.values.push(value);
        }
        let promise = format!("from publishing {size} B to a reader of the tree: p50, us");
        record.verdict(&promise, Spread::of([text.at(0.5)]), Bound::Stated);
    }
    let promise = "from publishing a number to a reader of the tree: p50, us";
    record.verdict(promise, Spread::of([number.at(0.5)]), Bound::Stated);
    record.show("## From publishing to a reader of the tree, by size", &table);
    record.say(&format!(
        "A number: from a datagram at the node's socket, gathered at {RATE}, to a reader that sleeps in poll(2); it waits up to 1 ms \
         for its row. A text: all of its bytes are new; from its rename into the node's made-up /proc until a program has opened and read \
         it in the tree, for which the mount asks the node over the hub. Everything on this one machine.\n"
    ));
    let plot = Plot {
        title: "From publishing to a reader of the tree, by size",
        axis: "us",
        below: "bytes",
        scale: Scale::Logarithmic,
        labels: SIZES.map(|size| size.to_string()).into(),
        lines: &lines,
    };
    record.store("publish.svg", &plot.svg())
}

fn three(times: &Times) -> [String; 3] {
    [times.at(0.5), times.at(0.99), times.deviation()].map(figure)
}

fn keep(record: &mut Record, case: &str, who: &str, times: &Times) {
    for (turn, micros) in times.micros().iter().enumerate() {
        record.sample(["publish", case, who], turn, "us", *micros);
    }
}

/// Publishes numbers, and sleeps until each is in its file.
fn number(site: &Site, value: &Path, turns: usize) -> Result<Times, BenchError> {
    let wrong = |error: std::io::Error| failed("the publisher", error);
    let socket = UnixDatagram::unbound().map_err(wrong)?;
    socket.connect(site.agent_dir("n1").join("publish.sock")).map_err(wrong)?;
    let publish = |number: usize| socket.send(format!("published={number}").as_bytes()).map_err(wrong);
    publish(0)?;
    site.wait_for(value)?;
    let control = site_control(value, "rate");
    std::fs::write(&control, format!("{RATE}\n")).map_err(BenchError::file(&control))?;
    let file = File::open(value).map_err(BenchError::file(value))?;
    let mut found = Vec::with_capacity(turns);
    // The first ones come while the lane is being made.
    for number in 1..=turns + 3 {
        std::thread::sleep(PAUSE);
        let begun = Instant::now();
        publish(number)?;
        wait_for_number(&file, number)?;
        if number > 3 {
            found.push(begun.elapsed().as_nanos() as f64 / 1e3);
        }
    }
    Ok(Times::from(found))
}

fn wait_for_number(file: &File, number: usize) -> Result<(), BenchError> {
    let (begun, expected, mut room) = (Instant::now(), format!("{number}\n"), [0; 64]);
    let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while begun.elapsed() < PATIENCE {
        let count = file.read_at(&mut room, 0).map_err(BenchError::file("the number's file"))?;
        if &room[..count] == expected.as_bytes() {
            return Ok(());
        }
        let mut fds = [PollFd::new(file, PollFlags::IN)];
        poll(&mut fds, Some(&timeout)).map_err(BenchError::call("poll"))?;
    }
    Err(failed("the number's file", format!("{number} did not come within {PATIENCE:?}")))
}

/// Times of copying as many bytes in memory.
fn copies(size: usize, turns: usize) -> Result<Times, BenchError> {
    let (from, mut to) = (vec![1u8; size], vec![0u8; size]);
    let times = Times::of(turns, None, || {
        for _ in 0..COPIES {
            std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
        }
        Ok(())
    })?;
    Ok(Times::from(times.micros().iter().map(|micros| micros / COPIES as f64).collect::<Vec<f64>>()))
}

/// A host with a folder of texts in its `/proc`.
struct MadeUp {
    root: PathBuf,
    folder: PathBuf,
}

impl MadeUp {
    fn new(below: &Path) -> Result<Self, BenchError> {
        let root = below.join("made-up");
        let folder = root.join("proc/bench");
        std::fs::create_dir_all(&folder).map_err(BenchError::file(&folder))?;
        // An agent without anything to gather does not start.
        let path = root.join("proc/loadavg");
        std::fs::write(&path, "0.00 0.00 0.00 1/1 1\n").map_err(BenchError::file(&path))?;
        let made_up = MadeUp { root, folder };
        SIZES.into_iter().try_for_each(|size| made_up.publish(size, 0).map(drop))?;
        Ok(made_up)
    }

    /// A text that differs from the one before in nearly all of its bytes; replaced as a whole.
    fn publish(&self, size: usize, turn: usize) -> Result<Vec<u8>, BenchError> {
        let text = digits(size, turn);
        let (new, path) = (self.root.join("new"), self.folder.join(size.to_string()));
        std::fs::write(&new, &text).map_err(BenchError::file(&new))?;
        std::fs::rename(&new, &path).map_err(BenchError::file(&path))?;
        Ok(text)
    }

    /// Publishes texts, and opens and reads each in the tree.
    fn text(&self, size: usize, turns: usize, tree: &Path) -> Result<Times, BenchError> {
        let path = tree.join(size.to_string());
        let begun = Instant::now();
        while std::fs::read(&path).is_err() {
            if begun.elapsed() > PATIENCE {
                return Err(failed(path.display().to_string(), "the mount has no such text"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut found = Vec::with_capacity(turns);
        for turn in 1..=turns {
            std::thread::sleep(PAUSE);
            let text = self.publish(size, turn)?;
            let begun = Instant::now();
            while std::fs::read(&path).map_err(BenchError::file(&path))? != text {
                if begun.elapsed() > PATIENCE {
                    let problem = format!("the new text did not come within {PATIENCE:?}");
                    return Err(failed(path.display().to_string(), problem));
                }
            }
            found.push(begun.elapsed().as_nanos() as f64 / 1e3);
        }
        Ok(Times::from(found))
    }

    /// Opens and reads the file itself.
    fn local(&self, size: usize, turns: usize) -> Result<Times, BenchError> {
        let path = self.folder.join(size.to_string());
        Times::of(turns, None, || {
            std::hint::black_box(std::fs::read(&path).map_err(BenchError::file(&path))?);
            Ok(())
        })
    }
}

/// A line of digits, of this many bytes with its newline.
fn digits(size: usize, turn: usize) -> Vec<u8> {
    let mut state = turn as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut text: Vec<u8> = (1..size)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            b'0' + (state % 10) as u8
        })
        .collect();
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_their_size_and_differ_from_turn_to_turn() {
        for size in SIZES {
            let (one, other) = (digits(size, 1), digits(size, 2));
            assert_eq!((one.len(), one.last()), (size, Some(&b'\n')));
            assert_ne!(one, other);
        }
    }
}
