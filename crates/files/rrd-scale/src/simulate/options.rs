//! The command line of `khz rrd simulate`: words in, a checked request out. Does nothing else.

use std::path::PathBuf;

use khz_rrd::Result;
use khz_rrd::error::refused;
use khz_rrd::text;

use super::fleet::Map;
use super::made::Engine;

/// What `--help` prints.
pub const USAGE: &str = "\
khz rrd simulate [DS:... RRA:... | FILE | --trace TRACE] [OPTION...]
khz rrd simulate --record TRACE [--copies N] [--hours N] FILE...

How many pages of .rrd files a machine has to read from its disk, by the
memory that it has for them: a page cache is simulated page by page, as LRU
and with the two lists of Linux, with and without advice against readahead.

What is updated (without it: MRTG's layout, 2 data sources and 8 archives):
  DS:... RRA:...      a layout, as for create
  FILE                the layout of this file
  --trace TRACE       real updates, recorded with --record
  --record TRACE      records them: updates copies of each FILE beside TRACE,
                      and asks the kernel which pages each update used
  --copies N          of each FILE (8)
  --engine NAME       khz (pread and pwrite) or rrdtool (mmap); khz
  --rows NAME         random or aligned: where archives begin (random)
  --step S            seconds of a primary point, for a layout (300)

The machine:
  --files N           files (100000)
  --sample N          of these, simulated (at most 1000): what counts is the
                      memory for each file
  --pages N | A-B     pages of memory for each file, with those of inodes (1-28)
  --memory SIZE       memory for pages and the kernel's records of the files,
                      in place of --pages: 16GiB
  --readahead SIZE    read_ahead_kb of the device, where there is no advice
                      (128KiB)
  --page SIZE         of a page (4KiB)
  --map NAME          where the places of blocks are: inline (ext4, XFS), block
                      (fragmented ext4), indirect (ext3); inline
  --inode BYTES       of an inode on the disk (256)
  --inode-ahead N     pages of the inode table read at once (32)
  --expire S          seconds until a changed page is written (30)
  --background N      percent of the memory beyond which they are written (10)

What is counted, and how it is shown:
  --warm N            hours before counting begins (24)
  --hours N           hours that are counted, or recorded (24; recorded 48)
  --seed N            another number: other random rows (1)
  --json              everything, as JSON
  --svg, --png, --html FILE   a chart

With a range of pages the answer is page-ins a file and update by memory; with
one number, or --memory, page-ins a second of the machine by time of day (UTC).

Examples:
  khz rrd simulate
  khz rrd simulate --readahead 64KiB --map indirect --inode 128 --svg f13.svg
  khz rrd simulate --files 320000 --memory 10GiB
  khz rrd simulate --pages 6 --html f14.html
  khz rrd simulate DS:a:GAUGE:20:U:U RRA:AVERAGE:0.5:1:8640 --step 10 --pages 3
  khz rrd simulate --record /var/tmp/t /var/lib/munin/a.rrd
  khz rrd simulate --trace /var/tmp/t
";

/// Most pages a file that a range has.
const RANGE_MAX: u32 = 4_096;
/// Most hours.
const HOURS_MAX: u64 = 24 * 366;
/// Most files of a machine.
const FILES_MAX: u64 = 1 << 32;

/// Whose updates.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Words of a layout; none: MRTG's.
    Words(Vec<String>),
    /// A file.
    File(PathBuf),
    /// A trace.
    Trace(PathBuf),
}

/// Memory for a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Room {
    /// From the first number of pages to the second.
    Pages(u32, u32),
    /// Bytes for all files.
    Bytes(u64),
}

/// A form of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// SVG.
    Svg,
    /// PNG.
    Png,
    /// HTML.
    Html,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// The help.
    Help,
    /// A recording.
    Record {
        /// Where the trace goes.
        trace: PathBuf,
        /// The files.
        files: Vec<PathBuf>,
        /// Copies of each.
        copies: u32,
        /// Hours of updates.
        hours: u64,
        /// Which random rows.
        seed: u64,
    },
    /// A simulation.
    Simulate(Box<Simulate>),
}

/// A simulation.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the help describes each option")]
pub struct Simulate {
    pub source: Source,
    pub engine: Engine,
    pub is_aligned: bool,
    /// Where it was given.
    pub step: Option<u64>,
    pub files: u64,
    pub sample: u32,
    pub room: Room,
    /// Bytes.
    pub readahead: u64,
    /// Bytes, where it was given.
    pub page: Option<u64>,
    pub map: Map,
    pub inode: u32,
    pub inode_ahead: u32,
    pub expire: u32,
    pub background: u32,
    pub warm: u64,
    pub hours: u64,
    pub seed: u64,
    pub json: bool,
    pub charts: Vec<(Form, PathBuf)>,
}

/// The options that take a value, and those that take none.
const VALUES: [&str; 23] = [
    "trace",
    "record",
    "copies",
    "engine",
    "rows",
    "step",
    "files",
    "sample",
    "pages",
    "memory",
    "readahead",
    "page",
    "map",
    "inode",
    "inode-ahead",
    "expire",
    "background",
    "warm",
    "hours",
    "seed",
    "svg",
    "png",
    "html",
];

/// A command line, word by word.
struct Words {
    options: Vec<(String, String)>,
    rest: Vec<String>,
    json: bool,
}

impl Words {
    fn take(arguments: &[String]) -> Result<Self> {
        let mut taken = Self { options: vec![], rest: vec![], json: false };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let Some(option) = word.strip_prefix("--") else {
                match word.strip_prefix('-') {
                    Some(_) => return unknown(word),
                    None => taken.rest.push(word.clone()),
                }
                continue;
            };
            if option.is_empty() {
                taken.rest.extend(words.by_ref().cloned());
            } else if option == "json" {
                taken.json = true;
            } else {
                let (name, value) = match option.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (option, None),
                };
                if !VALUES.contains(&name) {
                    return unknown(word);
                }
                let Some(value) = value.or_else(|| words.next().cloned()) else {
                    return refused(format!(
                        "--{name} needs a value; khz rrd simulate --help lists the options"
                    ));
                };
                taken.options.push((name.to_owned(), value));
            }
        }
        Ok(taken)
    }

    /// The value given last for an option.
    fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A whole number from `least` to `most`.
    fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>> {
        let Some(word) = self.value(name) else { return Ok(None) };
        match word.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => refused(format!("--{name} {word}: not a whole number from {least} to {most}")),
        }
    }

    /// A number of bytes from `least` to `most`.
    fn size(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>> {
        let Some(word) = self.value(name) else { return Ok(None) };
        match bytes(word) {
            Some(size) if (least..=most).contains(&size) => Ok(Some(size)),
            _ => refused(format!("--{name} {word}: not a size from {least} to {most} bytes, such as 4KiB")),
        }
    }

    /// One of the names of `all`.
    fn name<T: Copy>(&self, name: &str, all: &[(T, &str)], usual: T) -> Result<T> {
        let Some(word) = self.value(name) else { return Ok(usual) };
        match all.iter().find(|(_, known)| *known == word) {
            Some((value, _)) => Ok(*value),
            None => {
                let known: Vec<&str> = all.iter().map(|(_, known)| *known).collect();
                refused(format!("--{name} {word}: not one of {}", known.join(", ")))
            }
        }
    }
}

fn unknown<T>(word: &str) -> Result<T> {
    refused(format!("unknown option '{word}'; khz rrd simulate --help lists them"))
}

/// `16GiB` in bytes.
fn bytes(word: &str) -> Option<u64> {
    let end = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let shift = match unit {
        "" | "B" => 0,
        "k" | "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Reads a command line.
///
/// # Errors
/// What is wrong with it, and what is right.
pub fn parse(arguments: &[String]) -> Result<Request> {
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        return Ok(Request::Help);
    }
    let words = Words::take(arguments)?;
    let seed = words.number("seed", 0, u64::MAX)?.unwrap_or(1);
    let hours = words.number("hours", 1, HOURS_MAX)?;
    if let Some(trace) = words.value("record") {
        return record(&words, trace, hours.unwrap_or(48), seed);
    }
    if words.value("copies").is_some() {
        return refused("--copies is for --record");
    }
    let files = words.number("files", 0, FILES_MAX)?.unwrap_or(100_000);
    if files == 0 {
        return refused("--files 0: there is nothing to simulate");
    }
    let sample = words.number("sample", 1, u64::from(u32::MAX))?.unwrap_or(1_000).min(files);
    let size = |name, least, most| words.size(name, least, most);
    let simulate = Simulate {
        source: source(&words)?,
        engine: words.name("engine", &Engine::ALL, Engine::Khz)?,
        is_aligned: words.name("rows", &[(false, "random"), (true, "aligned")], false)?,
        step: words.number("step", 1, super::shape::STEP_MAX)?,
        files,
        sample: sample as u32,
        room: room(&words)?,
        readahead: size("readahead", 0, 1 << 30)?.unwrap_or(128 << 10),
        page: size("page", 512, 1 << 20)?,
        map: words.name("map", &Map::ALL, Map::Inline)?,
        inode: words.number("inode", 64, 4_096)?.unwrap_or(256) as u32,
        inode_ahead: words.number("inode-ahead", 1, 4_096)?.unwrap_or(32) as u32,
        expire: words.number("expire", 1, 86_400)?.unwrap_or(30) as u32,
        background: words.number("background", 1, 100)?.unwrap_or(10) as u32,
        warm: words.number("warm", 0, HOURS_MAX)?.unwrap_or(24),
        hours: hours.unwrap_or(24),
        seed,
        json: words.json,
        charts: charts(&words)?,
    };
    if let Some(page) = simulate.page.filter(|page| !page.is_power_of_two()) {
        return refused(format!("--page {page}: not a power of two"));
    }
    if simulate.step.is_some() && !matches!(simulate.source, Source::Words(_)) {
        return refused("--step is for a layout of words; a file and a trace have their own");
    }
    let is_recorded = matches!(simulate.source, Source::Trace(_));
    if is_recorded && ["engine", "rows", "page"].iter().any(|name| words.value(name).is_some()) {
        return refused("--engine, --rows and --page are not for a trace: it has those of its recording");
    }
    Ok(Request::Simulate(Box::new(simulate)))
}

fn record(words: &Words, trace: &str, hours: u64, seed: u64) -> Result<Request> {
    let known = ["record", "copies", "hours", "seed"];
    if let Some((other, _)) = words.options.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        return refused(format!(
            "--{other} is not for --record; simulate the trace with it: --trace {trace}"
        ));
    }
    if words.rest.is_empty() {
        return refused("no file to record: khz rrd simulate --record TRACE FILE...");
    }
    let files = words.rest.iter().map(|file| text::path(file).into_owned()).collect();
    let copies = words.number("copies", 1, super::trace::COPIES_MAX as u64)?.unwrap_or(8) as u32;
    Ok(Request::Record { trace: text::path(trace).into_owned(), files, copies, hours, seed })
}

fn source(words: &Words) -> Result<Source> {
    let is_layout = |word: &String| word.starts_with("DS:") || word.starts_with("RRA:");
    match (words.value("trace"), words.rest.as_slice()) {
        (Some(trace), []) => Ok(Source::Trace(text::path(trace).into_owned())),
        (Some(_), [other, ..]) => refused(format!("'{other}' beside --trace: a trace has its own files")),
        (None, [file]) if !is_layout(file) => Ok(Source::File(text::path(file).into_owned())),
        (None, layout) => match layout.iter().find(|word| !is_layout(word)) {
            Some(other) => refused(format!("'{other}': either one file, or a layout of DS:... and RRA:...")),
            None => Ok(Source::Words(layout.to_vec())),
        },
    }
}

fn room(words: &Words) -> Result<Room> {
    let memory = words.size("memory", 1, 1 << 50)?;
    let Some(pages) = words.value("pages") else {
        return Ok(memory.map_or(Room::Pages(1, 28), Room::Bytes));
    };
    if memory.is_some() {
        return refused("--pages and --memory say the same thing in two ways: give one of them");
    }
    let (from, to) = pages.split_once('-').unwrap_or((pages, pages));
    match (from.parse(), to.parse()) {
        (Ok(from), Ok(to)) if 1 <= from && from <= to && to <= RANGE_MAX => Ok(Room::Pages(from, to)),
        _ => refused(format!(
            "--pages {pages}: not a number or a range from 1 to {RANGE_MAX}, such as 8 or 1-28"
        )),
    }
}

fn charts(words: &Words) -> Result<Vec<(Form, PathBuf)>> {
    let mut charts = vec![];
    for (name, value) in &words.options {
        let form = match name.as_str() {
            "svg" => Form::Svg,
            "png" if cfg!(feature = "png") => Form::Png,
            "png" => return refused("this program was built without PNG; use --svg or --html"),
            "html" => Form::Html,
            _ => continue,
        };
        charts.push((form, text::path(value).into_owned()));
    }
    Ok(charts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> Result<Request> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    fn simulation(line: &str) -> Simulate {
        match request(line).unwrap() {
            Request::Simulate(simulate) => *simulate,
            other => panic!("{other:?}"),
        }
    }

    fn told(line: &str) -> String {
        request(line).unwrap_err().to_string()
    }

    #[test]
    fn without_words_the_classic_layout_is_swept() {
        let usual = simulation("");
        assert_eq!((usual.source, usual.room), (Source::Words(vec![]), Room::Pages(1, 28)));
        assert_eq!((usual.files, usual.sample, usual.readahead), (100_000, 1_000, 131_072));
    }

    #[test]
    fn options_are_read() {
        let given =
            simulation("a.rrd --files 50 --memory=2GiB --engine rrdtool --rows aligned --json --svg a.svg");
        assert_eq!((given.source, given.room), (Source::File("a.rrd".into()), Room::Bytes(2 << 30)));
        assert_eq!(
            (given.sample, given.engine, given.is_aligned, given.json),
            (50, Engine::Rrdtool, true, true)
        );
        assert_eq!(given.charts, [(Form::Svg, "a.svg".into())]);
        assert_eq!(simulation("--pages 8").room, Room::Pages(8, 8));
        assert!(matches!(
            request("--record t --copies 2 a b").unwrap(),
            Request::Record { copies: 2, hours: 48, .. }
        ));
        assert_eq!(request("--pages -h --help").unwrap(), Request::Help);
    }

    #[test]
    fn wrong_words_are_refused_with_what_is_right() {
        assert_eq!(told("--files 0"), "--files 0: there is nothing to simulate");
        assert_eq!(told("--files x"), "--files x: not a whole number from 0 to 4294967296");
        assert_eq!(
            told("--pages 9-3"),
            "--pages 9-3: not a number or a range from 1 to 4096, such as 8 or 1-28"
        );
        assert!(told("--pages 8 --memory 1GiB").contains("give one of them"));
        assert!(told("--memory 1Gib").contains("not a size"));
        assert!(told("--engine librrd").ends_with("not one of khz, rrdtool"));
        assert!(told("--page 5000").contains("power of two"));
        assert!(told("--oops").contains("--help lists them") && told("-x").contains("--help lists them"));
        assert!(told("--files").contains("needs a value"));
        assert!(told("a.rrd b.rrd").contains("either one file"));
        assert!(told("a.rrd --step 10").contains("--step is for a layout"));
        assert!(told("--trace t a.rrd").contains("a trace has its own files"));
        assert!(told("--trace t --engine khz").contains("not for a trace"));
        assert!(told("--record t").contains("no file to record"));
        assert!(told("--record t --pages 8 a").contains("--pages is not for --record"));
        assert!(told("--copies 3").contains("for --record"));
    }

    #[test]
    fn the_help_fits_a_terminal_and_names_every_option() {
        assert_eq!(USAGE.lines().find(|line| line.chars().count() > 80), None);
        assert!(VALUES.iter().all(|name| USAGE.contains(&format!("--{name}"))));
    }
}
