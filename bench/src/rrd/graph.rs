//! Graphs beside rrdtool's: the commands that Munin, MRTG, collectd, Ganglia and Cacti give it, each drawn by a new process
//! (with everything in memory, and with nothing) and by one process in pipe mode.

#[path = "../../../crates/files/rrd-graph/tests/commands/captured.rs"]
mod captured;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use captured::{Captured, START};

use super::pipe::Pipe;
use crate::agent::build_agent;
use crate::error::BenchError;
use crate::pairs::order;
use crate::place::Pinned;
use crate::program::{build_directory, failed};
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};

/// The seconds that a picture shows.
const SPAN: u64 = 86_400;

/// Seconds from the begin of the files to the end of the pictures, where the files are as long.
const END: u64 = 6 * 86_400;

/// How a picture is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By a new process.
    Warm,
    /// By a new process, with nothing of program, libraries and files in memory.
    Cold,
    /// By a process in pipe mode, which has drawn before.
    Pipe,
}

const WAYS: [(Way, &str); 3] = [(Way::Warm, "new process"), (Way::Cold, "cold"), (Way::Pipe, "pipe mode")];

/// The two programs, rrdtool first.
struct Programs([Vec<OsString>; 2]);

const NAMES: [&str; 2] = ["rrdtool", "ours"];

/// A command in its folder.
struct Job<'a> {
    captured: &'a Captured,
    folder: PathBuf,
}

/// What a command took, in ms: a list for each program.
type Taken = [Vec<f64>; 2];

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let _pinned = Pinned::here()?;
    let ours = build_agent()?;
    let words = |words: &[&OsStr]| words.iter().map(|word| (*word).to_owned()).collect();
    let programs = Programs([words(&["rrdtool".as_ref()]), words(&[ours.as_os_str(), "rrd".as_ref()])]);
    let commands = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/files/rrd-graph/tests/commands");
    let all = Captured::all(&commands).map_err(BenchError::Reply)?;
    let place = build_directory()?.join("bench-rrd-graph");
    let mut jobs = Vec::new();
    for captured in &all {
        let folder = place.join(&captured.name);
        record.progress(&format!("files of {}", captured.name));
        // From a run before, perhaps one that was ended.
        let _ = std::fs::remove_dir_all(&folder);
        captured.fill(&folder).map_err(BenchError::Reply)?;
        jobs.push(Job { captured, folder });
    }
    for (way, name) in WAYS {
        let mut table = Table::new(&["command", "rrdtool ms", "ours ms", "ours to rrdtool", "quartiles"]);
        let mut worst: Option<Spread> = None;
        let mut totals: Taken = Default::default();
        for job in &jobs {
            record.progress(&format!("{name}: {}", job.captured.name));
            let taken = job.measure(record, &programs, way)?;
            for (who, all) in taken.iter().enumerate() {
                for (turn, ms) in all.iter().enumerate() {
                    record.sample(
                        ["graph", &format!("{name} {}", job.captured.name), NAMES[who]],
                        turn,
                        "ms",
                        *ms,
                    );
                }
                totals[who].extend(Spread::of(all.iter().copied()).map(|spread| spread.median));
            }
            let Some(ratio) = Spread::of(ratios(&taken[1], &taken[0])) else { continue };
            let median =
                |who: usize| Spread::of(taken[who].iter().copied()).map_or(f64::NAN, |spread| spread.median);
            table.row([
                job.captured.name.clone(),
                figure(median(0)),
                figure(median(1)),
                figure(ratio.median),
                format!("{}..{}", figure(ratio.lower), figure(ratio.upper)),
            ]);
            if worst.is_none_or(|worst| worst.median < ratio.median) {
                worst = Some(ratio);
            }
        }
        record.show(&format!("## A picture, {name}"), &table);
        let sum = |who: usize| totals[who].iter().sum::<f64>();
        record.say(&format!(
            "All {} pictures, {name}: rrdtool {} ms, ours {} ms.",
            jobs.len(),
            figure(sum(0)),
            figure(sum(1))
        ));
        record.verdict(
            &format!("a picture, the slowest beside rrdtool's, {name}"),
            worst,
            Bound::AtMost(1.0),
        );
        let share = Spread::of([sum(1) / sum(0)]);
        record.verdict(&format!("all pictures beside rrdtool's, {name}"), share, Bound::AtMost(1.0));
    }
    Ok(())
}

impl Job<'_> {
    /// Draws the picture with both programs in turns.
    fn measure(&self, record: &Record, programs: &Programs, way: Way) -> Result<Taken, BenchError> {
        let mut taken: Taken = Default::default();
        let mut pipes = match way {
            Way::Pipe => Some([self.pipe(programs, 0)?, self.pipe(programs, 1)?]),
            Way::Warm | Way::Cold => None,
        };
        let pairs = record.effort.of(if way == Way::Cold { 3 } else { 10 }, 1);
        for (turn, who) in [0, 1].into_iter().chain(order(2, pairs)).enumerate() {
            let picture = self.folder.join(NAMES[who]).with_extension("png");
            // Otherwise `--lazy` would leave it as it is.
            let _ = std::fs::remove_file(&picture);
            if way == Way::Cold {
                forget()?;
            }
            let begin = Instant::now();
            match &mut pipes {
                Some(pipes) => pipes[who].line(&self.line(who))?,
                None => self.process(&programs.0[who], who)?,
            }
            let ms = begin.elapsed().as_secs_f64() * 1e3;
            if !picture.exists() {
                return Err(failed(NAMES[who], "drew nothing"));
            }
            // The first two turns warm caches.
            if turn > 1 {
                taken[who].push(ms);
            }
        }
        Ok(taken)
    }

    fn arguments(&self, who: usize) -> Vec<String> {
        let end = START + self.captured.filled_for().min(END);
        let first = ["graph".to_owned(), format!("{}.png", NAMES[who])];
        [&first[..], &self.captured.spanning(end - SPAN.min(self.captured.filled_for()), end)].concat()
    }

    fn process(&self, program: &[OsString], who: usize) -> Result<(), BenchError> {
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).args(self.arguments(who)).current_dir(&self.folder);
        let output = command.env("TZ", "UTC").env("LC_ALL", "C").stdin(Stdio::null()).output();
        let output = output.map_err(|error| failed(NAMES[who], error))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(failed(NAMES[who], String::from_utf8_lossy(&output.stderr))),
        }
    }

    fn pipe(&self, programs: &Programs, who: usize) -> Result<Pipe, BenchError> {
        let place = [OsString::from("env"), "-C".into(), self.folder.clone().into()];
        let settings = ["TZ=UTC", "LC_ALL=C"].map(OsString::from);
        Pipe::start(&[&place[..], &settings, &programs.0[who], &["-".into()]].concat())
    }

    /// The command as a line of pipe mode, in which quotes hold words together.
    fn line(&self, who: usize) -> String {
        let quoted = |word: String| match word.contains('"') {
            true => format!("'{word}'"),
            false => format!("\"{word}\""),
        };
        self.arguments(who).into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// Drops what the page cache can drop: programs and libraries that nobody else runs, files.
fn forget() -> Result<(), BenchError> {
    rustix::fs::sync();
    let path = "/proc/sys/vm/drop_caches";
    std::fs::write(path, "1").map_err(BenchError::file(path))
}
