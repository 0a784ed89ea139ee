//! Files whose lines are a word and columns of numbers, such as `rpc 1218785755 374636 1218815394`: the word says what the line is
//! about, the column what a number is. An entry's field is its place: `rpc 2 of 3` is the second of three numbers in the line `rpc`.
//! `#` in the word stands for digits, which are the instance: `cpu# 7 of 9`. If the numbers are in the line after a line of names, it
//! is `nread 3 of 12 below`, with the first of the names. If a word begins several lines, each below another heading, it is
//! `sb 1 of 1 under read`. A heading is a line without a number.
//!
//! A line with fewer columns than its entries say is damaged, since nobody can know which column is missing. Columns that newer
//! kernels add at the end are left out. Files of a tree of small files may have this form, too ([`crate::tree`]).

use std::ops::Range;

use khz_model::instance::kernel_text;
use khz_model::{Fault, Instance, Labels};

use crate::entry::Entry;
use crate::kernel_file::Group;
use crate::number;
use crate::sink::{InstanceSlots, Sink};
use crate::text::words;

/// A line of which each column is an instance of its group: a procedure of a protocol.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// The word that begins the line.
    pub line: &'static str,
    /// The name of all these instances.
    pub name: &'static str,
    /// The first number counts those that follow, and is no instance itself.
    pub is_counted: bool,
    /// What the group's label is in each column. Empty labels are left out.
    pub labels: &'static [&'static str],
}

impl Columns {
    /// The columns before the first instance.
    const fn before(&self) -> usize {
        self.is_counted as usize
    }

    /// The label of a column, from 1.
    fn label(&self, column: usize) -> Option<&'static str> {
        let label = self.labels.get(column.checked_sub(1 + self.before())?)?;
        (!label.is_empty()).then_some(*label)
    }

    /// True if the line has as many numbers as it says.
    fn is_whole(&self, text: &[u8], numbers: Range<usize>) -> bool {
        let mut words = words(text, numbers);
        let first = words.next().and_then(|word| number::digits(&text[word]).ok());
        !self.is_counted || first == Some(words.count() as u64)
    }
}

/// Where a number stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The word that begins the line.
    pub line: &'static str,
    /// The column, from 1.
    pub column: usize,
    /// The columns that the line has at least.
    pub of: usize,
    /// The numbers stand in the next line, which has no such word.
    pub is_below: bool,
    /// The heading that the line stands below; empty: it may stand anywhere.
    pub under: &'static str,
}

impl Place {
    /// Reads `rpc 2 of 3`.
    pub fn read(text: &'static str) -> Option<Place> {
        let (text, under) = text.split_once(" under ").unwrap_or((text, ""));
        let above = text.strip_suffix(" below");
        let (text, of) = above.unwrap_or(text).rsplit_once(" of ")?;
        let (line, column) = text.rsplit_once(' ')?;
        let (column, of) = (column.parse().ok()?, of.parse().ok()?);
        Some(Place { line, column, of, is_below: above.is_some(), under })
    }

    /// The digits for `#`, if the line begins with this word; empty without `#`.
    fn captured<'a>(&self, word: &'a [u8]) -> Option<&'a [u8]> {
        match self.line.strip_suffix('#') {
            None => (word == self.line.as_bytes()).then_some(&word[..0]),
            Some(begin) => {
                let digits = word.strip_prefix(begin.as_bytes())?;
                (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then_some(digits)
            }
        }
    }
}

/// The word at a place of a text, in the line that begins with this name, which may have several words. `Ok(None)`: there is no such
/// line. The first of several lines counts.
pub fn word_at<'a>(text: &'a [u8], name: &[u8], place: Place) -> Result<Option<&'a [u8]>, Fault> {
    let Some((line, next)) = line_at(text, name, place.under) else { return Ok(None) };
    let line = if place.is_below { next } else { line };
    let words = words(line, 0..line.len()).map(|word| &line[word]);
    if words.clone().count() < place.of {
        return Err(Fault::Malformed);
    }
    Ok(words.clone().nth(place.column.saturating_sub(1)))
}

/// The rest of the line with this name, after the name and `skipped` words; empty: there is no rest, or no such
/// line.
pub fn rest_at<'a>(text: &'a [u8], name: &str, skipped: usize) -> &'a [u8] {
    let Some((line, _)) = line_at(text, name.as_bytes(), "") else { return &[] };
    let mut words = words(line, 0..line.len());
    for _ in 0..skipped {
        words.next();
    }
    line[words.rest()].trim_ascii()
}

/// The names that begin the lines below this heading, or all lines, as far as they have a number after the name: a name ends at a
/// colon, or else at the first blank.
pub fn names_under<'a>(text: &'a [u8], under: &str) -> Vec<&'a [u8]> {
    lines_under(text, under).filter_map(|line| name_of(line).ok().filter(|name| !name.is_empty())).collect()
}

/// What stands after the name in the first line that begins with it, and the line after that one.
fn line_at<'a>(text: &'a [u8], name: &[u8], under: &str) -> Option<(&'a [u8], &'a [u8])> {
    let mut lines = lines_under(text, under);
    let rest = lines.find_map(|line| after_name(line, name))?;
    Some((rest, lines.next().unwrap_or_default()))
}

/// The lines below a heading, up to the next one; all lines, if it is empty.
fn lines_under<'a>(text: &'a [u8], under: &str) -> impl Iterator<Item = &'a [u8]> {
    let mut lines = text.split(|&byte| byte == b'\n');
    let is_all = under.is_empty();
    if !is_all {
        lines.find(|line| name_of(line) == Err(under.as_bytes()));
    }
    lines.take_while(move |line| is_all || name_of(line).is_ok())
}

/// The name that begins a line with a number after it; `Err`: the line is this heading.
fn name_of(line: &[u8]) -> Result<&[u8], &[u8]> {
    let line = line.trim_ascii();
    let end = line.iter().position(|&byte| byte == b':');
    let end = end.or_else(|| line.iter().position(u8::is_ascii_whitespace)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let rest = rest.strip_prefix(b":").unwrap_or(rest).trim_ascii_start();
    match rest.first() {
        Some(first) if first.is_ascii_digit() => Ok(name.trim_ascii_end()),
        _ => Err(line.strip_suffix(b":").unwrap_or(line)),
    }
}

/// What stands in a line after this name and the colon that may end it. A name may end with a mark itself: `SELINUX=`.
fn after_name<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.trim_ascii_start().strip_prefix(name)?;
    let ends =
        name.last().map(|last| b":=".contains(last) || rest.first().is_none_or(|b| b" \t:".contains(b)));
    let rest = ends?.then(|| rest.trim_ascii_start())?;
    Some(rest.strip_prefix(b":").unwrap_or(rest))
}

/// Reads the text.
pub fn parse(sink: &mut Sink<'_>) {
    sink.lines(|sink, line| {
        let text = sink.text();
        let mut words = words(text, line);
        let Some(word) = words.next() else { return sink.note(String::from("a line"), "it is empty") };
        let numbers = words.rest();
        match words.count() {
            0 => sink.note(kernel_text(&text[word]), "no number follows"),
            count => Line { word: &text[word], count, open: None }.read(sink, numbers),
        }
    });
}

/// A line that is being read.
struct Line<'a> {
    word: &'a [u8],
    /// The number of its columns.
    count: usize,
    /// The group of the number before, and its slots; the numbers of a group stand together.
    open: Option<(usize, Option<InstanceSlots>)>,
}

impl<'a> Line<'a> {
    fn read(&mut self, sink: &mut Sink<'a>, numbers: Range<usize>) {
        let is_it = |group: &&'static Group| group.columns.iter().any(|columns| self.is_of(columns));
        if let Some(group) = sink.groups().iter().position(|group| is_it(&group)) {
            return self.instances(sink, group, numbers);
        }
        if !self.is_known(sink.groups()) {
            return ignore(sink, numbers);
        }
        for (index, word) in words(sink.text(), numbers).enumerate() {
            match self.find(sink.groups(), index + 1) {
                Some((group, entry, place)) => self.number(sink, group, entry, place, word),
                None => sink.ignore_word(word),
            }
        }
    }

    /// True if an entry has its number in such a line.
    fn is_known(&self, groups: &'static [Group]) -> bool {
        let is_here =
            |entry: &Entry| place_of(entry).is_some_and(|place| place.captured(self.word).is_some());
        groups.iter().flat_map(|group| group.entries).any(is_here)
    }

    fn is_of(&self, columns: &Columns) -> bool {
        columns.line.as_bytes() == self.word
    }

    /// Group and entry of the number in this column.
    fn find(&self, groups: &'static [Group], column: usize) -> Option<(usize, usize, Place)> {
        let is_here = |place: &Place| place.column == column && place.captured(self.word).is_some();
        let in_group = |(number, group): (usize, &'static Group)| {
            let places = group.entries.iter().map(place_of);
            let found = places.enumerate().find_map(|(index, place)| Some((index, place.filter(is_here)?)));
            found.map(|(index, place)| (number, index, place))
        };
        groups.iter().enumerate().find_map(in_group)
    }

    fn number(&mut self, sink: &mut Sink<'a>, group: usize, entry: usize, place: Place, word: Range<usize>) {
        let slots = match self.open {
            Some((open, slots)) if open == group => slots,
            _ if sink.groups()[group].is_whole() => sink.whole(group),
            _ => sink.instance(group, place.captured(self.word).unwrap_or_default()),
        };
        self.open = Some((group, slots));
        match slots {
            Some(slots) if self.count < place.of => {
                sink.fail_field(slots, entry, Fault::Malformed, "the line has too few columns");
            }
            Some(slots) => sink.field(slots, entry, word),
            None => {}
        }
    }

    /// Each column is an instance.
    fn instances(&self, sink: &mut Sink<'a>, group: usize, numbers: Range<usize>) {
        let known = &sink.groups()[group];
        let Some(columns) = known.columns.iter().find(|columns| self.is_of(columns)) else { return };
        let is_whole = columns.is_whole(sink.text(), numbers.clone());
        for (index, word) in words(sink.text(), numbers).enumerate() {
            let Some(label) = columns.label(index + 1) else {
                // A count that changes is no number that changes: the line is another one.
                if index >= columns.before() {
                    sink.ignore_word(word);
                }
                continue;
            };
            // Name and label tell the instances of all lines apart.
            let mut room = [0; NAME_MAX];
            let name = joined(columns.name, label, &mut room);
            let instance = || named(columns.name, known.instance_labels, label);
            match sink.instance_as(group, name, instance) {
                Some(slots) if is_whole => sink.field(slots, 0, word),
                Some(slots) => {
                    let problem = "the line has not as many numbers as it says";
                    sink.fail_field(slots, 0, Fault::Malformed, problem);
                }
                None => {}
            }
        }
    }
}

/// Leaves a line out. It must stay a line with a number.
fn ignore(sink: &mut Sink<'_>, numbers: Range<usize>) {
    let mut words = words(sink.text(), numbers);
    if let Some(first) = words.next() {
        sink.ignore_word(first);
        sink.ignore(words.rest());
    }
}

/// Name and label of an instance have at most this many bytes; they stand in the catalogue.
const NAME_MAX: usize = 64;

/// The name and the label with a blank between them, without an allocation: the gather thread calls this.
fn joined<'a>(name: &str, label: &str, room: &'a mut [u8; NAME_MAX]) -> &'a [u8] {
    let bytes = name.bytes().chain([b' ']).chain(label.bytes());
    let length = room.iter_mut().zip(bytes).map(|(place, byte)| *place = byte).count();
    &room[..length]
}

fn named(name: &str, labels: &[&'static str], label: &str) -> Instance {
    let instance = Instance::from_kernel(name.as_bytes());
    match Labels::new(labels.iter().map(|key| (*key, label))) {
        Ok(labels) => instance.with_labels(&labels),
        Err(_) => instance,
    }
}

/// The place of an entry of a file of this form.
pub fn place_of(entry: &Entry) -> Option<Place> {
    Place::read(entry.field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KernelFile, files};
    use proptest::prelude::*;

    fn place(text: &'static str) -> Place {
        Place::read(text).unwrap()
    }

    #[test]
    fn a_place_is_a_line_a_column_and_how_many_there_are() {
        let place = Place { line: "rpc", column: 2, of: 3, is_below: false, under: "" };
        assert_eq!(Place::read("rpc 2 of 3"), Some(place));
        assert_eq!(Place::read("rpc 2 of 3 below"), Some(Place { is_below: true, ..place }));
        let under = Place { line: "since boot", under: "all errors", ..place };
        assert_eq!(Place::read("since boot 2 of 3 under all errors"), Some(under));
        for text in ["rpc", "rpc 2", "rpc of 3", "rpc x of 3", "2 of 3", "below"] {
            assert_eq!(Place::read(text), None, "{text}");
        }
        let is_it =
            |file: &&&'static KernelFile| std::ptr::fn_addr_eq(file.parse, parse as fn(&mut Sink<'_>));
        for file in files().iter().filter(is_it) {
            for group in file.groups.iter().filter(|group| group.columns.is_empty()) {
                for entry in group.entries {
                    let place = place_of(entry).expect(entry.field);
                    assert!((1..=place.of).contains(&place.column), "{}", entry.field);
                    assert_eq!(place.line.ends_with('#'), !group.is_whole(), "{}", entry.field);
                }
            }
            for columns in file.groups.iter().flat_map(|group| group.columns) {
                for label in columns.labels {
                    assert!(columns.name.len() + 1 + label.len() <= NAME_MAX, "{label}");
                }
            }
        }
    }

    #[test]
    fn a_word_is_found_by_its_line_and_column() {
        let find = |text, field| {
            let place = place(field);
            word_at(text, place.line.as_bytes(), place)
        };
        let text = b"name type data\nhits 4 97\nrate:\t1.1M/sec\nshort 1\n";
        assert_eq!(find(text, "hits 2 of 2"), Ok(Some(&b"97"[..])));
        assert_eq!(find(text, "rate: 1 of 1"), Ok(Some(&b"1.1M/sec"[..])));
        assert_eq!(find(text, "rate 1 of 1"), Ok(Some(&b"1.1M/sec"[..])));
        assert_eq!(find(text, "short 1 of 2"), Err(Fault::Malformed));
        assert_eq!(find(b"# SELINUX=a\nSELINUX=b\n", "SELINUX= 1 of 1"), Ok(Some(&b"b"[..])));
        assert_eq!(find(text, "misses 2 of 2"), Ok(None));
        assert_eq!(find(text, "hit 1 of 1"), Ok(None));
        assert_eq!(word_at(text, b"", place("hits 2 of 2")), Ok(None));
        assert_eq!(find(b"12 3\nnread nwritten\n188 320\n", "nread 2 of 2 below"), Ok(Some(&b"320"[..])));
        assert_eq!(find(b"nread nwritten\n", "nread 2 of 2 below"), Err(Fault::Malformed));
        assert_eq!(rest_at(b"a 1\ndataset_name 7  pool1/my: data \n", "dataset_name", 1), b"pool1/my: data");
        assert_eq!(rest_at(b"dataset_name 7\n", "dataset_name", 1), b"");
        assert_eq!(rest_at(b"a 1\n", "dataset_name", 1), b"");
    }

    #[test]
    fn a_word_is_found_below_its_heading() {
        let text = b"errors since it was made\n  read:    1\n  sum:2\nread:\nsb          :       86016\n\nsince boot: 3\n";
        let find = |field| {
            let place = place(field);
            word_at(text, place.line.as_bytes(), place)
        };
        assert_eq!(find("read 1 of 1 under errors since it was made"), Ok(Some(&b"1"[..])));
        assert_eq!(find("sum 1 of 1 under errors since it was made"), Ok(Some(&b"2"[..])));
        assert_eq!(find("sb 1 of 1 under read"), Ok(Some(&b"86016"[..])));
        for absent in ["sum 1 of 1 under read", "sb 1 of 1 under write", "since boot 1 of 1 under read"] {
            assert_eq!(find(absent), Ok(None), "{absent}");
        }
        assert_eq!(find("since boot 1 of 1"), Ok(Some(&b"3"[..])));
        assert_eq!(names_under(text, "errors since it was made"), [&b"read"[..], b"sum"]);
        assert_eq!(names_under(text, "read"), [b"sb"]);
        assert_eq!(names_under(text, "write"), [b""; 0]);
        assert_eq!(names_under(text, ""), [&b"read"[..], b"sum", b"sb", b"since boot"]);
        assert_eq!(names_under(b"kind size\nlz4 2.5G 1\nnone\n", ""), [b"lz4"]);
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_word_there_or_none(text: Vec<u8>, column in 0usize..5, of in 0usize..5) {
            for under in ["", "a"] {
                let place = Place { line: "a", column, of, is_below: column % 2 == 0, under };
                if let Ok(Some(word)) = word_at(&text, b"a", place) {
                    prop_assert!(!word.is_empty() && !word.contains(&b'\n'));
                }
                for name in names_under(&text, under) {
                    prop_assert!(!name.contains(&b'\n') && !name.contains(&b':'));
                }
            }
            rest_at(&text, "a", column);
        }

        /// What is listed is found.
        #[test]
        fn a_name_that_is_listed_has_a_number(text in "([ab]{0,2}[ :]{0,2}[0-9]{0,2}\n){0,6}", under in "[ab]{0,2}") {
            let place = place("a 1 of 1");
            for name in names_under(text.as_bytes(), &under) {
                let name = std::str::from_utf8(name).unwrap();
                let place = Place { under: if under.is_empty() { "" } else { under.clone().leak() }, ..place };
                let found = word_at(text.as_bytes(), name.as_bytes(), place);
                prop_assert!(matches!(found, Ok(Some(_)) | Err(_)), "{name}: {found:?}");
            }
        }
    }
}
