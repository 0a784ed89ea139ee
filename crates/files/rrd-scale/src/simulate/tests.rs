//! The simulation as a whole: against the kernel of this machine, and against the figures of the LISA'07 paper.

use std::path::{Path, PathBuf};

use khz_rrd::file::{Access, Rrd};

use super::experiment::Model;
use super::made::{Begin, Engine, Made};
use super::options::{self, Request};
use super::report::Answer;
use super::shape::Shape;
use super::touch::{self, Updates};
use super::trace::{Copy, Trace, Update, Used};
use super::{record, recorded::Recorded, simulate};

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("khz-rrd-simulate-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A new file in it.
    fn file(&self, layout: &[&str]) -> PathBuf {
        let path = self.0.join("a.rrd");
        let name = path.display().to_string();
        let words = ["create", &name, "--start", "1000000000", "--step", "300"];
        let words: Vec<String> = words.iter().chain(layout).map(|word| (*word).to_owned()).collect();
        khz_rrd::cli::command(&words, &[], &mut std::io::sink()).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether the kernel of this machine can be asked; else why not.
fn reason_to_skip(path: &Path) -> Option<String> {
    let copy = path.with_extension("probe");
    std::fs::copy(path, &copy).unwrap();
    let readings = Rrd::open(&copy, Access::Read).unwrap().header.readings();
    record::update(&copy, readings, 1_000_000_300, 1).err().map(|error| error.to_string())
}

/// What the layout and the kernel say of `steps` updates of the file at `path`.
fn compare(path: &Path, steps: u64) -> Vec<(Vec<Used>, Vec<Used>)> {
    let header = Rrd::open(path, Access::Read).unwrap().header.clone();
    let shape = Shape::of(&header, rustix::param::page_size() as u64).unwrap();
    let mut made = Made::of_file(shape, Engine::Khz, &header);
    let last = header.last_update() as u64 / header.step();
    let one = |number: u64| {
        let tick = last + number;
        made.go_to(tick);
        let mut touches = vec![];
        made.of(0, &mut touches);
        let time = (tick * header.step() + header.step() / 2) as i64;
        (touch::used(&touches), record::update(path, header.readings(), time, number).unwrap())
    };
    (1..=steps).map(one).collect()
}

#[test]
fn updates_made_from_a_layout_use_the_pages_that_the_kernel_sees() {
    let folder = Folder::new("agree");
    let wide: Vec<String> = (0..30).map(|n| format!("DS:d{n}:GAUGE:600:U:U")).collect();
    let wide: Vec<&str> =
        wide.iter().map(String::as_str).chain(["RRA:AVERAGE:0.5:1:50", "RRA:MAX:0.5:3:40"]).collect();
    for (layout, steps) in [(&super::shape::MRTG[..], 300), (&wide[..], 60)] {
        let path = folder.file(layout);
        if let Some(reason) = reason_to_skip(&path) {
            return khz_skip::skip(reason);
        }
        for (number, (made, real)) in compare(&path, steps).into_iter().enumerate() {
            assert_eq!(made, real, "update {}", number + 1);
        }
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_recorded_trace_reads_back_and_begins_each_copy_at_rows_of_its_own() {
    let folder = Folder::new("trace");
    let path = folder.file(&super::shape::MRTG);
    if let Some(reason) = reason_to_skip(&path) {
        return khz_skip::skip(reason);
    }
    let wanted = record::Wanted { files: vec![path], copies: 3, hours: 2, folder: folder.0.clone(), seed: 1 };
    let trace = record::record(&wanted).unwrap();
    assert_eq!((trace.copies.len(), trace.updates.len()), (3, 72));
    let first: Vec<&Vec<Used>> = trace.updates.iter().step_by(24).map(|update| &update.used).collect();
    assert!(first[0] != first[1] || first[1] != first[2], "{first:?}");
    assert!(trace.updates.iter().all(|update| update.used[0] == Used { page: 0, is_changed: true }));
    let read = Trace::decode(&trace.encode(), "t").unwrap();
    assert_eq!(read, trace);
    assert_eq!(Recorded::new(read, "t").unwrap().span(), (1_000_080_000 / 300 + 1, 24));
}

fn answer(line: &str) -> Answer {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    match options::parse(&words).unwrap() {
        Request::Simulate(wanted) => simulate(&wanted).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The trace that a recording of these updates would be.
fn as_trace(updates: &mut Made, files: u32, ticks: std::ops::Range<u64>) -> Trace {
    let copies = (0..files).map(|file| Copy { pages: updates.pages(file), header: 1, name: "a".into() });
    let mut trace = Trace { page: 4_096, step: 300, copies: copies.collect(), updates: vec![] };
    for tick in ticks {
        updates.go_to(tick);
        for copy in 0..files {
            let mut touches = vec![];
            updates.of(copy, &mut touches);
            trace.updates.push(Update { copy, time: tick * 300 + 7, used: touch::used(&touches) });
        }
    }
    trace
}

#[test]
fn a_trace_and_the_layout_of_its_files_give_the_same_curve() {
    let words = super::shape::MRTG.map(str::to_owned);
    let shape = Shape::from_words(&words, 300, 4_096).unwrap();
    let files = 40;
    let mut made = Made::new(shape, Engine::Khz, files, Begin::Random(1));
    let folder = Folder::new("curve");
    let trace = folder.0.join("trace");
    std::fs::write(&trace, as_trace(&mut made, files, 288..288 + 36 * 12).encode()).unwrap();
    let span = "--sample 40 --warm 12 --hours 24 --pages 3-9 --readahead 64KiB";
    let (real, made) = (answer(&format!("--trace {} {span}", trace.display())), answer(span));
    for (real, made) in real.outcomes.iter().zip(&made.outcomes) {
        // A trace does not have the order in which the pages of an update are written, which decides what is written back
        // first, and so, with Linux, what can be evicted.
        let most = if real.setting.model == Model::Lru { 0 } else { made.reads.pages / 100 };
        let (a, b) = (real.reads.pages, made.reads.pages);
        assert!(a.abs_diff(b) <= most, "{:?}: {a} and {b}", real.setting);
    }
}

/// Page-ins of an update with `pages` pages of memory a file, in a column of the answer.
fn page_ins(answer: &Answer, pages: f64, column: usize) -> f64 {
    let row = answer.outcomes.iter().position(|outcome| outcome.setting.pages == pages).unwrap();
    answer.outcomes[row + column].pages_an_update()
}

#[test]
fn with_advice_page_ins_are_near_zero_from_eight_pages_as_in_the_paper() {
    let answer = answer("--sample 100 --pages 5-9");
    assert_eq!(answer.knee(0), Some(8.0));
    // Linux keeps some pages that are no longer in use.
    assert!(page_ins(&answer, 8.0, 2) < 0.1 && page_ins(&answer, 9.0, 2) < 0.07);
    for column in [0, 2] {
        assert!((0.3..0.6).contains(&page_ins(&answer, 5.0, column)), "{column}");
    }
}

/// MRTG's archives with two thirds of their rows: 16 pages, as many as readahead brings.
const SIXTEEN: &str = "DS:a:COUNTER:600:0:U DS:b:COUNTER:600:0:U RRA:AVERAGE:0.5:1:400 RRA:AVERAGE:0.5:6:467 \
                       RRA:AVERAGE:0.5:24:517 RRA:AVERAGE:0.5:288:531 RRA:MAX:0.5:1:400 RRA:MAX:0.5:6:467 \
                       RRA:MAX:0.5:24:517 RRA:MAX:0.5:288:531";

#[test]
fn with_readahead_through_mappings_what_it_brings_must_fit_eighteen_pages_as_in_the_paper() {
    let machine =
        "--engine rrdtool --readahead 64KiB --map indirect --inode 128 --sample 40 --warm 12 --hours 12";
    let answer = answer(&format!("{SIXTEEN} {machine} --pages 15-18"));
    for column in [1, 3] {
        let at = |pages| page_ins(&answer, pages, column);
        assert!(at(16.0) > 10.0 && at(18.0) < 0.05, "{column}: {} and {}", at(16.0), at(18.0));
    }
}
