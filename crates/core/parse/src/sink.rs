//! The sink takes what a full parser finds: for each number its position in the text and the slot it fills.
//! It turns the digits into readings, remembers the layout, and notes faults by field and line.

use std::collections::BTreeMap;
use std::ops::Range;

use khz_model::{Absence, Fault, Instance, Labels, Metric, Reading, Series};

use crate::entry::Entry;
use crate::kernel_file::Group;
use crate::layout::{Layout, ONE_WORD, Span};
use crate::number;
use crate::own_source::is_own;
use crate::slots::Slots;
use crate::survey::NO_INSTANCE;

/// The sink keeps at most this many faults of one text in words; it only counts the others.
pub const FAULTS_MAX: usize = 8;

/// A fault in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultNote {
    /// Line in the text, from 1.
    pub line: u32,
    /// The metric or field concerned.
    pub field: String,
    /// The fault, in words.
    pub problem: &'static str,
}

impl std::fmt::Display for FaultNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.field, self.problem)
    }
}

/// The latest readings of one kernel file, as separate arrays.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    pub values: Vec<u64>,
    pub states: Vec<u8>,
    /// Slots whose reading changed with the latest text; a slot may appear twice.
    pub changed: Vec<u32>,
    /// The labels of slots whose readings are labels: as long as somebody holds them, they keep their number.
    labels: BTreeMap<u32, Labels>,
}

impl Readings {
    #[inline]
    pub fn set(&mut self, slot: u32, reading: Reading) {
        let (value, state) = (reading.bits(), reading.state());
        let index = slot as usize;
        if self.values[index] != value || self.states[index] != state {
            self.values[index] = value;
            self.states[index] = state;
            self.changed.push(slot);
        }
    }

    /// Sets a slot to labels.
    pub fn describe(&mut self, slot: u32, labels: Labels) {
        self.set(slot, Reading::Labels(labels.number()));
        self.labels.insert(slot, labels);
    }

    pub fn grow(&mut self, slots: usize) {
        self.values.resize(slots, 0);
        self.states.resize(slots, Absence::NotYet as u8);
    }

    /// Each slot takes the reading of the slot that is named for it. None of them counts as changed.
    pub fn take_over(&mut self, slots: &[u32]) {
        self.values = slots.iter().map(|&slot| self.values[slot as usize]).collect();
        self.states = slots.iter().map(|&slot| self.states[slot as usize]).collect();
        let mut labels = std::mem::take(&mut self.labels);
        let moved = slots.iter().zip(0..).filter_map(|(old, new)| Some((new, labels.remove(old)?)));
        self.labels = moved.collect();
        self.changed.clear();
    }

    pub fn get(&self, slot: u32) -> Reading {
        Reading::from_parts(self.states[slot as usize], self.values[slot as usize])
    }
}

/// An instance that the parser announced.
#[derive(Clone, Copy, Debug)]
pub struct InstanceSlots {
    group: usize,
    base: u32,
}

/// Takes one parse of one text.
pub struct Sink<'a> {
    text: &'a [u8],
    slots: &'a mut Slots,
    readings: &'a mut Readings,
    layout: &'a mut Layout,
    faults: &'a mut Vec<FaultNote>,
    /// For each slot, the number of the parse that last filled it.
    seen: &'a mut Vec<u32>,
    parse_number: u32,
    line: u32,
    faulty: bool,
    /// A fault belonged to no slot: it may concern any field that seems missing.
    unattributed: bool,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(
        text: &'a [u8],
        slots: &'a mut Slots,
        readings: &'a mut Readings,
        layout: &'a mut Layout,
        faults: &'a mut Vec<FaultNote>,
        seen: &'a mut Vec<u32>,
        parse_number: u32,
    ) -> Self {
        layout.clear();
        faults.clear();
        slots.rewind();
        seen.resize(slots.schema().len(), 0);
        readings.grow(slots.schema().len());
        let (line, faulty, unattributed) = (0, false, false);
        Sink { text, slots, readings, layout, faults, seen, parse_number, line, faulty, unattributed }
    }

    pub(crate) fn parser(&self) -> fn(&mut Sink<'_>) {
        self.slots.file.parse
    }

    /// The text to parse.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// True if the text ends with a whole line. Otherwise sums over all lines have no value.
    pub fn is_whole(&self) -> bool {
        self.text.ends_with(b"\n")
    }

    /// The file's groups of instances.
    pub fn groups(&self) -> &'static [Group] {
        self.slots.file.groups
    }

    /// The file's entries without instances.
    pub fn scalars(&self) -> &'static [Entry] {
        self.slots.file.scalars
    }

    /// Calls `each` for every whole line, without its newline. A last line without a newline was cut off:
    /// `each` does not see it, and slots that it may have filled are Failed rather than Absent.
    pub fn lines(&mut self, mut each: impl FnMut(&mut Self, Range<usize>)) {
        let mut start = 0;
        while let Some(length) = self.text[start..].iter().position(|&b| b == b'\n') {
            self.line += 1;
            each(self, start..start + length);
            start += length + 1;
        }
        if start < self.text.len() || self.text.is_empty() {
            self.line += 1;
            self.note(
                String::from("the text"),
                if self.text.is_empty() { "empty" } else { "ends in the middle of a line" },
            );
        }
    }

    /// Reports that `range` holds the number of scalar `index`. It may hold that of a later scalar, too, in a smaller unit: pages as
    /// bytes.
    pub fn scalar(&mut self, index: usize, range: Range<usize>) {
        let entry = &self.slots.file.scalars[index];
        self.number(index as u32, 0, entry, range);
    }

    /// Reports that `range` holds the number of scalar `index`, which may be below zero. If it changes, the text is parsed
    /// in full.
    pub fn signed_scalar(&mut self, index: usize, range: Range<usize>) {
        self.signed_number(index as u32, range);
    }

    /// The same of the instance's entry `index`.
    pub fn signed_field(&mut self, instance: InstanceSlots, index: usize, range: Range<usize>) {
        self.signed_number(instance.base + index as u32, range);
    }

    fn signed_number(&mut self, slot: u32, range: Range<usize>) {
        let text = &self.text[range];
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let is_below_zero = digits.len() < text.len();
        let number = number::digits(digits).and_then(|number| {
            // The lowest number has no counterpart above zero.
            let number = if is_below_zero { -i128::from(number) } else { i128::from(number) };
            i64::try_from(number).map_err(|_| Fault::OutOfRange)
        });
        if self.seen[slot as usize] == self.parse_number {
            return self.fail(slot, Fault::Malformed, "stands in the text twice");
        }
        match number {
            Ok(number) => {
                self.seen[slot as usize] = self.parse_number;
                self.readings.set(slot, Reading::Present(number.cast_unsigned()));
            }
            Err(Fault::OutOfRange) => self.fail(slot, Fault::OutOfRange, "number beyond 64 bits"),
            Err(fault) => self.fail(slot, fault, "not a number"),
        }
    }

    /// Reports that scalar `index` has this value, which is not printed in decimal. If the text changes, it is parsed in
    /// full.
    pub fn scalar_is(&mut self, index: usize, value: u64) {
        self.slot_is(index as u32, value);
    }

    /// The same of the instance's entry `index`.
    pub fn field_is(&mut self, instance: InstanceSlots, index: usize, value: u64) {
        self.slot_is(instance.base + index as u32, value);
    }

    fn slot_is(&mut self, slot: u32, value: u64) {
        self.seen[slot as usize] = self.parse_number;
        self.readings.set(slot, Reading::Present(value));
    }

    /// Reports that the text describes scalar `index` with these labels. Any other text is parsed in full.
    pub fn describe(&mut self, index: usize, labels: Labels) {
        self.seen[index] = self.parse_number;
        self.readings.describe(index as u32, labels);
    }

    /// Begins an instance. `None`: the text contains it twice, or no slots are left; the caller skips its
    /// numbers.
    pub fn instance(&mut self, group: usize, name: &[u8]) -> Option<InstanceSlots> {
        self.instance_as(group, name, || Instance::from_kernel(name))
    }

    /// True if this instance has been in a text before, and has its slots yet.
    pub fn has_slots(&self, group: usize, name: &[u8]) -> bool {
        self.slots.has(group, name)
    }

    /// The same for an instance that the text calls `name`, but that is another one than this name says: `instance`
    /// is asked when it is new.
    pub fn instance_as(
        &mut self,
        group: usize,
        name: &[u8],
        instance: impl FnOnce() -> Instance,
    ) -> Option<InstanceSlots> {
        let Some(base) = self.slots.instance(group, name, instance) else {
            // Not a `note`: this line has an instance, so instances with slots that have no line are gone. If they
            // counted as failed, their slots could not be given back.
            self.remember(
                String::from_utf8_lossy(name).into_owned(),
                "no slot or room for names is left for this instance",
            );
            return None;
        };
        let slots = self.slots.schema().len();
        if slots > self.seen.len() {
            self.seen.resize(slots, 0);
            self.readings.grow(slots);
            self.readings.changed.extend(base..slots as u32);
        }
        let instance = InstanceSlots { group, base };
        let count = self.slots.file.groups[group].entries.len() as u32;
        if (base..base + count).any(|slot| self.seen[slot as usize] == self.parse_number) {
            for index in 0..count as usize {
                self.fail_field(instance, index, Fault::Malformed, "the instance stands in the text twice");
            }
            return None;
        }
        Some(instance)
    }

    /// Reports the reading of the series that the text calls `name`; `series` is asked when it is new, and `reading` knows its metric.
    /// Any other text is parsed in full.
    pub(crate) fn given(
        &mut self,
        name: &str,
        series: impl FnOnce() -> Option<Series>,
        reading: impl FnOnce(&Metric) -> Reading,
    ) {
        let Some(slot) = self.slots.given(name.as_bytes(), series) else {
            return self.remember(
                name.to_owned(),
                "no slot or room for names is left for this series, or it is none",
            );
        };
        let slots = self.slots.schema().len();
        if slots > self.seen.len() {
            self.seen.resize(slots, 0);
            self.readings.grow(slots);
            self.readings.changed.push(slot);
        }
        if self.seen[slot as usize] == self.parse_number {
            return self.fail(slot, Fault::Malformed, "stands in the text twice");
        }
        self.seen[slot as usize] = self.parse_number;
        let metric = self.slots.schema().get(slot as usize).map(|series| series.metric.clone());
        if let Some(metric) = metric {
            self.readings.set(slot, reading(&metric));
        }
    }

    /// Begins the numbers of a group that has no instances. `None`: the text has them already, or no slots are left.
    pub fn whole(&mut self, group: usize) -> Option<InstanceSlots> {
        self.instance(group, NO_INSTANCE.as_bytes())
    }

    /// Reports that `range` holds the number of the instance's entry `index`.
    pub fn field(&mut self, instance: InstanceSlots, index: usize, range: Range<usize>) {
        let group = &self.slots.file.groups[instance.group];
        let Some(entry) = group.entries.get(index) else { return self.ignore_word(range) };
        let total_ahead = if group.total_of.contains(&index) { group.entries.len() - 1 - index } else { 0 };
        self.number(instance.base + index as u32, total_ahead as u8, entry, range);
    }

    /// Reports that the text describes the instance's entry `index` with these labels.
    pub fn describe_field(&mut self, instance: InstanceSlots, index: usize, labels: Labels) {
        let slot = instance.base + index as u32;
        self.seen[slot as usize] = self.parse_number;
        self.readings.describe(slot, labels);
    }

    /// Reports that the instance's entry `index` is missing or wrong.
    pub fn fail_field(&mut self, instance: InstanceSlots, index: usize, fault: Fault, problem: &'static str) {
        let slot = instance.base + index as u32;
        self.fail(slot, fault, problem);
    }

    /// Reports that scalar `index` is missing or wrong.
    pub fn fail_scalar(&mut self, index: usize, fault: Fault, problem: &'static str) {
        self.fail(index as u32, fault, problem);
    }

    /// Reports that the text itself states why the instance's entry `index` has no number. The text is correct, so no
    /// fault is noted: a dead mount is a fact of the host.
    pub(crate) fn field_has_none(&mut self, instance: InstanceSlots, index: usize, why: Fault) {
        self.set_failed(instance.base + index as u32, why);
    }

    /// Like [`field_has_none`](Self::field_has_none), of scalar `index`.
    pub(crate) fn scalar_has_none(&mut self, index: usize, why: Fault) {
        self.set_failed(index as u32, why);
    }

    /// Marks `range` as unwanted: it may change freely, except a blank at its start, which ends the word
    /// before it.
    pub fn ignore(&mut self, range: Range<usize>) {
        let blank = usize::from(self.text.get(range.start).is_some_and(|&b| b == b' ' || b == b'\t'));
        self.layout.ignore((range.start + blank).min(range.end)..range.end);
    }

    /// Marks the word in `range` as unwanted. It must stay one word, because the words after it are counted
    /// from it.
    pub(crate) fn ignore_word(&mut self, range: Range<usize>) {
        let (start, padded) = with_padding(self.text, range.start);
        self.layout.add(Span::new(start..range.end, ONE_WORD, padded));
    }

    /// Notes a fault that belongs to no slot. Slots that this text does not fill are then Failed rather than
    /// Absent, because the fault may be theirs.
    pub fn note(&mut self, field: String, problem: &'static str) {
        self.unattributed = true;
        self.remember(field, problem);
    }

    fn remember(&mut self, field: String, problem: &'static str) {
        self.faulty = true;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(FaultNote { line: self.line, field, problem });
        }
    }

    fn fail(&mut self, slot: u32, fault: Fault, problem: &'static str) {
        let series = self.slots.schema().get(slot as usize).map(ToString::to_string).unwrap_or_default();
        self.remember(series, problem);
        self.set_failed(slot, fault);
    }

    fn set_failed(&mut self, slot: u32, fault: Fault) {
        self.seen[slot as usize] = self.parse_number;
        self.readings.set(slot, Reading::Failed(fault));
    }

    fn number(&mut self, slot: u32, total_ahead: u8, entry: &Entry, range: Range<usize>) {
        if self.seen[slot as usize] == self.parse_number {
            return self.fail(slot, Fault::Malformed, "stands in the text twice");
        }
        let (start, padded) = with_padding(self.text, range.start);
        let multiplier = entry.multiplier.get();
        match number::parse(&self.text[start..range.end], entry.text_places)
            .and_then(|n| n.checked_mul(multiplier).ok_or(Fault::OutOfRange))
        {
            Ok(value) => {
                self.seen[slot as usize] = self.parse_number;
                self.readings.set(slot, Reading::Present(value));
                let span = Span::new(start..range.end, slot, padded).scaled(entry.text_places, multiplier);
                self.layout.add(span.adding(total_ahead));
            }
            Err(Fault::OutOfRange) => self.fail(slot, Fault::OutOfRange, "number beyond 64 bits"),
            Err(fault) => self.fail(slot, fault, "not a number"),
        }
    }

    /// Ends the text. Slots that were not filled become Absent, or Failed if a fault belongs to no slot. Totals
    /// are added up, and the layout serves the next text if there was no fault.
    pub(crate) fn finish(mut self) {
        let scalars = self.slots.file.scalars.len();
        let is_known = |seen: &u32| *seen == self.parse_number;
        if scalars > 0 && !self.faulty && !self.seen.iter().any(is_known) {
            self.note(String::from("the text"), "nothing in it is known");
        }
        let missing = |otherwise| {
            if self.unattributed { Reading::Failed(Fault::Malformed) } else { Reading::Absent(otherwise) }
        };
        let (no_field, gone) = (missing(Absence::NoField), missing(Absence::InstanceGone));
        for slot in 0..scalars as u32 {
            if self.seen[slot as usize] != self.parse_number {
                self.readings.set(slot, no_field);
            }
        }
        let mut beyond = Vec::new();
        for (group, slots) in self.slots.instances() {
            let total_of = self.slots.file.groups.get(group).map_or(&[][..], |group| group.total_of);
            let is_of_own =
                is_own(self.slots.file) && self.slots.file.groups.get(group).is_some_and(Group::is_whole);
            let gone = if is_of_own { missing(Absence::NoSource) } else { gone };
            let here = slots.clone().any(|slot| self.seen[slot as usize] == self.parse_number);
            for slot in slots.clone() {
                if self.seen[slot as usize] != self.parse_number {
                    self.readings.set(slot, if here { no_field } else { gone });
                }
            }
            if !total_of.is_empty() && here {
                match add_up(self.readings, slots.start, total_of) {
                    Reading::Failed(Fault::OutOfRange) => beyond.push(slots.end - 1),
                    total => self.readings.set(slots.end - 1, total),
                }
            }
        }
        // The next text is parsed in full, too: whether its sum fits cannot be seen in place.
        beyond.into_iter().for_each(|slot| self.fail(slot, Fault::OutOfRange, "number beyond 64 bits"));
        if !self.faulty {
            self.layout.complete(self.text.len());
        }
        self.line = 0;
    }
}

/// The sum of an instance's parts. When a part has no value, the total has none either, for the same reason. It is Failed
/// if it does not fit.
fn add_up(readings: &Readings, base: u32, parts: &[usize]) -> Reading {
    let mut sum = 0u64;
    for &part in parts {
        match readings.get(base + part as u32) {
            Reading::Present(value) => match sum.checked_add(value) {
                Some(larger) => sum = larger,
                None => return Reading::Failed(Fault::OutOfRange),
            },
            other => return other,
        }
    }
    Reading::Present(sum)
}

/// Finds the start of a number's span. Blanks before a number belong to its span, so that a right-aligned
/// number may grow into them. One blank stays outside as the separator, unless a colon or the start of the
/// line separates anyway. After any other mark (`=`, `/`) a blank would end the word: `false` says that none
/// may appear there.
fn with_padding(text: &[u8], number_start: usize) -> (usize, bool) {
    let blanks = text[..number_start].iter().rev().take_while(|&&b| b == b' ').count();
    let start = number_start - blanks;
    let separated = start == 0 || matches!(text[start - 1], b':' | b'\n');
    match (separated, blanks) {
        (true, _) => (start, true),
        (false, 0) => (start, false),
        (false, _) => (start + 1, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_move_with_their_slots() {
        let labels = |value| Labels::new([("name", value)]).unwrap();
        let mut readings = Readings::default();
        readings.grow(4);
        for (slot, value) in ["gone", "a", "b", "c"].into_iter().enumerate() {
            readings.describe(slot as u32, labels(value));
        }
        readings.take_over(&[3, 1, 2]);
        let held: Vec<&Labels> = readings.labels.values().collect();
        assert_eq!(held, [&labels("c"), &labels("a"), &labels("b")]);
        for (slot, held) in readings.labels.clone() {
            assert_eq!(readings.get(slot), Reading::Labels(held.number()));
        }
    }
}
