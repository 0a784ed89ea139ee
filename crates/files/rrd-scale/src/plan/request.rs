//! The command line of `khz rrd plan`, and the defaults that this machine gives.

use std::path::Path;
use std::sync::Arc;

use khz_rrd::cli::options::{self, Known, Parsed};
use khz_rrd::create::Plan;
use khz_rrd::ds::Kind;
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::file::{Access, Rrd};
use khz_rrd::header::Definition;
use khz_rrd::machine::{disk, memory};
use khz_rrd::{spec, text};

use super::model::{DAY, Rhythm};
use super::question::Question;
use super::shape::Shape;
use super::system::{self, FileSystem, Map};
use super::{named, words};

/// Seconds of a primary point if nobody says, as in rrdtool.
const STEP: u64 = 300;
/// What Linux reads ahead if nobody has set it.
const READAHEAD: u64 = 128 << 10;
/// Where the kernel lists its objects; only root may read it.
const SLABS: &str = "/proc/slabinfo";
/// Pages and blocks that Linux has.
const PAGES: std::ops::RangeInclusive<u64> = 4096..=65_536;
const BLOCKS: std::ops::RangeInclusive<u64> = 512..=65_536;
/// Inodes larger than a block do not exist.
const INODES: std::ops::RangeInclusive<u64> = 64..=65_536;
/// The longest interval: a file that is updated once in ten years needs no plan.
const INTERVAL_MAX: u64 = 3660 * DAY;

const OPTIONS: &[Known] = &[
    ("files", 'n', true),
    ("layout", 'l', true),
    ("step", 's', true),
    ("interval", 'i', true),
    ("write-every", 'w', true),
    ("memory", 'm', true),
    ("directory", 'd', true),
    ("file-system", 'f', true),
    ("readahead", 'r', true),
    ("page", ' ', true),
    ("reads", ' ', true),
    ("no-advice", ' ', false),
    ("in-step", ' ', false),
    ("json", ' ', false),
    ("help", 'h', false),
];

/// The text of `--help`.
pub const USAGE: &str = "\
Usage: khz rrd plan --files N [FILE | --layout NAME | [-s STEP] DS:... RRA:...]

How many .rrd files of a layout this machine, or another one, keeps up with: the
pages that an update touches, page-ins by time of day, where it breaks, and what
to change. It computes; it reads no file but FILE, and writes none.

The layout
  FILE                 an .rrd file that has it
  -l, --layout NAME    mrtg, munin, cacti or collectd
  DS:... RRA:...       in the words of create
  -s, --step TIME      of a primary point, with these words (default 300)

The files
  -n, --files N        how many
  -i, --interval TIME  time between two updates of a file (default: the step)
  -w, --write-every TIME
                       time between two writes of a file, if a caching daemon
                       gathers its updates (khz rrdcached -w TIME -z TIME)
      --in-step        all files began at the same rows
      --no-advice      the program that updates them lets the kernel read ahead

The machine
  -m, --memory SIZE    for pages, inodes and names (default: what this machine,
                       or the control group, has available)
  -d, --directory DIR  where the files are: its disk gives readahead and file
                       system (default: that of FILE, else this one)
  -f, --file-system NAME[,block=BYTES][,inode=BYTES][,extents|,map]
                       ext4, ext3, ext2, xfs or btrfs, where the disk has not
                       the file system that is meant
  -r, --readahead SIZE what the kernel reads around a page, without advice
      --page BYTES     of a page (default: this machine's)
      --reads N        reads a second that the disk does: then the answer says
                       whether each round ends before the next

      --json           the answer as JSON

Examples:
  khz rrd plan --layout mrtg --files 300000 --memory 4G
  khz rrd plan /var/lib/munin/a/load.rrd -n 50000 --reads 5000
  khz rrd plan -n 1000000 -s 10 DS:v:GAUGE:20:U:U RRA:AVERAGE:0.5:1:8640 -w 1h
";

/// Where the parts of a question come from, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origins {
    /// The layout's name, or its file.
    pub layout: String,
    /// The memory.
    pub memory: String,
    /// The file system.
    pub system: String,
    /// The readahead.
    pub readahead: String,
}

/// A command line.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is asked.
    pub question: Question,
    /// Where its parts come from.
    pub origins: Origins,
    /// Whether the answer is to be JSON.
    pub is_json: bool,
}

/// Parses a command line; `None` if it asks for help.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn parse(arguments: &[String]) -> Result<Option<Request>> {
    let parsed = options::parse(arguments, OPTIONS)?;
    if parsed.has("help") || arguments.is_empty() {
        return Ok(None);
    }
    let (definition, layout) = layout(&parsed)?;
    let shape = Shape::of(&definition)?;
    let rhythm = rhythm(&parsed, &shape)?;
    check_heartbeats(&definition, rhythm.interval)?;
    let page = page(&parsed)?;
    let (memory, memory_origin) = memory(&parsed)?;
    let machine = machine(&parsed)?;
    let question = Question {
        shape: Arc::new(shape),
        files: files(&parsed)?,
        rhythm,
        memory,
        page,
        readahead: machine.readahead,
        is_advised: !parsed.has("no-advice"),
        is_in_step: parsed.has("in-step"),
        system: machine.system,
        reads: reads(&parsed)?,
    };
    let origins = Origins {
        layout,
        memory: memory_origin,
        system: machine.system_origin,
        readahead: machine.readahead_origin,
    };
    Ok(Some(Request { question, origins, is_json: parsed.has("json") }))
}

fn files(parsed: &Parsed) -> Result<u64> {
    match parsed.value("files") {
        None => refused("how many files? Give their number: --files 100000"),
        Some(text) => whole("--files", text, "the number of .rrd files, such as 100000"),
    }
}

/// The layout and its name.
fn layout(parsed: &Parsed) -> Result<(Definition, String)> {
    let is_word = |word: &&String| word.starts_with("DS:") || word.starts_with("RRA:");
    let (words, files): (Vec<&String>, Vec<&String>) = parsed.rest.iter().partition(is_word);
    let ways = usize::from(!words.is_empty()) + usize::from(parsed.has("layout")) + files.len();
    let is_of_words = !words.is_empty();
    match (ways, parsed.value("layout"), files.first()) {
        (0, ..) => refused(format!(
            "which layout? Give an .rrd file, --layout with one of {}, or rrdtool's words: DS:x:GAUGE:600:U:U \
             RRA:AVERAGE:0.5:1:600",
            named::names()
        )),
        (2.., ..) => {
            refused("the layout is given more than once: give one .rrd file, or --layout, or DS:... RRA:...")
        }
        _ if parsed.has("step") && !is_of_words => refused(
            "--step is part of the layout: give it only with DS:... RRA:...; --interval is how often files are updated",
        ),
        (_, Some(name), _) => Ok((named::definition(name)?, name.to_string())),
        (_, _, Some(file)) => Ok((of_file(file)?, file.to_string())),
        _ => Ok((of_words(parsed, &words)?, "of the words".into())),
    }
}

fn of_file(name: &str) -> Result<Definition> {
    let path = text::path(name);
    if path.is_dir() {
        return refused(format!(
            "'{name}' is a directory: give one of its .rrd files, or ask khz rrd doctor, which plans for the files below a \
             directory"
        ));
    }
    let rrd = Rrd::open(&path, Access::Read)?;
    Ok((**rrd.header.definition()).clone())
}

fn of_words(parsed: &Parsed, words: &[&String]) -> Result<Definition> {
    let step = match parsed.value("step") {
        None => STEP,
        Some(text) => seconds("--step", text)?,
    };
    let mut plan = Plan::default();
    let hint =
        |word: &str, form: &str, error: Error| Error::Refused(format!("{word}: {error}; the form is {form}"));
    for word in words {
        if let Some(rest) = word.strip_prefix("DS:") {
            plan.source(rest).map_err(|error| hint(word, "DS:NAME:TYPE:HEARTBEAT:MIN:MAX", error))?;
        } else if let Some(rest) = word.strip_prefix("RRA:") {
            plan.archive(rest, step, 0).map_err(|error| hint(word, "RRA:FUNCTION:XFF:POINTS:ROWS", error))?;
        }
    }
    let missing = |error: Error| {
        Error::Refused(format!(
            "{error}: a layout has both, such as DS:x:GAUGE:600:U:U RRA:AVERAGE:0.5:1:600"
        ))
    };
    plan.definition(step).map_err(missing)
}

/// A reading that comes later than the heartbeat is unknown: such a file never has a value.
fn check_heartbeats(definition: &Definition, interval: u64) -> Result<()> {
    let mut sources = definition.sources.iter().filter(|source| source.kind != Kind::Compute);
    let short = sources.find(|source| source.heartbeat < interval);
    match short {
        None => Ok(()),
        Some(source) => refused(format!(
            "the data source {} has a heartbeat of {}, and an update each {}: every value would be unknown. Give it a \
             heartbeat of {} s or more, or updates more often",
            source.name,
            words::time(source.heartbeat),
            words::time(interval),
            interval
        )),
    }
}

fn rhythm(parsed: &Parsed, shape: &Shape) -> Result<Rhythm> {
    let interval = match parsed.value("interval") {
        None => shape.step,
        Some(text) => seconds("--interval", text)?,
    };
    let write = match parsed.value("write-every") {
        None => interval,
        Some(text) => seconds("--write-every", text)?,
    };
    if interval > INTERVAL_MAX || write > INTERVAL_MAX {
        return refused(format!("--interval and --write-every are at most {}", words::time(INTERVAL_MAX)));
    }
    if write < interval {
        return refused(format!(
            "--write-every {} is less than the time between two updates, {}: a daemon cannot write more often than it gets \
             something",
            words::time(write),
            words::time(interval)
        ));
    }
    Ok(Rhythm { interval, write })
}

fn seconds(option: &str, text: &str) -> Result<u64> {
    spec::option_seconds(text)
        .map_err(|why| Error::Refused(format!("{option} {text}: {why}; give seconds, such as 300 or 5m")))
}

fn whole(option: &str, text: &str, wanted: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::Refused(format!("{option} {text}: not a number; give {wanted}")))
}

/// A number between two limits that is a power of two.
fn power(option: &str, text: &str, limits: &std::ops::RangeInclusive<u64>) -> Result<u64> {
    let wanted = format!("a power of two from {} to {}", limits.start(), limits.end());
    let value = whole(option, text, &wanted)?;
    match value.is_power_of_two() && limits.contains(&value) {
        true => Ok(value),
        false => refused(format!("{option} {text}: give {wanted}")),
    }
}

fn page(parsed: &Parsed) -> Result<u64> {
    match parsed.value("page") {
        None => Ok(rustix::param::page_size() as u64),
        Some(text) => power("--page", text, &PAGES),
    }
}

/// Bytes, with a unit of 1,024 if one is given.
fn size(option: &str, text: &str) -> Result<u64> {
    let bare = text.trim_end_matches("iB");
    let (digits, shift) =
        match bare.char_indices().next_back().and_then(|(at, unit)| Some((at, "KMGT".find(unit)?))) {
            Some((at, index)) => (&bare[..at], 10 * (index + 1)),
            None => (text, 0),
        };
    let bytes = digits.parse::<u64>().ok().and_then(|bytes| bytes.checked_mul(1 << shift));
    match bytes {
        Some(bytes) => Ok(bytes),
        None => refused(format!("{option} {text}: not a size; give bytes or a unit, such as 512M or 4G")),
    }
}

fn memory(parsed: &Parsed) -> Result<(u64, String)> {
    if let Some(text) = parsed.value("memory") {
        return match size("--memory", text)? {
            0 => refused("--memory 0: give the memory that files may take, such as 4G"),
            bytes => Ok((bytes, "of --memory".into())),
        };
    }
    let Some(found) = memory::available() else {
        return refused("the kernel does not say how much memory is available: give --memory, such as 4G");
    };
    let origin = match found.is_of_group {
        true => "what the control group leaves",
        false => "available on this machine",
    };
    Ok((found.bytes, origin.into()))
}

fn reads(parsed: &Parsed) -> Result<Option<f64>> {
    let Some(text) = parsed.value("reads") else { return Ok(None) };
    match text.parse::<f64>().ok().filter(|reads| reads.is_finite() && *reads > 0.0) {
        Some(reads) => Ok(Some(reads)),
        None => refused(format!(
            "--reads {text}: give how many pages a second the disk reads at random, such as 200 (a rotating disk) or 20000"
        )),
    }
}

/// What the disk gives.
struct Machine {
    system: FileSystem,
    system_origin: String,
    readahead: u64,
    readahead_origin: String,
}

fn machine(parsed: &Parsed) -> Result<Machine> {
    let slabs = std::fs::read_to_string(SLABS).unwrap_or_default();
    let directory = directory(parsed);
    let named = parsed.value("file-system").map(|text| file_system(text, &slabs)).transpose()?;
    let ahead = parsed.value("readahead").map(|text| size("--readahead", text)).transpose()?;
    let path = text::path(&directory);
    let disk = disk::of(&path);
    let of_disk = format!("below {}", if directory == "." { "this directory" } else { &directory });
    let (system, system_origin) = match named {
        Some(system) => (system, "of --file-system".into()),
        None => (system::of(disk.as_ref().map_err(again)?, &slabs)?, of_disk.clone()),
    };
    let (readahead, readahead_origin) = match (ahead, disk.ok().and_then(|disk| disk.readahead)) {
        (Some(bytes), _) => (bytes, "of --readahead".into()),
        (None, Some(bytes)) => (bytes, format!("of the disk {of_disk}")),
        (None, None) => (READAHEAD, "the usual one: the disk's is not known".into()),
    };
    Ok(Machine { system, system_origin, readahead, readahead_origin })
}

/// The error with its advice; errors of the system cannot be copied.
fn again(error: &Error) -> Error {
    Error::Refused(format!("{error}; --directory names where the files are, --file-system does without it"))
}

fn directory(parsed: &Parsed) -> String {
    if let Some(directory) = parsed.value("directory") {
        return directory.to_string();
    }
    let file = parsed.rest.iter().find(|word| !word.starts_with("DS:") && !word.starts_with("RRA:"));
    let above = file.and_then(|file| Path::new(file).parent().map(text::name));
    above.filter(|above| !above.is_empty()).unwrap_or_else(|| ".".into())
}

/// `NAME[,block=BYTES][,inode=BYTES][,extents|,map]`.
fn file_system(text: &str, slabs: &str) -> Result<FileSystem> {
    let mut words = text.split(',');
    let mut system = system::usual(words.next().unwrap_or_default(), slabs)?;
    for word in words {
        match word.split_once('=') {
            Some(("block", bytes)) => system.block = power("block", bytes, &BLOCKS)?,
            Some(("inode", bytes)) => system.inode = power("inode", bytes, &INODES)?,
            None if word == "extents" => system.map = Map::Extents,
            None if word == "map" => system.map = Map::Indirect,
            _ => {
                return refused(format!(
                    "--file-system {text}: '{word}' is not block=BYTES, inode=BYTES, extents or map"
                ));
            }
        }
    }
    Ok(system)
}

/// What the disk of a directory, and this machine, give for the files below it; for the doctor.
///
/// # Errors
/// The file system is not known.
pub(super) fn system_of(directory: &Path) -> Result<FileSystem> {
    let slabs = std::fs::read_to_string(SLABS).unwrap_or_default();
    system::of(&disk::of(directory)?, &slabs)
}

/// The readahead in bytes, where the disk says it.
pub(super) fn readahead(kib: Option<u64>) -> u64 {
    kib.and_then(|kib| kib.checked_mul(1024)).unwrap_or(READAHEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_string).collect()
    }

    /// A request on a machine of which everything is said.
    fn asked(line: &str) -> Result<Request> {
        let line = format!("{line} -m 4G -f ext4 -r 128K --page 4096");
        parse(&words(&line)).map(|request| request.expect("it does not ask for help"))
    }

    fn error(line: &str) -> String {
        asked(line).unwrap_err().to_string()
    }

    #[test]
    fn a_layout_is_a_name_or_words() {
        let request = asked("-n 1000 --layout mrtg").unwrap();
        assert!(request.question.shape.is_classic() && !request.is_json);
        assert_eq!(
            (request.question.files, request.question.memory, request.question.readahead),
            (1000, 4 << 30, 131_072)
        );
        assert_eq!(request.question.rhythm, Rhythm { interval: 300, write: 300 });
        let request =
            asked("-n 5 -s 1m DS:x:GAUGE:600:U:U RRA:AVERAGE:0.5:1:60 RRA:MAX:0.5:1h:9 -w 1h --json")
                .unwrap();
        let shape = &request.question.shape;
        assert_eq!((shape.step, shape.sources, shape.archives.len()), (60, 1, 2));
        assert_eq!((shape.archives[1].points, request.question.rhythm.write), (60, 3600));
        assert!(request.is_json);
    }

    #[test]
    fn layouts_that_make_no_sense_are_refused_with_what_to_do() {
        let cases = [
            ("-n 1", "which layout? Give an .rrd file, --layout with one of mrtg"),
            ("-n 1 -l mrtg a.rrd", "the layout is given more than once"),
            ("-n 1 -l none", "no such layout; known are mrtg, munin"),
            ("-n 1 -l mrtg -s 60", "--interval is how often files are updated"),
            (
                "-n 1 -s 0 DS:x:GAUGE:600:U:U RRA:AVERAGE:0.5:1:600",
                "--step 0: value must be positive; give seconds",
            ),
            ("-n 1 DS:x:GAUGE:600:U:U", "at least one Round Robin Archive: a layout has both"),
            ("-n 1 RRA:AVERAGE:0.5:1:600", "at least one Data Source: a layout has both"),
            (
                "-n 1 DS:x:GAUGE:600:U:U RRA:AVERAGE:0.5:1:0",
                "RRA:AVERAGE:0.5:1:0: Invalid row count 0: value must be positive",
            ),
            ("-n 1 DS:x:GAUGE:600:U:U RRA:AVERAGE:0.5:0:600", "the form is RRA:FUNCTION:XFF:POINTS:ROWS"),
            ("-n 1 DS:x:GAUGE:600:U RRA:AVERAGE:0.5:1:600", "the form is DS:NAME:TYPE:HEARTBEAT:MIN:MAX"),
            (
                "-n 1 DS:x:GAUGE:60:U:U RRA:AVERAGE:0.5:1:600",
                "a heartbeat of 1 min, and an update each 5 min",
            ),
            ("-n 1 -l mrtg -i 1h", "Give it a heartbeat of 3600 s or more"),
            ("-n 1 /nonexistent/a.rrd", "opening '/nonexistent/a.rrd': No such file or directory"),
            ("-n 1 /tmp", "'/tmp' is a directory"),
        ];
        for (line, wanted) in cases {
            let error = error(line);
            assert!(error.contains(wanted), "{line}: {error}");
        }
    }

    #[test]
    fn numbers_that_are_none_are_refused_with_an_example() {
        let cases = [
            ("-l mrtg", "how many files? Give their number: --files 100000"),
            ("-l mrtg -n many", "--files many: not a number; give the number"),
            ("-l mrtg -n 1 -i 0", "--interval 0: value must be positive"),
            ("-l mrtg -n 1 -w 60", "--write-every 1 min is less than the time between two updates, 5 min"),
            ("-l mrtg -n 1 -w 99y", "are at most 3660 d"),
            ("-l mrtg -n 1 --reads 0", "--reads 0: give how many pages a second"),
            ("-l mrtg -n 1 --reads NaN", "--reads NaN: give how many"),
        ];
        for (line, wanted) in cases {
            let error = error(line);
            assert!(error.contains(wanted), "{line}: {error}");
        }
        let machine = |text: &str| parse(&words(&format!("-l mrtg -n 1 {text}"))).unwrap_err().to_string();
        assert!(machine("-m 4X -f ext4").contains("--memory 4X: not a size; give bytes or a unit"));
        assert!(machine("-m 0 -f ext4").contains("--memory 0"));
        assert!(machine("-m 99999999999T -f ext4").contains("not a size"));
        assert!(machine("-m 1G -f zfs").contains("'zfs' is not one whose inodes are known"));
        assert!(
            machine("-m 1G -f ext4,inode=100").contains("inode 100: give a power of two from 64 to 65536")
        );
        assert!(machine("-m 1G -f ext4,fast").contains("'fast' is not block=BYTES"));
        assert!(machine("-m 1G --page 5000").contains("--page 5000: give a power of two"));
        assert!(machine("-m 1G -d /nonexistent").contains("--directory names where the files are"));
    }

    #[test]
    fn a_file_system_is_a_name_with_details() {
        let system = file_system("ext4,block=1024,inode=128,map", "").unwrap();
        assert_eq!((system.block, system.inode, system.map), (1024, 128, Map::Indirect));
        assert_eq!(file_system("ext3,extents", "").unwrap().map, Map::Extents);
    }

    #[test]
    fn sizes_have_units_of_1024() {
        let cases = [("4096", 4096), ("128K", 131_072), ("4G", 4 << 30), ("4GiB", 4 << 30), ("1T", 1 << 40)];
        for (text, bytes) in cases {
            assert_eq!(size("x", text).unwrap(), bytes);
        }
    }

    #[test]
    fn help_is_asked_for_by_nothing_too() {
        assert!(parse(&[]).unwrap().is_none() && parse(&words("--help")).unwrap().is_none());
        assert_eq!(USAGE.lines().find(|line| line.chars().count() > 80), None);
        for (name, ..) in OPTIONS.iter().filter(|(name, ..)| *name != "help") {
            assert!(USAGE.contains(&format!("--{name}")), "{name}");
        }
    }

    #[test]
    fn the_directory_is_that_of_the_file() {
        let of = |line: &str| directory(&options::parse(&words(line), OPTIONS).unwrap());
        assert_eq!(
            [of("/var/lib/a.rrd"), of("a.rrd"), of("-l mrtg"), of("a.rrd -d /srv")],
            ["/var/lib", ".", ".", "/srv"]
        );
    }
}
