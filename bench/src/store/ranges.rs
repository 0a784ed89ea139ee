//! Questions about the past: one series over three weeks, and one series of all nodes over the hour up to now, as a running
//! hub has it: ten-minute files, the minutes since in the log, and rows that are not in the log yet. Each asked again (warm), asked for the
//! first time (new), and with the pages of its files evicted (cold).

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use khz_model::{ByteSize, Nanos, Pattern, RangeRequest, RangeShape, Ranges};
use khz_store::range::{ColumnFiles, OpenRows, RangeReader};
use khz_store::shelf::{Shelf, StoredHour};
use khz_store::{ColumnFile, Keep, Store, StoreError};

use crate::error::BenchError;
use crate::pairs::thread_cpu_ns;
use crate::place::Pinned;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::store::folder::{self, Scratch};
use crate::store::made_up::{self, Days};
use crate::store::memory::Peak;
use crate::store::nodes::{BEGIN, MOVING, NODES, Nodes, SLOTS};
use crate::table::{Table, figure, thousands};

/// Three weeks from 2025-11-01 on.
const WEEKS: Days = Days {
    nodes: 4,
    series: 24,
    of: made_up::slots,
    begin: Nanos(1_761_955_200_000_000_000),
    days: 21,
    period: Nanos::from_secs(1),
};
/// A day of all nodes. Four rows a minute are enough for its roll-up, and take an hour less to make.
const DAY: Days = Days {
    nodes: NODES,
    series: 8,
    of: made_up::slots,
    begin: Nanos(1_761_955_200_000_000_000),
    days: 1,
    period: Nanos::from_secs(15),
};
/// Nodes of a quick run.
const NODES_QUICK: usize = 256;
/// The rows of the hour come until then.
const HOUR: u64 = 3_600;
/// Nodes are up to a minute ahead of each other. The question ends in the middle, so that open blocks have a part of it.
const AHEAD: u64 = 30;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let heads = ["question", "pages", "wall ms", "quartiles", "CPU ms", "found"];
    let mut table = Table::new(&heads);
    weeks(record, &mut table)?;
    day(record, &mut table)?;
    hour(record, &mut table)?;
    record.show("## Range queries on one core", &table);
    record.say(
        "Warm: the same was asked before. New: it was not, but all files are in memory. Cold: the pages of all files of the\n\
         store were dropped, and mincore(2) found them gone; the process had the files open, as a hub has. Found: readings or\n\
         points. `raw`: out of rows although there are roll-ups. Memory: how much the peak of another process grew while it\n\
         answered; the store maps no files.\n",
    );
    Ok(())
}

/// Keeps everything.
pub fn keep() -> Keep {
    let long = Nanos::from_secs(20 * 365 * 86_400);
    Keep { size: ByteSize(1 << 40), raw: long, minute: long, hour: long }
}

/// A question, and what is expected of the answer.
struct Question<'a> {
    name: &'a str,
    pattern: &'a str,
    from: Nanos,
    to: Nanos,
    shape: RangeShape,
    /// Only rows answer.
    is_raw: bool,
    /// Readings or points; `None`: some.
    found: Option<u64>,
    bound: Bound,
}

impl Question<'_> {
    /// Takes the whole answer. Returns how many readings or points it has.
    fn answer(&self, reader: &RangeReader) -> Result<u64, BenchError> {
        let wrong = |error: khz_model::QueryError| failed(self.name, error);
        let pattern = Pattern::new(self.pattern).map_err(|error| failed("a pattern", error))?;
        let Question { from, to, shape, .. } = *self;
        let mut answer =
            reader.range(RangeRequest { patterns: vec![pattern], from, to, shape }).map_err(wrong)?;
        let mut found = 0;
        while let Some(part) = answer.next().map_err(wrong)? {
            found += part.content.count() as u64;
            std::hint::black_box(part);
        }
        if let Some(damage) = answer.damage().first() {
            return Err(failed(self.name, damage));
        }
        match self.found {
            Some(expected) if expected != found => {
                Err(failed(self.name, format!("{found} readings or points, not {expected}")))
            }
            None if found == 0 => Err(failed(self.name, "found nothing")),
            _ => Ok(found),
        }
    }

    /// Its words for another process.
    fn words(&self) -> [String; 6] {
        let shape = match self.shape {
            RangeShape::Rows => "rows".to_owned(),
            RangeShape::Newest => "newest".to_owned(),
            RangeShape::Points(points) => points.to_string(),
            RangeShape::Steps(_) | RangeShape::Columns(_) | RangeShape::Buckets(_) => {
                unreachable!("BUG: no question of this section is for computing")
            }
        };
        let (from, to) = (self.from.0.to_string(), self.to.0.to_string());
        [self.name.to_owned(), self.pattern.to_owned(), from, to, shape, self.is_raw.to_string()]
    }
}

/// A store that answers questions.
struct Asked<'a> {
    folder: &'a Path,
    store: Store,
    open: Arc<dyn OpenRows>,
    questions: Vec<Question<'a>>,
}

fn reader(store: &Store, open: &Arc<dyn OpenRows>, is_raw: bool) -> RangeReader {
    let files: Arc<dyn ColumnFiles> = match is_raw {
        true => Arc::new(RowsOnly(store.shelf().clone())),
        false => store.shelf().clone(),
    };
    RangeReader::new(files, Some(store.log()), open.clone())
}

impl Asked<'_> {
    fn ask(self, record: &mut Record, table: &mut Table) -> Result<(), BenchError> {
        for question in &self.questions {
            record.progress(question.name);
            let reader = reader(&self.store, &self.open, question.is_raw);
            let _pinned = Pinned::here()?;
            question.answer(&reader)?;
            let (warm, cold) = record.effort.of((20, 5), (3, 1));
            for (pages, turns) in [("warm", warm), ("new", warm), ("cold", cold)] {
                self.turns(record, table, (question, &reader), (pages, turns))?;
            }
        }
        let Asked { folder, store, questions, open } = self;
        // The other process needs the right to write.
        drop((store, open));
        questions.iter().try_for_each(|question| memory(record, folder, question))
    }

    fn turns(
        &self,
        record: &mut Record,
        table: &mut Table,
        (question, reader): (&Question<'_>, &RangeReader),
        (pages, turns): (&str, usize),
    ) -> Result<(), BenchError> {
        let (mut walls, mut cpus, mut found) = (Vec::new(), Vec::new(), 0);
        for turn in 0..turns {
            if pages == "cold" {
                folder::evict(self.folder)?;
            }
            let new = (pages != "warm").then(|| reader.without_unpacked());
            let reader = new.as_ref().unwrap_or(reader);
            let (cpu, wall) = (thread_cpu_ns(), Instant::now());
            found = question.answer(reader)?;
            walls.push(wall.elapsed().as_secs_f64() * 1e3);
            cpus.push((thread_cpu_ns() - cpu) as f64 / 1e6);
            for (what, values) in [("wall_ms", &walls), ("cpu_ms", &cpus)] {
                record.sample(["ranges", question.name, pages], turn, what, values[turn]);
            }
        }
        let (wall, cpu) = (Spread::of(walls), Spread::of(cpus));
        if let (Some(wall), Some(cpu)) = (wall, cpu) {
            table.row([
                question.name.to_owned(),
                pages.to_owned(),
                figure(wall.median),
                format!("{}..{}", figure(wall.lower), figure(wall.upper)),
                figure(cpu.median),
                thousands(found as f64),
            ]);
        }
        record.verdict(&format!("{}, {pages}: ms", question.name), wall, question.bound);
        Ok(())
    }
}

/// What an answer takes in a process that has done nothing before but open the store.
fn memory(record: &mut Record, folder: &Path, question: &Question<'_>) -> Result<(), BenchError> {
    let own = std::env::current_exe().map_err(BenchError::file("this program"))?;
    let mut command = Command::new(own);
    command.arg("range").arg(folder).args(question.words());
    // What is freed goes back to the kernel at once, so that it is not taken for what the answer holds.
    command.envs([("MALLOC_TRIM_THRESHOLD_", "131072"), ("MALLOC_MMAP_THRESHOLD_", "131072")]);
    let output = command.output().map_err(|error| failed("an answer", error))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let Ok(grown) = said.trim().parse::<f64>() else {
        return Err(failed("an answer", String::from_utf8_lossy(&output.stderr).trim()));
    };
    record.sample(["ranges", question.name, "memory"], 0, "memory_kb", grown);
    record.verdict(&format!("{}: memory, MB", question.name), Spread::of([grown / 1e3]), Bound::Stated);
    Ok(())
}

/// The other process: answers once, and prints how much its peak of memory grew, in kB.
pub fn part(words: &[&str]) -> Result<(), BenchError> {
    let usage = || BenchError::Usage("range FOLDER NAME PATTERN FROM TO SHAPE RAW".into());
    let &[folder, name, pattern, from, to, shape, is_raw] = words else { return Err(usage()) };
    let number = |word: &str| word.parse().map(Nanos).map_err(|_| usage());
    let (from, to, is_raw) = (number(from)?, number(to)?, is_raw == "true");
    let shape = match shape {
        "rows" => RangeShape::Rows,
        "newest" => RangeShape::Newest,
        points => RangeShape::Points(points.parse().map_err(|_| usage())?),
    };
    let (store, ..) = Store::open(Path::new(folder), keep(), to).map_err(wrong)?;
    let reader = reader(&store, &(Arc::new(()) as Arc<dyn OpenRows>), is_raw);
    let peak = Peak::begin()?;
    Question { name, pattern, from, to, shape, is_raw, found: None, bound: Bound::Stated }.answer(&reader)?;
    println!("{}", peak.grown_kb()?);
    Ok(())
}

fn wrong(error: StoreError) -> BenchError {
    failed("the store", error)
}

/// The column files without their roll-ups.
struct RowsOnly(Arc<Shelf>);

impl ColumnFiles for RowsOnly {
    fn resolutions(&self) -> Vec<Nanos> {
        Vec::new()
    }

    fn first(&self, _: Nanos) -> Option<Nanos> {
        self.0.first(Nanos(0))
    }

    fn hours(&self, from: Nanos, to: Nanos) -> Vec<StoredHour> {
        self.0.hours(from, to)
    }

    fn files(
        &self,
        resolution: Nanos,
        from: Nanos,
        to: Nanos,
        damage: &mut Vec<StoreError>,
    ) -> Vec<Arc<ColumnFile>> {
        self.0.files(resolution, from, to, damage)
    }

    fn version(&self) -> u64 {
        self.0.version()
    }
}

fn weeks(record: &mut Record, table: &mut Table) -> Result<(), BenchError> {
    let (scratch, days) = (Scratch::new("weeks")?, Days { days: record.effort.of(WEEKS.days, 3), ..WEEKS });
    let folder = scratch.at("store");
    days.write(&folder, |day| record.progress(&format!("three weeks: day {}", day + 1)))?;
    let (store, ..) = Store::open(&folder, keep(), days.end()).map_err(wrong)?;
    let question = |name, is_raw, bound| Question {
        name,
        pattern: "node0002:*[slot9]",
        from: days.begin,
        to: days.end(),
        shape: RangeShape::Points(1_000),
        is_raw,
        found: None,
        bound,
    };
    let questions = vec![
        question("3 weeks by 1000", false, Bound::AtMost(20.0)),
        question("3 weeks by 1000 raw", true, Bound::Stated),
    ];
    Asked { folder: &folder, store, open: Arc::new(()), questions }.ask(record, table)
}

fn day(record: &mut Record, table: &mut Table) -> Result<(), BenchError> {
    let (scratch, days) =
        (Scratch::new("day")?, Days { nodes: record.effort.of(DAY.nodes, NODES_QUICK), ..DAY });
    let folder = scratch.at("store");
    record.progress("a day of all nodes is written");
    days.write(&folder, |_| {})?;
    let (store, ..) = Store::open(&folder, keep(), days.end()).map_err(wrong)?;
    let question = Question {
        name: "a day of all nodes by 300",
        pattern: "*:*[slot3]",
        from: days.begin,
        to: days.end(),
        shape: RangeShape::Points(300),
        is_raw: false,
        // Buckets of five minutes.
        found: Some(days.nodes as u64 * 288),
        bound: Bound::Stated,
    };
    Asked { folder: &folder, store, open: Arc::new(()), questions: vec![question] }.ask(record, table)
}

fn hour(record: &mut Record, table: &mut Table) -> Result<(), BenchError> {
    let scratch = Scratch::new("hour")?;
    let folder = scratch.at("store");
    let second = |second: u64| Nanos(BEGIN + second * Nanos::SECOND.0);
    let (store, intake, _) = Store::open(&folder, keep(), second(0)).map_err(wrong)?;
    let nodes = Nodes::some(record.effort.of(NODES, NODES_QUICK), SLOTS, MOVING, &intake)?;
    for now in 0..HOUR {
        nodes.step(&intake);
        store.commit(second(now)).map_err(wrong)?;
        if now % 60 == 59 {
            record.progress(&format!("the hour comes: minute {}", (now + 1) / 60));
            while !store.tick_compaction(second(now)).map_err(wrong)?.is_idle() {}
        }
    }
    let pieces = folder::files(&folder.join("raw"))?.len();
    let log = folder::bytes(&folder.join("log"))? as f64 / 1e6;
    record.say(&format!("The hour: {pieces} files of ten minutes or less, and {} MB of log.\n", figure(log)));
    // The question is about an hour that ends in the middle of open blocks; some nodes end before.
    let counts = nodes.counts();
    let rows = counts.iter().map(|rows| (*rows).min(HOUR + AHEAD) - AHEAD).sum();
    let count = counts.len() as u64;
    let bound = record.effort.of(Bound::AtMost(500.0), Bound::Stated);
    let question = |name, pattern, shape, found, bound| Question {
        name,
        pattern,
        from: second(AHEAD),
        to: second(HOUR + AHEAD),
        shape,
        is_raw: false,
        found,
        bound,
    };
    // In the middle of those that move: half of each row must be read to find it.
    let (one, of_node) = ("*:*[slot65]", "node0031:*");
    let of_node_rows = Some(SLOTS as u64 * HOUR);
    let questions = vec![
        question("the hour of all nodes", one, RangeShape::Rows, Some(rows), bound),
        question("the hour of all nodes by 60", one, RangeShape::Points(60), None, Bound::Stated),
        question("the newest of all nodes", one, RangeShape::Newest, Some(count), Bound::Stated),
        question("the hour of one node", of_node, RangeShape::Rows, of_node_rows, Bound::Stated),
    ];
    Asked { folder: &folder, store, open: nodes, questions }.ask(record, table)
}
