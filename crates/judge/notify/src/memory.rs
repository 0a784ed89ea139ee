//! What people were told, over restarts: the file `notify.jsonl` of the state directory. It has a line for each alert that people
//! believe, or may believe, to fire, and one for the messages of this hour. Without it, a restart would send everything again. It
//! does not know the recipients.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use khz_state::{StateError, StateFile};
use serde::{Deserialize, Serialize};

use crate::alert::{Alert, Labels};
use crate::core::{Kept, Record};
use crate::hour::Sent;
use crate::limits::{ALERTS_MAX, STATE_BYTES_MAX};

/// The file's name.
const NAME: &str = "notify";

/// What people were told of one alert by one way: a line of the file, and of the exchange between hubs. Times are in ms since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldLine {
    /// The name of the way.
    pub way: String,
    /// The alert's labels.
    pub labels: Labels,
    /// When it began to fire.
    pub starts_at: i64,
    /// When people were told.
    pub told_at: i64,
    /// A message about it may have arrived or not: it was on its way when this line was written, or its answer was lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub perhaps: bool,
    /// The message about its start was refused for good. People know nothing of the alert, and do not hear of its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

impl ToldLine {
    /// A record as the line of a way.
    pub(crate) fn of(way: &str, Record { alert, told_at, is_unsure, is_refused }: &Record) -> Self {
        let Alert { labels, starts_at, .. } = &**alert;
        let (way, labels, starts_at, told_at) = (way.to_owned(), labels.clone(), *starts_at, *told_at);
        ToldLine { way, labels, starts_at, told_at, perhaps: *is_unsure, refused: *is_refused }
    }

    /// The way and its record; `None`: the labels exceed the limits of alerts.
    pub(crate) fn record(self) -> Option<(String, Record)> {
        let ToldLine { way, labels, starts_at, told_at, perhaps: is_unsure, refused: is_refused } = self;
        let alert = Arc::new(Alert { labels, starts_at, ..Alert::default() });
        (!alert.is_too_large()).then_some((way, Record { alert, told_at, is_unsure, is_refused }))
    }
}

/// How many messages a way has sent in this hour: a line of the file.
#[derive(Serialize, Deserialize)]
struct HourLine {
    way: String,
    /// When the first of them was sent, in ms since 1970.
    hour_began: i64,
    messages: u32,
}

/// A line of the file.
enum FileLine {
    Told(ToldLine),
    Hour(HourLine),
}

impl FileLine {
    fn read(line: &[u8]) -> Result<Self, serde_json::Error> {
        let told = |error| match serde_json::from_slice(line) {
            Ok(hour) => Ok(FileLine::Hour(hour)),
            // Report the error for a line about an alert, since most lines are such.
            Err(_) => Err(error),
        };
        serde_json::from_slice(line).map(FileLine::Told).or_else(told)
    }
}

/// The file, with the lines of each way.
#[derive(Debug)]
pub(crate) struct Memory {
    file: StateFile,
    texts: Mutex<BTreeMap<String, String>>,
}

impl Memory {
    /// Opens it in this directory, and reads the records of each way.
    pub fn open(directory: &Path) -> Result<(Self, BTreeMap<String, Kept>), StateError> {
        let file = StateFile::open(directory, NAME)?;
        let bytes = file.read(STATE_BYTES_MAX)?.unwrap_or_default();
        let is_too_large = bytes.len() as u64 > STATE_BYTES_MAX;
        let mut all: BTreeMap<String, Kept> = BTreeMap::new();
        let mut damaged = None;
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            match FileLine::read(line) {
                Ok(FileLine::Told(line)) => {
                    let Some((way, record)) = line.record() else { continue };
                    let records = &mut all.entry(way).or_default().records;
                    if records.len() < ALERTS_MAX {
                        records.push(record);
                    }
                }
                Ok(FileLine::Hour(HourLine { way, hour_began: began, messages })) => {
                    all.entry(way).or_default().sent = Some(Sent { began, messages });
                }
                Err(error) => _ = damaged.get_or_insert((number + 1, error)),
            }
        }
        let texts: BTreeMap<String, String> =
            all.iter().map(|(way, kept)| (way.clone(), text(way, kept))).collect();
        if let Some((line, error)) = damaged {
            let rest: String = texts.values().map(String::as_str).collect();
            file.put_aside(Some(&rest))?;
            tracing::warn!(
                "{}: line {line} cannot be read ({error}); it is kept as {}, and what the other lines say holds",
                file.path().display(),
                file.aside().display()
            );
        } else if is_too_large {
            tracing::warn!("{}: only its first {STATE_BYTES_MAX} bytes were read", file.path().display());
        }
        Ok((Memory { texts: Mutex::new(texts), file }, all))
    }

    /// Forgets ways that the configuration does not name any more.
    pub fn retain(&self, is_known: impl Fn(&str) -> bool) {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).retain(|way, _| is_known(way));
    }

    /// Writes the record of one way.
    pub fn keep(&self, way: &str, kept: &Kept) -> Result<(), StateError> {
        let text = text(way, kept);
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.insert(way.to_owned(), text);
        self.write(&texts)
    }

    /// Retries a failed write, if it is time.
    pub fn catch_up(&self) -> Result<(), StateError> {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if self.file.is_due_again() { self.write(&texts) } else { Ok(()) }
    }

    fn write(&self, texts: &BTreeMap<String, String>) -> Result<(), StateError> {
        let whole: String = texts.values().map(String::as_str).collect();
        // The caller holds the lock. If two ways write, the later write has the records of both.
        self.file.write(&whole)
    }
}

fn text(way: &str, Kept { records, sent }: &Kept) -> String {
    let mut text = String::new();
    // This line comes first, since only the beginning of a too long file is read.
    if let Some(Sent { began, messages }) = *sent {
        put(&mut text, &HourLine { way: way.to_owned(), hour_began: began, messages });
    }
    records.iter().for_each(|record| put(&mut text, &ToldLine::of(way, record)));
    text
}

fn put(text: &mut String, line: &impl Serialize) {
    text.push_str(&serde_json::to_string(line).expect("BUG: texts cannot be written as JSON"));
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_way_was_told_and_how_often_is_read_as_it_was_written() {
        let place = std::env::temp_dir().join(format!("khz-notify-memory-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let (memory, all) = Memory::open(&place).unwrap();
        assert!(all.is_empty());
        let labels: Labels = [("alertname".to_owned(), "A".to_owned())].into();
        let alert = Arc::new(Alert { labels, starts_at: 7, ..Alert::default() });
        let record = Record { alert, told_at: 9, is_unsure: true, is_refused: false };
        let sent = Some(Sent { began: 5, messages: 3 });
        memory.keep("mail", &Kept { records: vec![record], sent }).unwrap();
        memory.keep("hook", &Kept { records: Vec::new(), sent }).unwrap();
        drop(memory);
        let (_memory, all) = Memory::open(&place).unwrap();
        assert_eq!((all["mail"].sent, all["hook"].sent), (sent, sent));
        let records: Vec<_> = all["mail"].records.iter().map(|one| (one.told_at, one.is_unsure)).collect();
        assert_eq!((records, all["hook"].records.len()), (vec![(9, true)], 0));
        std::fs::remove_dir_all(place).unwrap();
    }
}
