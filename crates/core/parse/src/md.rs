//! Arrays of disks (Linux software RAID): `/proc/mdstat` has the state of each array, the number of its disks, and how far it is
//! synchronised; the files below `/sys/block/md*/md` say how many disks are missing. An array has some lines in `/proc/mdstat`:
//!
//! ```text
//! md6 : active raid1 sdb2[2](F) sdc[1](S) sda2[0]
//!       195310144 blocks [2/1] [U_]
//!       [=>...................]  recovery =  8.5% (16775552/195310144) finish=17.0min speed=259783K/sec
//! ```
//!
//! `[2/1]`: two disks are needed, one is active. An empty line ends the array.

use std::ops::Range;

use khz_model::instance::kernel_text;
use khz_model::{Fault, Unit};

use crate::entry::{Entry, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::number;
use crate::sink::{InstanceSlots, Sink};
use crate::survey::{self, SURVEY_PERIOD};
use crate::text::{split_at_mark, words};
use crate::tree::{Branch, Part};

/// `/proc/mdstat`. A record is an array: a disk takes some 15 bytes of it.
pub static STATES: KernelFile = KernelFile {
    name: "mdstat",
    path: "proc/mdstat",
    pieces: Pieces::Records { longest: 4_096 },
    only_base: true,
    scalars: &[],
    groups: &[Group { label: "device", entries: PER_ARRAY, ..Group::PLAIN }],
    parse,
};

/// The survey of `/sys/block/md*/md`.
pub static ARRAYS: KernelFile = KernelFile {
    name: "md",
    path: "sys/block",
    pieces: Pieces::Survey { subject: Subject::Tree("md"), captured: "survey/md" },
    only_base: true,
    scalars: &[],
    groups: &ARRAY_GROUPS,
    parse: survey::parse,
};

static ARRAY_GROUPS: [Group; DISKS.len()] = Group {
    label: "device",
    kind: "array",
    branch: Some(Branch { folders: "sys/block/md*/md", name: &[Part::Named(0)], ..Branch::PLAIN }),
    ..Group::PLAIN
}
.each(&DISKS);

static DISKS: [Entry; 2] = [
    gauge("md.raid_disks", "raid_disks", Unit::Count, "Disks that the array is made of.")
        .every(SURVEY_PERIOD)
        .exposed("node_md_raid_disks", &[]),
    gauge("md.degraded", "degraded", Unit::Count, "Disks that the array lacks.")
        .every(SURVEY_PERIOD)
        .exposed("node_md_degraded", &[]),
];

/// The unit of the kernel's blocks, and of node_exporter's.
const BLOCK: u64 = 1_024;

const fn state(
    name: &'static str,
    field: &'static str,
    labels: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> Entry {
    gauge(name, field, Unit::Count, help)
        .at_most(1)
        .exposed("node_md_state", labels)
        .together("1 if the array is in this state.")
}

const fn disks(
    name: &'static str,
    field: &'static str,
    labels: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> Entry {
    gauge(name, field, Unit::Count, help).exposed("node_md_disks", labels).together("Disks of the array.")
}

const NEEDED: usize = 0;
const ACTIVE: usize = 1;
const FAILED: usize = 2;
const SPARE: usize = 3;
const SIZE: usize = 4;
const SYNCED: usize = 5;
/// The first of [`STATE_WORDS`].
const STATES_FROM: usize = 6;

/// What the kernel calls the states: first the states of the array, then the operations on it. `reshape` has no
/// metric.
const STATE_WORDS: [&[u8]; 6] = [b"active", b"inactive", b"recovery", b"resync", b"check", b"reshape"];

/// The states of an array as such.
const ARRAY_STATES: [&[u8]; 3] = [b"active", b"inactive", b"broken"];

/// The states that have a metric.
const STATES_SHOWN: usize = 5;

#[rustfmt::skip]
static PER_ARRAY: &[Entry] = &[
    gauge("md.disks_needed", "[2/...]", Unit::Count, "Disks that the array needs.").exposed("node_md_disks_required", &[]),
    disks("md.disks_active", "[.../1]", &[("state", "active")], "Disks of the array that work."),
    disks("md.disks_failed", "(F)", &[("state", "failed")], "Disks of the array that have failed."),
    disks("md.disks_spare", "(S)", &[("state", "spare")], "Disks of the array that are spare."),
    gauge("md.size", "blocks", Unit::Bytes, "Size of the array.").divided(BLOCK).exposed("node_md_blocks", &[]),
    gauge("md.synced", "(.../...)", Unit::Bytes, "What is synchronised of the array.").divided(BLOCK).exposed("node_md_blocks_synced", &[]),
    state("md.active", "active", &[("state", "active")], "1 if the array is active, and nothing is done to it."),
    state("md.inactive", "inactive", &[("state", "inactive")], "1 if the array is inactive."),
    state("md.recovering", "recovery", &[("state", "recovering")], "1 if a disk of the array is being filled."),
    state("md.resyncing", "resync", &[("state", "resync")], "1 if the array is being synchronised, or waits for it."),
    state("md.checking", "check", &[("state", "check")], "1 if the array is being checked."),
];

/// An array whose lines are being read.
#[derive(Clone, Copy)]
struct Array {
    slots: InstanceSlots,
    /// Its place in [`STATE_WORDS`]; `None`: another state.
    state: Option<usize>,
    failed: u64,
    spare: u64,
    /// Disks needed and active; `None`: they are not known yet.
    disks: Option<(u64, u64)>,
    /// `None`: there is no such line yet, or it is wrong, and that was noted.
    size: Option<u64>,
    synced: Option<u64>,
    has_size_line: bool,
}

fn parse(sink: &mut Sink<'_>) {
    let (mut array, mut is_whole): (Option<Array>, bool) = (None, false);
    sink.lines(|sink, line| {
        let text = &sink.text()[line.clone()];
        if text.trim_ascii().is_empty() {
            if let Some(array) = array.take() {
                array.finish(sink);
            }
        } else if text.starts_with(b" ") {
            match &mut array {
                Some(array) => array.more(sink, line),
                None => sink.note(kernel_text(text), "the line belongs to no array"),
            }
        } else if text.starts_with(b"unused devices:") {
            is_whole = true;
        } else if array.is_some() {
            sink.note(kernel_text(text), "no empty line ends the array before");
        } else if !text.starts_with(b"Personalities :") {
            array = Array::begin(sink, line);
        }
    });
    if array.is_some() || !is_whole {
        sink.note(String::from("the text"), "its last line is missing");
    }
}

impl Array {
    /// Reads the line with the name and the disks.
    fn begin(sink: &mut Sink<'_>, line: Range<usize>) -> Option<Array> {
        let text = sink.text();
        let Some((name, rest)) = split_at_mark(text, line.clone(), b':') else {
            sink.note(kernel_text(&text[line]), "the line begins with no array");
            return None;
        };
        let is_name = |word: &Range<usize>| text[word.end..name.end].trim_ascii().is_empty();
        let Some(name) = words(text, name.clone()).next().filter(is_name) else {
            sink.note(kernel_text(&text[line]), "the line begins with no array");
            return None;
        };
        let array = &text[rest.clone()];
        let mut words = words(text, rest);
        let state = words.next().map(|word| &text[word]).unwrap_or_default();
        if !ARRAY_STATES.contains(&state) {
            sink.note(kernel_text(&text[line]), "the array is in no state");
            return None;
        }
        let state = STATE_WORDS.iter().position(|known| *known == state);
        let slots = sink.instance(0, &text[name])?;
        let is_simple = words.take(2).any(|word| [&b"raid0"[..], b"linear"].contains(&&text[word]));
        let simple = is_simple.then(|| (count(array, b"["), count(array, b"[")));
        let none = (state == Some(1)).then_some((0, 0));
        let (failed, spare) = (count(array, b"(F)"), count(array, b"(S)"));
        let disks = simple.or(none);
        Some(Array { slots, state, failed, spare, disks, size: None, synced: None, has_size_line: false })
    }

    /// Reads another line about the array.
    fn more(&mut self, sink: &mut Sink<'_>, line: Range<usize>) {
        let text = sink.text();
        let mut rest = words(text, line.clone());
        let first = rest.next();
        if rest.next().is_some_and(|word| &text[word] == b"blocks") && !self.has_size_line {
            self.has_size_line = true;
            return self.size(sink, first.map_or(&[][..], |word| &text[word]), &text[line]);
        }
        for word in words(text, line.clone()) {
            let word = text[word].split(|&byte| byte == b'=').next().unwrap_or_default();
            if let Some(state) = STATE_WORDS.iter().skip(2).position(|known| *known == word) {
                self.state = Some(state + 2);
                return self.synced(sink, &text[line]);
            }
        }
    }

    /// `195310144 blocks super 1.2 [2/1] [U_]`
    fn size(&mut self, sink: &mut Sink<'_>, number: &[u8], line: &[u8]) {
        let size = number::digits(number).and_then(bytes);
        match size {
            Ok(size) => (self.size, self.synced) = (Some(size), Some(size)),
            Err(fault) => {
                sink.fail_field(self.slots, SIZE, fault, "not a number");
                sink.fail_field(self.slots, SYNCED, fault, "not a number");
            }
        }
        self.disks = self.disks.or_else(|| pair(line, b'[', b']'));
    }

    /// `recovery = 8.5% (16775552/195310144) finish=17.0min`, or that it waits: `resync=DELAYED`.
    fn synced(&mut self, sink: &mut Sink<'_>, line: &[u8]) {
        let waits = [&b"=DELAYED"[..], b"=PENDING"].iter().any(|word| count(line, word) > 0);
        let done =
            if waits { Some(0) } else { pair(line, b'(', b')').and_then(|(done, _)| bytes(done).ok()) };
        if done.is_none() {
            sink.fail_field(self.slots, SYNCED, Fault::Malformed, "no number of blocks");
        }
        self.synced = done;
    }

    /// Reports what was read, after the last line about the array.
    fn finish(self, sink: &mut Sink<'_>) {
        sink.field_is(self.slots, FAILED, self.failed);
        sink.field_is(self.slots, SPARE, self.spare);
        for state in 0..STATES_SHOWN {
            sink.field_is(self.slots, STATES_FROM + state, u64::from(self.state == Some(state)));
        }
        match self.disks {
            Some((needed, active)) => {
                sink.field_is(self.slots, NEEDED, needed);
                sink.field_is(self.slots, ACTIVE, active);
            }
            None => {
                sink.fail_field(self.slots, NEEDED, Fault::Malformed, "no number of disks");
                sink.fail_field(self.slots, ACTIVE, Fault::Malformed, "no number of disks");
            }
        }
        if !self.has_size_line {
            sink.fail_field(self.slots, SIZE, Fault::Malformed, "no number of blocks");
            sink.fail_field(self.slots, SYNCED, Fault::Malformed, "no number of blocks");
        }
        if let Some(size) = self.size {
            sink.field_is(self.slots, SIZE, size);
        }
        if let Some(synced) = self.synced {
            sink.field_is(self.slots, SYNCED, synced);
        }
    }
}

fn bytes(blocks: u64) -> Result<u64, Fault> {
    blocks.checked_mul(BLOCK).ok_or(Fault::OutOfRange)
}

/// How often a word stands in a line.
fn count(line: &[u8], word: &[u8]) -> u64 {
    line.windows(word.len()).filter(|window| *window == word).count() as u64
}

/// The first two numbers that stand between such brackets: `[2/1]`.
fn pair(line: &[u8], open: u8, close: u8) -> Option<(u64, u64)> {
    line.split(|&byte| byte == open).skip(1).find_map(|rest| {
        let inside = &rest[..rest.iter().position(|&byte| byte == close)?];
        let slash = inside.iter().position(|&byte| byte == b'/')?;
        Some((number::digits(&inside[..slash]).ok()?, number::digits(&inside[slash + 1..]).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use crate::Parser;
    use khz_model::{Fault, Instance, Reading};

    const TEXT: &str = "\
Personalities : [raid0] [raid1] [raid6]
md6 : active raid1 sdb2[2](F) sdc[1](S) sda2[0]
      195310144 blocks super 1.2 [2/1] [U_]
      [=>...................]  recovery =  8.5% (16775552/195310144) finish=17.0min speed=259783K/sec
      bitmap: 0/30 pages [0KB], 65536KB chunk

md9 : active raid1 sdc2[1] sdd2[0]
      523968 blocks [2/2] [UU]
      resync=DELAYED

md10 : active (read-only) raid0 sda1[0] sdb1[1]
       314159265 blocks 64k chunks

md219 : inactive sdb[2](S) sdc[1](S)
        7932 blocks super external:imsm

unused devices: <none>
";

    fn read(text: &str) -> Parser {
        let mut parser = Parser::new(&super::STATES);
        parser.advance_with(text.as_bytes());
        parser
    }

    fn get(parser: &Parser, metric: &str, device: &str) -> Reading {
        let slot = parser.schema().slot(metric, Some(&Instance::parse(device).unwrap())).unwrap();
        parser.reading(slot as usize).unwrap()
    }

    fn values(parser: &Parser, device: &str) -> String {
        let value = |entry: &crate::Entry| match get(parser, entry.name, device) {
            Reading::Present(value) => value.to_string(),
            other => format!("{other:?}"),
        };
        super::PER_ARRAY.iter().map(value).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_array_has_its_disks_its_size_and_one_state() {
        let parser = read(TEXT);
        assert_eq!(parser.faults(), []);
        for (device, expected) in [
            ("md6", "2 1 1 1 199997587456 17178165248 0 0 1 0 0"),
            ("md9", "2 2 0 0 536543232 0 0 0 0 1 0"),
            ("md10", "2 2 0 0 321699087360 321699087360 1 0 0 0 0"),
            ("md219", "0 0 0 2 8122368 8122368 0 1 0 0 0"),
        ] {
            assert_eq!(values(&parser, device), expected, "{device}");
        }
        let parser = read(&TEXT.replace("recovery", "reshape"));
        assert_eq!(values(&parser, "md6"), "2 1 1 1 199997587456 17178165248 0 0 0 0 0");
    }

    #[test]
    fn what_cannot_be_read_is_failed_and_no_other_array() {
        let failed = Reading::Failed(Fault::Malformed);
        let parser = read(&TEXT.replace("(16775552/195310144)", "(?)").replace("[2/2] ", ""));
        assert_eq!(get(&parser, "md.synced", "md6"), failed);
        assert_eq!(get(&parser, "md.size", "md6"), Reading::Present(195_310_144 << 10));
        assert_eq!(get(&parser, "md.disks_active", "md9"), failed);
        assert_eq!(get(&parser, "md.resyncing", "md9"), Reading::Present(1));
        assert_eq!(values(&parser, "md219"), "0 0 0 2 8122368 8122368 0 1 0 0 0");
    }

    #[test]
    fn an_array_whose_end_is_missing_has_no_value() {
        let all = read(TEXT);
        for (at, _) in TEXT.match_indices('\n') {
            let cut = read(&TEXT[..=at]);
            for (slot, series) in cut.schema().series().iter().enumerate() {
                let (reading, whole) = (
                    cut.reading(slot).unwrap(),
                    all.schema().slot(&series.metric.name, series.instance.as_ref()),
                );
                let whole = all.reading(whole.unwrap() as usize).unwrap();
                assert!(reading == whole || reading == Reading::Failed(Fault::Malformed), "{at}: {series}");
            }
        }
    }

    #[test]
    fn a_host_without_arrays_has_none() {
        let parser = read("Personalities : \nunused devices: <none>\n");
        assert_eq!((parser.faults(), parser.schema().len()), (&[][..], 0));
    }
}
