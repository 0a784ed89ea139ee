//! The text of a survey: the results of several files or system calls, in one text that khz makes itself. This
//! file reads it into readings, and defines how its words are escaped. It does not gather: the crate `gather`
//! makes these texts.
//!
//! ```text
//! * left_out=0
//! mountpoint / device=/dev/sda1 fstype=ext4 read_only=0 error=0 size=52710469632 files=3276800
//! mountpoint /scratch device=server:/scratch fstype=nfs4 read_only=0 error=1 size=stuck files=stuck
//! device eth0 carrier=1 speed=125000000 :duplex=full :operstate=up
//! ```
//!
//! - A line is `*` (numbers without an instance) or a kind of instance (a group's label, or its own word for it) and the
//!   instance's name, then words `name=value`.
//! - First come the group's instance labels, then the numbers: `size` fills the metric whose name ends in `.size`.
//!   Words with other names are ignored, so that texts of newer versions can be read.
//! - Instead of a number, `stuck` says that nothing came before the deadline, `unreadable` that reading failed,
//!   `malformed` that the text is no number, `too_large` that the number has more than 64 bits, and `-` that there is
//!   no such number.
//! - Words that begin with `:` are the labels of the group's description, where it has one.
//! - Blanks, newlines, backslashes and equals signs inside a name are written as in `/proc/self/mountinfo`: `\040`.

use std::ops::Range;

use khz_model::instance::kernel_text;
use khz_model::{Fault, Instance, Labels, Nanos, ValueType};

use crate::description::shortened;
use crate::entry::Entry;
use crate::kernel_file::Group;
use crate::sink::{InstanceSlots, Sink};
use crate::text::{split_at_mark, words};

/// How often surveys are made. Their numbers change slowly, and each survey costs a system call or more for each
/// instance.
pub const SURVEY_PERIOD: Nanos = Nanos::from_secs(10);
/// Instead of a number: nothing came before the deadline.
pub const STUCK: &str = "stuck";
/// Instead of a number: reading failed.
pub const UNREADABLE: &str = "unreadable";
/// Instead of a number: the text that was read is no number.
pub const MALFORMED: &str = "malformed";
/// Instead of a number: it does not fit into 64 bits.
pub const TOO_LARGE: &str = "too_large";
/// Instead of a number: there is none.
pub const NONE: &str = "-";
/// The first word of a line without an instance.
pub const NO_INSTANCE: &str = "*";
/// The mark before a label of a description.
pub const DESCRIPTION: u8 = b':';

/// Reads the text.
pub fn parse(sink: &mut Sink<'_>) {
    let mut open = Vec::new();
    sink.lines(|sink, line| {
        let (text, mut words) = (sink.text(), words(sink.text(), line));
        let Some(first) = words.next() else { return sink.note(String::from("a line"), "it is empty") };
        let first = &text[first];
        if first == NO_INSTANCE.as_bytes() {
            return words.for_each(|word| without_instance(sink, word));
        }
        let known = sink.groups().iter().position(|group| group.line_kind().as_bytes() == first);
        let (Some(number), Some(name)) = (known, words.next()) else {
            let problem = "the line begins with no kind of instance and its name";
            return sink.note(kernel_text(first), problem);
        };
        let group = &sink.groups()[number];
        // The name and the labels tell instances apart: as they stand there, since a word is escaped in one way only.
        let mut key = name.clone();
        for label in group.instance_labels {
            let follows = |word: &Range<usize>| word.start == key.end + 1 && text[key.end] == b' ';
            let is_it =
                |word: &Range<usize>| follows(word) && label_value(text, word.clone(), label).is_some();
            match words.next().filter(is_it) {
                Some(word) => key.end = word.end,
                None => return sink.note(kernel_text(&text[name]), "a label of the instance is missing"),
            }
        }
        if !is_escaped(&text[name.clone()]) {
            return sink.note(kernel_text(&text[name]), "this is no name of an instance");
        }
        let alike = sink.groups()[number..].iter().take_while(|other| other.line_kind() == group.line_kind());
        let alike = number..number + alike.count();
        open.clear();
        let mut line = Line { key, groups: alike.clone(), open: &mut open, expected: (number, 0) };
        // Where it is the only group, an instance without a number is an instance, too.
        if alike.len() > 1 || line.slots(sink, number).is_some() {
            line.fields(sink, words);
        }
    });
}

/// A line about an instance.
struct Line<'a> {
    /// Where the name and the labels of the instance stand.
    key: Range<usize>,
    /// The groups whose numbers it may have.
    groups: Range<usize>,
    /// The slots in each group that was asked for; `None`: it has none.
    open: &'a mut Vec<(usize, Option<InstanceSlots>)>,
    /// Group and entry that probably come next: a survey writes them in their order.
    expected: (usize, usize),
}

impl Line<'_> {
    /// The slots of the instance in this group.
    fn slots(&mut self, sink: &mut Sink<'_>, number: usize) -> Option<InstanceSlots> {
        if let Some((_, slots)) = self.open.iter().rev().find(|(open, _)| *open == number) {
            return *slots;
        }
        let (text, group) = (sink.text(), &sink.groups()[number]);
        let instance = || named(text, self.key.clone(), group);
        let slots = sink.instance_as(number, &text[self.key.clone()], instance);
        self.open.push((number, slots));
        slots
    }

    /// Group and entry of the number with this name.
    fn find(&mut self, groups: &[Group], name: &[u8]) -> Option<(usize, usize)> {
        let (group, entry) = self.expected;
        let in_group = |number: usize, from: usize| {
            let at = index_of(groups[number].entries.get(from..)?, name)?;
            Some((number, from + at))
        };
        let found = in_group(group, entry)
            .or_else(|| (group + 1..self.groups.end).find_map(|number| in_group(number, 0)))
            .or_else(|| (self.groups.start..=group).find_map(|number| in_group(number, 0)));
        if let Some((number, at)) = found {
            self.expected = (number, at + 1);
        }
        found
    }

    fn fields(&mut self, sink: &mut Sink<'_>, words: impl Iterator<Item = Range<usize>>) {
        let text = sink.text();
        let mut description: Vec<(&str, String)> = Vec::new();
        for word in words {
            let Some((name, value)) = split_at_mark(text, word.clone(), b'=') else {
                sink.note(kernel_text(&text[word]), "the word is not name=value");
                continue;
            };
            if let Some((&DESCRIPTION, label)) = text[name.clone()].split_first() {
                let label = std::str::from_utf8(label).unwrap_or_default();
                description.push((label, shortened(label, kernel_text(&unescaped(&text[value])))));
                continue;
            }
            let groups = sink.groups();
            let Some((number, index)) = self.find(groups, &text[name]) else {
                sink.ignore_word(value);
                continue;
            };
            let why = missing(&text[value.clone()]);
            if why == Some(None) {
                continue;
            }
            let Some(slots) = self.slots(sink, number) else { continue };
            let is_signed = groups[number].entries[index].value_type == ValueType::Signed;
            match why {
                None if is_signed => sink.signed_field(slots, index, value),
                None => sink.field(slots, index, value),
                Some(None) => {}
                Some(Some(why)) => sink.field_has_none(slots, index, why),
            }
        }
        if description.is_empty() {
            return;
        }
        let of_labels = |number: usize| {
            let is_it = |entry: &Entry| entry.value_type == ValueType::Labels;
            sink.groups()[number].entries.iter().position(is_it).map(|index| (number, index))
        };
        let Some((number, index)) = self.groups.clone().find_map(of_labels) else { return };
        let labels = Labels::new(description.iter().map(|(label, value)| (*label, value.as_str())));
        if labels.as_ref().is_ok_and(Labels::is_empty) {
            return;
        }
        let Some(slots) = self.slots(sink, number) else { return };
        match labels {
            Ok(labels) => sink.describe_field(slots, index, labels),
            Err(_) => sink.fail_field(slots, index, Fault::Malformed, "these are no labels"),
        }
    }
}

/// The value of the word `label=value`; `None` if it is another word.
fn label_value(text: &[u8], word: Range<usize>, label: &str) -> Option<Range<usize>> {
    let (name, value) = split_at_mark(text, word, b'=')?;
    (&text[name] == label.as_bytes() && is_escaped(&text[value.clone()])).then_some(value)
}

/// The instance of a name and its labels.
fn named(text: &[u8], key: Range<usize>, group: &Group) -> Instance {
    let mut words = words(text, key);
    let name = words.next().map(|name| unescaped(&text[name])).unwrap_or_default();
    let value = |(label, word): (&'static str, Range<usize>)| {
        Some((label, kernel_text(&unescaped(&text[label_value(text, word, label)?]))))
    };
    let values: Vec<(&str, String)> =
        group.instance_labels.iter().copied().zip(words).filter_map(value).collect();
    let instance = Instance::from_kernel(&name);
    // Labels that are too long are left out: the name alone tells most instances apart.
    match Labels::new(values.iter().map(|(label, value)| (*label, value.as_str()))) {
        Ok(labels) => instance.with_labels(&labels),
        Err(_) => instance,
    }
}

/// Takes a word of a line without an instance.
fn without_instance(sink: &mut Sink<'_>, word: Range<usize>) {
    let text = sink.text();
    let Some((name, value)) = split_at_mark(text, word.clone(), b'=') else {
        return sink.note(kernel_text(&text[word]), "the word is not name=value");
    };
    let name = &text[name];
    let of_group = |(number, group): (usize, &Group)| Some((number, index_of(group.entries, name)?));
    if let Some(index) = index_of(sink.scalars(), name) {
        scalar(sink, index, value);
    } else if let Some((number, index)) =
        sink.groups().iter().enumerate().filter(|(_, group)| group.is_whole()).find_map(of_group)
    {
        of_whole(sink, number, index, value);
    } else {
        sink.ignore_word(value);
    }
}

/// Takes the number of a group without instances. It has slots if there is one to be had.
fn of_whole(sink: &mut Sink<'_>, number: usize, index: usize, value: Range<usize>) {
    let why = missing(&sink.text()[value.clone()]);
    if why == Some(None) {
        return;
    }
    let is_signed = sink.groups()[number].entries[index].value_type == ValueType::Signed;
    let Some(slots) = sink.whole(number) else { return };
    match why {
        Some(why) => sink.field_has_none(slots, index, why.unwrap_or(Fault::Malformed)),
        None if is_signed => sink.signed_field(slots, index, value),
        None => sink.field(slots, index, value),
    }
}

fn scalar(sink: &mut Sink<'_>, index: usize, value: Range<usize>) {
    match missing(&sink.text()[value.clone()]) {
        None if sink.scalars()[index].value_type == ValueType::Signed => sink.signed_scalar(index, value),
        None => sink.scalar(index, value),
        Some(None) => {}
        Some(Some(why)) => sink.scalar_has_none(index, why),
    }
}

/// The entry whose name ends in `.name`. Descriptions have no numbers.
fn index_of(entries: &[Entry], name: &[u8]) -> Option<usize> {
    let is_it = |entry: &Entry| {
        let end = entry.name.rsplit_once('.').map_or(entry.name, |(_, end)| end);
        entry.value_type != ValueType::Labels && end.as_bytes() == name
    };
    entries.iter().position(is_it)
}

/// Why there is no number: `Some(None)` if none is expected. `None`: the value should be a number.
fn missing(value: &[u8]) -> Option<Option<Fault>> {
    match value {
        b"stuck" => Some(Some(Fault::Stuck)),
        b"unreadable" => Some(Some(Fault::Unreadable)),
        b"malformed" => Some(Some(Fault::Malformed)),
        b"too_large" => Some(Some(Fault::OutOfRange)),
        b"-" => Some(None),
        _ => None,
    }
}

/// True if the word is as [`escape`] writes it.
fn is_escaped(word: &[u8]) -> bool {
    let mut rest = word;
    while let Some((&first, after)) = rest.split_first() {
        rest = match first {
            b'\\' if after.len() >= 3 && ESCAPED.iter().any(|(_, digits)| after.starts_with(*digits)) => {
                &after[3..]
            }
            byte if ESCAPED.iter().any(|(escaped, _)| *escaped == byte) => return false,
            _ => after,
        };
    }
    true
}

/// The bytes that do not stand in a word, with the digits that stand for them.
const ESCAPED: [(u8, &[u8; 3]); 5] =
    [(b' ', b"040"), (b'\t', b"011"), (b'\n', b"012"), (b'\\', b"134"), (b'=', b"075")];

/// The word instead of a number that could not be made of what was read.
pub fn no_number(why: Fault) -> &'static str {
    match why {
        Fault::OutOfRange => TOO_LARGE,
        _ => MALFORMED,
    }
}

/// Writes the label ` :label=value` of a description, if it has a value.
pub fn describe(label: &str, value: &[u8], into: &mut Vec<u8>) {
    if !value.is_empty() {
        into.extend(format!(" :{label}=").bytes());
        escape(value, into);
    }
}

/// Writes a word so that it has no blank, newline, backslash or equals sign.
pub fn escape(bytes: &[u8], into: &mut Vec<u8>) {
    for &byte in bytes {
        match ESCAPED.iter().find(|(escaped, _)| *escaped == byte) {
            Some((_, digits)) => {
                into.push(b'\\');
                into.extend(*digits);
            }
            None => into.push(byte),
        }
    }
}

/// The bytes of a word: `\040` is a blank. A backslash without three octal digits after it stands for itself.
pub fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, after)) = rest.split_first() {
        let byte = match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if first == b'\\' => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_word_is_read_back(word: Vec<u8>) {
            let mut text = Vec::new();
            escape(&word, &mut text);
            prop_assert!(is_escaped(&text));
            prop_assert!(!text.iter().any(|byte| b" \t\n=".contains(byte)));
            prop_assert_eq!(unescaped(&text), word);
        }

        #[test]
        fn a_word_is_escaped_in_one_way_only(word in "[\\\\0-9a]{0,12}") {
            if is_escaped(word.as_bytes()) {
                let mut again = Vec::new();
                escape(&unescaped(word.as_bytes()), &mut again);
                prop_assert_eq!(again, word.as_bytes());
            }
        }
    }

    #[test]
    fn a_backslash_without_its_digits_stands_for_itself() {
        for (word, bytes) in
            [("a\\040b", "a b"), ("\\04", "\\04"), ("\\", "\\"), ("\\480", "\\480"), ("\\1340", "\\0")]
        {
            assert_eq!(unescaped(word.as_bytes()), bytes.as_bytes(), "{word}");
        }
    }
}
