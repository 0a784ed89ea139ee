//! `khz rrd simulate`: the page cache of a machine that updates many `.rrd` files, page by page.
//!
//! | module | does |
//! |---|---|
//! | `options` | the command line |
//! | `shape`, `made` | updates made from a layout |
//! | [`trace`], [`mod@record`], `recorded` | updates taken from real files |
//! | `fleet`, `machine`, `readahead` | files, their metadata, and what an update reads |
//! | `cache`, `lru`, `linux` (`list`, `dirty`) | which pages stay in memory |
//! | `experiment`, `memory` | runs with several sizes of memory |
//! | `report`, `draw` | the answer |

mod cache;
mod chance;
mod dirty;
mod draw;
mod experiment;
mod fleet;
mod linux;
mod list;
mod lru;
mod machine;
mod made;
mod memory;
mod options;
mod progress;
mod readahead;
pub mod record;
mod recorded;
mod report;
mod shape;
#[cfg(test)]
mod tests;
mod touch;
pub mod trace;

use std::io::Write;
use std::path::Path;

use khz_rrd::error::refused;
use khz_rrd::file::{Access, Rrd};
use khz_rrd::{Error, Result, text};

use experiment::{Frame, Setting};
use fleet::Fleet;
use made::{Begin, Made};
use options::{Request, Room, Simulate, Source};
use recorded::Recorded;
use report::{Answer, Subject, columns};
use shape::Shape;
use touch::Updates;
use trace::Trace;

/// The command, for [`khz_rrd::cli::run`].
pub const COMMAND: khz_rrd::cli::Command = khz_rrd::cli::Command {
    name: "simulate",
    arguments: "[DS:... RRA:... | FILE | --trace TRACE] [OPTION...]\n--record TRACE FILE... (--help lists all)",
    run,
};

/// Updates of files that all runs together may make: beyond it the answer takes half an hour and more.
const UPDATES_MAX: u64 = 20_000_000_000;
/// Seconds of an hour.
const HOUR: u64 = 3_600;
/// Seconds of a day.
const DAY: u64 = 86_400;
/// Bytes of a page, where nobody says.
const PAGE: u64 = 4_096;

/// The command with its arguments.
///
/// # Errors
/// What is wrong with them, with the trace, or with the files to record.
pub fn run(arguments: &[String]) -> Result<()> {
    match options::parse(arguments)? {
        Request::Help => print(options::USAGE),
        Request::Record { trace, files, copies, hours, seed } => {
            let folder = record::Folder::beside(&trace)?;
            let wanted = record::Wanted { files, copies, hours, folder: folder.path().into(), seed };
            let recorded = record::record(&wanted)?;
            record::write_whole(&trace, &recorded.encode(), folder.path())?;
            print(&described(&recorded, &trace))
        }
        Request::Simulate(wanted) => {
            wanted.charts.iter().try_for_each(|(_, path)| draw::check(path))?;
            let answer = simulate(&wanted)?;
            for (form, path) in &wanted.charts {
                draw::write(&answer, *form, path)?;
            }
            match wanted.json {
                true => print(&format!("{:#}\n", answer.json())),
                false => print(&answer.text()),
            }
        }
    }
}

fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Error::io("writing", "standard output", error))
}

fn described(trace: &Trace, path: &Path) -> String {
    let pages: usize = trace.updates.iter().map(|update| update.used.len()).sum();
    let line = format!(
        "{}: {} updates of {} copies, {:.2} pages each; khz rrd simulate --trace {}",
        text::name(path),
        trace.updates.len(),
        trace.copies.len(),
        pages as f64 / trace.updates.len().max(1) as f64,
        text::name(path),
    );
    khz_rrd::lines::wrapped("", "  ", &line)
}

/// Simulates what is wanted.
fn simulate(wanted: &Simulate) -> Result<Answer> {
    match &wanted.source {
        Source::Trace(path) => of_trace(wanted, path),
        Source::Words(words) if words.is_empty() => {
            let words = shape::MRTG.map(str::to_owned);
            of_shape(wanted, &shape_of(wanted, &words)?, "MRTG's layout".into())
        }
        Source::Words(words) => {
            let count = |kind: &str| words.iter().filter(|word| word.starts_with(kind)).count();
            let name = format!("a layout with {} DS and {} RRA", count("DS:"), count("RRA:"));
            of_shape(wanted, &shape_of(wanted, words)?, name)
        }
        Source::File(path) => {
            let rrd = Rrd::open(path, Access::Read)?;
            let shape = Shape::of(&rrd.header, wanted.page.unwrap_or(PAGE))?;
            of_shape(wanted, &shape, text::name(path))
        }
    }
}

fn shape_of(wanted: &Simulate, words: &[String]) -> Result<Shape> {
    Shape::from_words(words, wanted.step.unwrap_or(300), wanted.page.unwrap_or(PAGE))
}

fn of_shape(wanted: &Simulate, shape: &Shape, name: String) -> Result<Answer> {
    let begin = if wanted.is_aligned { Begin::Aligned } else { Begin::Random(wanted.seed) };
    let steps = |hours: u64| (hours * HOUR).div_ceil(shape.step);
    // From a midnight on.
    let span =
        Span { first: DAY.div_ceil(shape.step), warm: steps(wanted.warm), counted: steps(wanted.hours) };
    let subject = subject(wanted, name, shape.pages(), shape.page, shape.step);
    answer(wanted, subject, span, || Made::new(shape.clone(), wanted.engine, wanted.sample, begin))
}

fn of_trace(wanted: &Simulate, path: &Path) -> Result<Answer> {
    let name = text::name(path);
    let recorded = Recorded::new(Trace::decode(&read(path)?, &name)?, &name)?;
    let (page, step) = (recorded.trace().page, recorded.trace().step);
    let (first, all) = recorded.span();
    let steps = |hours: u64| (hours * HOUR).div_ceil(step);
    let (warm, counted) = (steps(wanted.warm), steps(wanted.hours));
    if warm.saturating_add(counted) > all {
        return refused(format!(
            "{name} has {all} steps of {step} s, and {warm} to warm up and {counted} to count are wanted: record it again with \
             --hours {}, or simulate fewer with --warm and --hours",
            wanted.warm + wanted.hours
        ));
    }
    let pages = recorded.trace().copies.iter().map(|copy| copy.pages).max().unwrap_or(0);
    let name = format!("trace {name}, {} copies", recorded.trace().copies.len());
    answer(wanted, subject(wanted, name, pages, page, step), Span { first, warm, counted }, || recorded)
}

/// The bytes of a trace; not those of a larger file.
fn read(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read;
    let failed = |error| Error::io("reading", path, error);
    let file = std::fs::File::open(path).map_err(|error| Error::io("opening", path, error))?;
    let mut bytes = vec![];
    file.take(trace::BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn subject(wanted: &Simulate, updates: String, pages: u32, page: u64, step: u64) -> Subject {
    let memory = match wanted.room {
        Room::Bytes(bytes) => Some(bytes),
        Room::Pages(..) => None,
    };
    let (files, sample, readahead) = (wanted.files, wanted.sample, wanted.readahead);
    Subject { updates, pages, page, step, files, sample, readahead, memory }
}

/// The steps of a simulation.
struct Span {
    first: u64,
    warm: u64,
    counted: u64,
}

fn answer<U: Updates + Clone + Sync>(
    wanted: &Simulate,
    subject: Subject,
    span: Span,
    updates: impl FnOnce() -> U,
) -> Result<Answer> {
    let settings = settings(wanted, subject.page)?;
    let of_one = (span.warm + span.counted).saturating_mul(u64::from(wanted.sample));
    if of_one.saturating_mul(settings.len() as u64) > UPDATES_MAX {
        return refused(format!(
            "{} runs of {of_one} updates are more than {UPDATES_MAX}: simulate fewer files with --sample, fewer --hours, or \
             fewer --pages",
            settings.len()
        ));
    }
    let fleet = Fleet {
        files: wanted.sample,
        pages: subject.pages,
        map: wanted.map,
        inodes_per_page: (subject.page as u32 / wanted.inode).max(1),
        inode_ahead: wanted.inode_ahead,
    };
    // Refused before the rows of each file are made.
    fleet.total()?;
    let frame = Frame {
        fleet,
        files: wanted.files,
        readahead: u32::try_from(wanted.readahead / subject.page).unwrap_or(u32::MAX),
        step: subject.step,
        first: span.first,
        warm: span.warm,
        counted: span.counted,
        expire: wanted.expire,
        background: wanted.background,
    };
    let outcomes = experiment::run(&frame, &updates(), &settings)?;
    Ok(Answer { subject, outcomes })
}

/// The runs: each size of memory with each column of the answer.
fn settings(wanted: &Simulate, page: u64) -> Result<Vec<Setting>> {
    let sizes: Vec<f64> = match wanted.room {
        Room::Pages(from, to) => (from..=to).map(f64::from).collect(),
        Room::Bytes(bytes) => vec![memory::pages_a_file(bytes, wanted.files, page)?],
    };
    let all = |pages| columns().map(|(model, advice)| Setting { pages, model, advice });
    Ok(sizes.into_iter().flat_map(all).collect())
}
