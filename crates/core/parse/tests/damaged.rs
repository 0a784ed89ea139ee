//! Damaged twins of every captured text, made by code: cut off, emptied, garbled, with numbers too long,
//! missing or added, with lines moved or doubled. The parser never panics and never gives a wrong number: a
//! damaged number is Failed, with its field and line named, and every other reading is unchanged.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use khz_model::{Fault, Reading, ValueType};
use khz_parse::{Entry, FAULTS_MAX, FaultNote, KernelFile, Parser, Pieces, files};
use khz_synthetic_host::{Host, Noise, Shape};

mod made_up;

/// Only three hosts, because every damage is done at every place.
const HOSTS: [&str; 3] = ["linux-6.18-vm2", "linux-6.1-qemu8", "linux-2.4-documented"];

/// Readings by the series' name.
type Readings = BTreeMap<String, Reading>;

/// One captured text.
struct Text {
    file: &'static KernelFile,
    host: &'static str,
    bytes: Vec<u8>,
    /// The readings of the undamaged text.
    whole: Readings,
}

fn texts() -> Vec<Text> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fixtures");
    let mut texts = Vec::new();
    for host in HOSTS {
        // A description is any text: nobody can see that its end is missing.
        for file in files().iter().filter(|file| file.rest().is_none()) {
            let Ok(bytes) = fs::read(fixtures.join(host).join(file.path)) else { continue };
            texts.push(text_of(file, host, bytes));
        }
    }
    // Those hosts have no texts of surveys, and virtual machines have no memory that errs.
    let made_up = Host::new(Shape { cpus: 1, interrupts: 1, interfaces: 1, disks: 1 }, 5);
    let counts = made_up.counts.iter().map(|counts| counts as &dyn khz_synthetic_host::KernelFile);
    let made_up = made_up.surveys.iter().map(|survey| survey as &dyn khz_synthetic_host::KernelFile);
    for made_up in made_up.chain(counts) {
        let file = files().iter().find(|file| file.captured_path() == made_up.path()).unwrap();
        texts.push(text_of(file, "made up", made_up.text().into_bytes()));
    }
    for file in files() {
        // Numbers that are hexadecimal, or parts of names, are none to these tests.
        if let Some(text) = made_up::text(file).filter(|_| !file.name.starts_with("net/ip_vs")) {
            texts.push(text_of(file, "made up", text.into()));
        }
        // Numbers below zero are numbers to some entries.
        let is_wanted = |entry: &Entry| entry.value_type != ValueType::Signed;
        if let Some(text) = made_up::tree_text(file, 6, is_wanted).filter(|text| text.contains("=1")) {
            texts.push(text_of(file, "made up", text.into_bytes()));
        }
    }
    assert!(texts.len() > 30);
    texts
}

fn text_of(file: &'static KernelFile, host: &'static str, bytes: Vec<u8>) -> Text {
    let (whole, faults) = read(file, &bytes);
    assert_eq!(faults, [], "{host}/{}", file.path);
    Text { file, host, bytes, whole }
}

/// The readings of a fresh parser that sees only this text. A parser that saw the whole text before must give
/// the same.
fn read(file: &'static KernelFile, bytes: &[u8]) -> (Readings, Vec<FaultNote>) {
    let mut parser = Parser::new(file);
    parser.advance_with(bytes);
    (readings(&parser), parser.faults().to_vec())
}

fn readings(parser: &Parser) -> Readings {
    let series = parser.schema().series().iter().enumerate();
    series.map(|(slot, series)| (series.to_string(), parser.reading(slot).unwrap())).collect()
}

impl Text {
    /// Reads the damaged text with a fresh parser and with one that has read the whole text; they must agree.
    fn damaged(&self, bytes: &[u8], how: &str) -> (Readings, Vec<FaultNote>) {
        let (fresh, faults) = read(self.file, bytes);
        assert!(fresh.values().all(|reading| reading.state() != 1), "{how}: not gathered yet?");
        let mut parser = Parser::new(self.file);
        parser.advance_with(&self.bytes);
        parser.advance_with(bytes);
        for (name, reading) in readings(&parser) {
            match fresh.get(&name) {
                Some(expected) => assert_eq!(reading, *expected, "{how}: {name}"),
                None => assert_eq!(reading.value(), None, "{how}: {name} outlived its instance"),
            }
        }
        let failed = fresh.values().any(|reading| matches!(reading, Reading::Failed(_)));
        assert!(!failed || !faults.is_empty(), "{how}: a reading failed, and no fault says why");
        (fresh, faults)
    }

    /// No value differs from that of the whole text.
    fn is_never_wrong(&self, damaged: &Readings, how: &str) {
        for (name, reading) in damaged.iter().filter(|(_, reading)| reading.value().is_some()) {
            assert_eq!(Some(reading), self.whole.get(name), "{how}: {name}");
        }
    }

    fn called(&self, how: impl std::fmt::Display) -> String {
        format!("{}/{}, {how}", self.host, self.file.path)
    }

    /// Ranges of the numbers, their decimals included. Digits inside a name do not count.
    fn numbers(&self) -> Vec<Range<usize>> {
        let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.bytes.len() {
            let end = at + self.bytes[at..].iter().take_while(|byte| is_number(byte)).count();
            let before = at.checked_sub(1).map(|before| self.bytes[before]);
            let is_separated = before.is_none_or(|byte| matches!(byte, b' ' | b':' | b'=' | b'/' | b'\n'));
            let after = self.bytes.get(end).copied();
            if end > at && is_separated && after.is_none_or(|byte| matches!(byte, b' ' | b'\n' | b'/')) {
                found.push(at..end);
            }
            at = end.max(at + 1);
        }
        // In the text of a survey, digits before which no `=` stands are names, and so is a label.
        if matches!(self.file.pieces, Pieces::Survey { .. }) {
            found.retain(|range| {
                let before = &self.bytes[..range.start];
                before.ends_with(b"=") && !before.ends_with(b" package=")
            });
        }
        // `intr` has hundreds of numbers after its first, and the parser ignores them: a few are enough.
        let is_intr = |at: usize| self.lines()[self.line_of(at) as usize - 1].starts_with(b"intr ");
        let mut some = 0;
        found.retain(|range| {
            some += usize::from(is_intr(range.start));
            !is_intr(range.start) || some < 4 || some.is_multiple_of(100)
        });
        found
    }

    /// True if each line of numbers goes by the names in the line before it.
    fn is_paired(&self) -> bool {
        ["proc/net/snmp", "proc/net/netstat"].contains(&self.file.path)
    }

    /// False if what a line means is said by the lines before.
    fn has_lines_of_their_own(&self) -> bool {
        self.file.name != "mdstat"
    }

    fn lines(&self) -> Vec<&[u8]> {
        self.bytes.split_inclusive(|&byte| byte == b'\n').collect()
    }

    fn line_of(&self, at: usize) -> u32 {
        1 + self.bytes[..at].iter().filter(|&&byte| byte == b'\n').count() as u32
    }

    /// The text with `range` replaced.
    fn with(&self, range: &Range<usize>, new: &str) -> Vec<u8> {
        [&self.bytes[..range.start], new.as_bytes(), &self.bytes[range.end..]].concat()
    }
}

#[test]
fn cut_off_at_any_byte_nothing_is_wrong_and_the_line_is_named() {
    for text in texts() {
        // At every byte in short texts; in long ones around the ends of lines and at some other bytes.
        let ends_line = |at: &usize| text.bytes[at.saturating_sub(2)..].iter().take(4).any(|&b| b == b'\n');
        let all = text.bytes.len() < 1_500;
        for cut in (0..text.bytes.len()).filter(|at| all || ends_line(at) || at.is_multiple_of(13)) {
            let how = text.called(format!("cut at {cut}"));
            let bytes = &text.bytes[..cut];
            let (readings, faults) = text.damaged(bytes, &how);
            text.is_never_wrong(&readings, &how);
            // A node without disks has an empty /proc/diskstats, which is correct.
            let is_in_order = cut == 0 && text.file.path == "proc/diskstats";
            if !is_in_order && bytes.last() != Some(&b'\n') {
                // Which line is missing cannot be known: its slots are Failed, not Absent.
                assert!(readings.values().all(|reading| !matches!(reading, Reading::Absent(_))), "{how}");
                let problem = if cut == 0 { "empty" } else { "ends in the middle of a line" };
                let cut_off = faults.iter().find(|fault| fault.problem == problem);
                let cut_off = cut_off.unwrap_or_else(|| panic!("{how}: {faults:?}"));
                assert_eq!(cut_off.line, text.line_of(cut), "{how}");
            }
        }
    }
}

#[test]
fn a_text_of_which_no_line_can_be_read_is_failed_not_absent() {
    for text in texts() {
        let mut parser = Parser::new(text.file);
        parser.advance_with(&text.bytes);
        let garbled: Vec<u8> =
            text.bytes.iter().map(|byte| if b" :=\t/".contains(byte) { b'?' } else { *byte }).collect();
        // A file of one number has none.
        if garbled == text.bytes {
            continue;
        }
        parser.advance_with(&garbled);
        let how = text.called("without its separators");
        assert!(!parser.faults().is_empty(), "{how}");
        for (name, reading) in readings(&parser) {
            assert_eq!(reading, Reading::Failed(Fault::Malformed), "{how}: {name}");
        }
    }
}

#[test]
fn bytes_that_are_no_text_give_no_value() {
    let mut noise = Noise::new(7);
    for text in texts() {
        for length in [1, 2, 7, 64, 100, 4_096, 70_000] {
            // All bytes but digits: a digit in the right place would be a number.
            let byte = |noise: &mut Noise| match noise.below(256) as u8 {
                digit if digit.is_ascii_digit() => 0,
                other => other,
            };
            let bytes: Vec<u8> = (0..length).map(|_| byte(&mut noise)).collect();
            let how = text.called(format!("{length} bytes"));
            let (readings, _) = text.damaged(&bytes, &how);
            assert!(readings.values().all(|reading| reading.value().is_none()), "{how}");
        }
        for bytes in
            [vec![0; 5_000], vec![b'\n'; 5_000], vec![b' '; 5_000], vec![0xFF; 5_000], vec![b'9'; 5_000]]
        {
            let how = text.called(format!("5000 times {:#x}", bytes[0]));
            let (readings, _) = text.damaged(&bytes, &how);
            assert!(readings.values().all(|reading| reading.value().is_none()), "{how}");
        }
    }
}

/// Replaces each number in turn. Nothing else may change, and each changed reading is Failed, with its line
/// named. Returns how many series failed in all.
fn every_number_becomes(new: &str, fault: Option<Fault>) -> usize {
    let mut failures = 0;
    for text in texts() {
        for range in text.numbers() {
            let line = text.line_of(range.start);
            let old = String::from_utf8_lossy(&text.bytes[range.clone()]).into_owned();
            let how = text.called(format!("line {line}: {old} became '{new}'"));
            let (readings, faults) = text.damaged(&text.with(&range, new), &how);
            text.is_never_wrong(&readings, &how);
            for (name, reading) in &readings {
                let Some(whole) = text.whole.get(name).filter(|whole| *whole != reading) else { continue };
                assert!(whole.value().is_some(), "{how}: {name} came out of nowhere");
                failures += 1;
                assert!(matches!(reading, Reading::Failed(_)), "{how}: {name} is {reading:?}");
                if let Some(fault) = fault {
                    assert_eq!(*reading, Reading::Failed(fault), "{how}: {name}");
                }
                // A sum fails with its part; it has no position in the text.
                let named = |note: &&FaultNote| note.field == *name || name.starts_with("disk.ios[");
                let note = faults.iter().find(named);
                // A line that is damaged as a whole may have more numbers than faults are kept.
                let note = note.or(faults.last().filter(|_| faults.len() == FAULTS_MAX));
                assert!(note.is_some_and(|note| note.line == line), "{how}: {name}: {faults:?}");
            }
            assert!(faults.len() <= FAULTS_MAX);
        }
    }
    failures
}

#[test]
fn numbers_beyond_64_bits_are_out_of_range_not_wrapped() {
    let beyond = "18446744073709551616";
    assert!(every_number_becomes(beyond, None) > 1_000);
    assert!(every_number_becomes("99999999999999999999999999", None) > 1_000);
    // A whole number fails for its size; `0.52` also lost its point.
    for text in texts().iter().filter(|text| ["proc/net/dev", "proc/vmstat"].contains(&text.file.path)) {
        for range in text.numbers() {
            let (readings, _) = text.damaged(&text.with(&range, beyond), "beyond");
            let failed = readings.values().filter(|reading| matches!(reading, Reading::Failed(_)));
            failed.for_each(|reading| assert_eq!(*reading, Reading::Failed(Fault::OutOfRange)));
        }
    }
}

#[test]
fn words_that_are_no_numbers_are_malformed() {
    for new in ["x", "-1", "1e5", "\u{0}"] {
        assert!(every_number_becomes(new, Some(Fault::Malformed)) > 1_000, "{new}");
    }
}

#[test]
fn a_field_that_is_missing_is_never_filled_with_its_neighbour() {
    for text in texts() {
        for range in text.numbers() {
            // The blank before the number goes too.
            let from = range.start - usize::from(range.start > 0 && text.bytes[range.start - 1] == b' ');
            let how = text.called(format!("line {} without its byte {}", text.line_of(from), range.start));
            let (readings, faults) = text.damaged(&text.with(&(from..range.end), ""), &how);
            // Kernels have printed four, seven, eight, nine and ten states of a CPU: a shorter line of
            // /proc/stat looks like the line of an older kernel.
            if text.file.path != "proc/stat" {
                text.is_never_wrong(&readings, &how);
            }
            let is_here = |note: &FaultNote| note.line == text.line_of(from);
            assert!(faults.iter().all(is_here) || !text.has_lines_of_their_own(), "{how}: {faults:?}");
        }
    }
}

#[test]
fn fields_that_are_added_change_nothing_or_fail_their_line() {
    for text in texts() {
        for added in [" 77777", " 77777 88888", " x", "\t5"] {
            for (number, line) in text.lines().iter().enumerate() {
                let end = text.lines()[..=number].concat().len() - 1;
                let how = text.called(format!("line {} with '{added}' after it", number + 1));
                let (readings, faults) = text.damaged(&text.with(&(end..end), added), &how);
                // A header with one more column makes the lines below it too short.
                if !line.contains(&b'|') && !text.is_paired() && text.has_lines_of_their_own() {
                    assert!(faults.iter().all(|note| note.line as usize == number + 1), "{how}: {faults:?}");
                }
                // A longer line of /proc/stat looks like the line of a newer kernel.
                if text.file.path != "proc/stat" {
                    text.is_never_wrong(&readings, &how);
                }
            }
        }
    }
}

#[test]
fn lines_in_any_order_mean_the_same() {
    let mut noise = Noise::new(11);
    for text in texts().iter().filter(|text| text.has_lines_of_their_own()) {
        // The header of net/dev has to come first: the parser finds the columns by it.
        let header = if text.file.path == "proc/net/dev" { 2 } else { 0 };
        // A line of names and its line of numbers stay together.
        let lines: Vec<Vec<u8>> =
            text.lines().chunks(if text.is_paired() { 2 } else { 1 }).map(<[&[u8]]>::concat).collect();
        for round in 0..20 {
            let mut order: Vec<usize> = (0..lines.len()).collect();
            for last in (header + 1..order.len()).rev() {
                order.swap(last, header + noise.below((last - header) as u64 + 1) as usize);
            }
            let bytes = order.iter().map(|&line| lines[line].clone()).collect::<Vec<_>>().concat();
            let how = text.called(format!("order {round}"));
            let (readings, faults) = text.damaged(&bytes, &how);
            assert_eq!((readings, faults), (text.whole.clone(), vec![]), "{how}");
        }
    }
}

#[test]
fn a_line_that_appears_twice_fails_and_no_other() {
    for text in texts().iter().filter(|text| text.has_lines_of_their_own()) {
        let lines = text.lines();
        for number in 0..lines.len() {
            let how = text.called(format!("line {} twice", number + 1));
            let bytes = [&lines[..=number], &lines[number..]].concat().concat();
            let (readings, faults) = text.damaged(&bytes, &how);
            text.is_never_wrong(&readings, &how);
            let lost = readings.iter().filter(|(name, reading)| text.whole.get(*name) != Some(reading));
            for (name, reading) in lost {
                assert_eq!(*reading, Reading::Failed(Fault::Malformed), "{how}: {name}");
            }
            assert!(faults.iter().all(|note| note.line as usize == number + 2), "{how}: {faults:?}");
        }
    }
}

#[test]
fn a_missing_line_leaves_the_others_unchanged() {
    for text in texts().iter().filter(|text| text.has_lines_of_their_own()) {
        let lines = text.lines();
        let header = if text.file.path == "proc/net/dev" { 2 } else { 0 };
        for number in header..lines.len() {
            let how = text.called(format!("without line {}", number + 1));
            let bytes = [&lines[..number], &lines[number + 1..]].concat().concat();
            let (readings, _) = text.damaged(&bytes, &how);
            text.is_never_wrong(&readings, &how);
            let line_is_not_all = lines.len() > header + 1;
            assert_eq!(line_is_not_all, readings.values().any(|reading| reading.value().is_some()), "{how}");
        }
    }
}

#[test]
fn counters_that_go_backwards_are_read_as_printed() {
    for text in texts() {
        let mut parser = Parser::new(text.file);
        for digit in [b'9', b'1', b'0', b'5', b'0'] {
            // Every digit of every number becomes `digit`.
            let mut bytes = text.bytes.clone();
            for at in text.numbers().into_iter().flatten().filter(|&at| text.bytes[at] != b'.') {
                bytes[at] = digit;
            }
            parser.advance_with(&bytes);
            let (fresh, faults) = read(text.file, &bytes);
            assert_eq!(parser.faults(), faults);
            assert_eq!(readings(&parser), fresh, "{}", text.called(digit as char));
        }
    }
}
