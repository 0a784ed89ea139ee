//! A line of a survey's text about one instance of a tree of files: its kind, name and labels, then a word for each number. It is
//! kept until the next survey: if a driver is stuck then, the same line reports it. A line never gets a number that was not read.

use khz_model::instance::shortened;
use khz_parse::Entry;
use khz_parse::columns::{Place, word_at};
use khz_parse::survey::{NO_INSTANCE, NONE, STUCK, describe, escape, no_number};
use khz_parse::tree::{copies, file_of, labels_of, number_word, word_of};
use rustix::io::Errno;

use super::folder::Folder;

/// One line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    begin: Vec<u8>,
    words: Vec<(&'static str, Vec<u8>)>,
    /// The labels of a description.
    labels: Vec<u8>,
}

impl Line {
    /// Begins a line about this instance. Labels that are longer than a name may be are shortened.
    pub fn new<'a>(kind: &str, name: &[u8], labels: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut begin = format!("{kind} ").into_bytes();
        // A line has a word in the place of each name.
        escape(if name.is_empty() { b"?" } else { name }, &mut begin);
        for (label, value) in labels {
            begin.extend(format!(" {label}=").bytes());
            escape(&shortened(value), &mut begin);
        }
        Line { begin, words: Vec::new(), labels: Vec::new() }
    }

    /// Begins a line about numbers without an instance.
    pub fn without_instance() -> Self {
        Line { begin: NO_INSTANCE.into(), words: Vec::new(), labels: Vec::new() }
    }

    /// The instance with its kind and labels, as the text has it.
    pub fn begin(&self) -> &[u8] {
        &self.begin
    }

    /// Adds the value of a file as the number of this entry. `word` is the word of the instance, if its branch has words.
    pub fn number(&mut self, folder: &mut Folder<'_>, file: impl AsRef<[u8]>, entry: &Entry, word: &[u8]) {
        let mut value = Vec::new();
        let errno = match folder.value(&file) {
            Ok([]) => None,
            Ok(found) => {
                number_word(entry, found, word, &mut value);
                let is_below_zero = is_below_zero(found);
                folder.note_word(file.as_ref(), &value, is_below_zero);
                return self.words.push((word_of(entry), value));
            }
            Err(errno) => Some(errno),
        };
        self.without_number(entry, folder.without_number(file.as_ref(), errno));
    }

    /// Adds why an entry has no number.
    pub fn without_number(&mut self, entry: &Entry, why: &'static str) {
        self.words.push((word_of(entry), why.into()));
    }

    /// Adds a number that was read elsewhere.
    pub fn value(&mut self, entry: &Entry, found: &[u8]) {
        let mut value = Vec::new();
        number_word(entry, found, b"", &mut value);
        self.words.push((word_of(entry), value));
    }

    /// Adds the word at a place of a file. `#` in its line stands for the word of the instance.
    pub fn number_at(
        &mut self,
        folder: &mut Folder<'_>,
        (file, place): (&[u8], Place),
        entry: &Entry,
        word: &[u8],
    ) {
        let (mut value, mut below_zero) = (Vec::new(), false);
        match folder.text(file).map(|text| word_at(text, &file_of(place.line, word), place)) {
            Ok(Ok(Some(found))) => {
                below_zero = is_below_zero(found);
                number_word(entry, found, word, &mut value);
            }
            Ok(Ok(None)) => value.extend(NONE.bytes()),
            Ok(Err(fault)) => value.extend(no_number(fault).bytes()),
            Err(errno) => value.extend(folder.without_number(file, Some(errno)).bytes()),
        }
        folder.note_word(file, &value, below_zero);
        self.words.push((word_of(entry), value));
    }

    /// Adds how many bytes of the devices a byte takes in the folder's mode; the files of the pattern are the devices.
    pub fn copies(&mut self, folder: &mut Folder<'_>, devices: &str, entry: &Entry) {
        let value = match folder.count(devices, |_| true) {
            Ok(devices) => copies(entry, folder.name(), devices as u64).map(|copies| copies.to_string()),
            Err(errno) => Some(folder.without_number(devices.as_bytes(), Some(errno)).to_owned()),
        };
        self.words.push((word_of(entry), value.unwrap_or_else(|| NONE.to_owned()).into_bytes()));
    }

    /// Adds how many files of this pattern have a value for which `counts` is true.
    pub fn count(
        &mut self,
        folder: &mut Folder<'_>,
        pattern: &str,
        entry: &Entry,
        counts: impl Fn(&[u8]) -> bool,
    ) {
        let value = match folder.count(pattern, counts) {
            Ok(count) => count.to_string(),
            Err(errno) => folder.without_number(pattern.as_bytes(), Some(errno)).to_owned(),
        };
        self.words.push((word_of(entry), value.into_bytes()));
    }

    /// Adds the labels of a description.
    pub fn description(&mut self, folder: &mut Folder<'_>, entry: &Entry) {
        for label in labels_of(entry) {
            let value = match folder.value(label.file) {
                Ok(value) if label.is_bare => value.strip_prefix(b"0x").unwrap_or(value),
                Ok(value) => value,
                Err(Errno::NOENT) => label.otherwise.as_bytes(),
                Err(_) => continue,
            };
            let value = value.to_owned();
            self.label(label.label, &value);
        }
    }

    /// Adds a label of a description, if it has a value.
    pub fn label(&mut self, label: &str, value: &[u8]) {
        describe(label, value, &mut self.labels);
    }

    /// Writes the line into the text.
    pub fn write(&self, text: &mut Vec<u8>) {
        self.write_words(text, |value| value);
    }

    /// Writes the line with the word that the driver is stuck instead of each number.
    pub fn write_stuck(&self, text: &mut Vec<u8>) {
        self.write_words(text, |value| if value == NONE.as_bytes() { value } else { STUCK.as_bytes() });
    }

    fn write_words<'a>(&'a self, text: &mut Vec<u8>, shown: impl Fn(&'a [u8]) -> &'a [u8]) {
        text.extend(&self.begin);
        for (name, value) in &self.words {
            text.extend(format!(" {name}=").bytes());
            text.extend(shown(value));
        }
        text.extend(&self.labels);
        text.push(b'\n');
    }
}

/// True for `-` and digits.
fn is_below_zero(text: &[u8]) -> bool {
    let digits = text.trim_ascii().strip_prefix(b"-");
    digits.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}
