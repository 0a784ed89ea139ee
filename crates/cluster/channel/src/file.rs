//! The file of channels, `channels.jsonl`. A damaged file is put aside, and its whole lines are used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_model::printable::printable;
use khz_state::StateFile;
use khz_trust::Role;
use serde::{Deserialize, Serialize};

use crate::definition::Definition;
use crate::error::ChannelError;
use crate::limits::{CHANNELS_MAX, DEFINITION_BYTES};
use crate::registry::Kept;

/// Of the file, without its ending.
const NAME: &str = "channels";

/// The version of the format.
const VERSION: u64 = 1;

/// Bytes of a file that is read: all definitions at their longest, and what stands around them.
const FILE_BYTES_MAX: u64 = (CHANNELS_MAX * (DEFINITION_BYTES + 1_024)) as u64;

#[derive(Serialize, Deserialize)]
struct Head {
    khz_channels: u64,
    channels: usize,
}

#[derive(Serialize, Deserialize)]
struct Line {
    maker: String,
    definition: Definition,
}

/// What was read from the file.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub entries: Vec<(Role, Definition)>,
    /// A sentence for each damaged line.
    pub damage: Vec<String>,
}

/// The file, which is this process's as long as this lives.
#[derive(Debug)]
pub(crate) struct ChannelsFile(StateFile);

impl ChannelsFile {
    /// Makes the directory if it does not exist, and locks the file.
    pub fn open(directory: &Path) -> Result<Self, ChannelError> {
        Ok(ChannelsFile(StateFile::open(directory, NAME)?))
    }

    /// Reads the file; a file that does not exist is empty.
    pub fn read(&self) -> Result<Found, ChannelError> {
        let bytes = self.0.read(FILE_BYTES_MAX)?;
        Ok(bytes.map(|bytes| read(&self.0.path(), &bytes)).unwrap_or_default())
    }

    /// Keeps the damaged file, and replaces it by these channels; returns where it is now.
    pub fn put_aside(&self, channels: &BTreeMap<String, Arc<Kept>>) -> Result<PathBuf, ChannelError> {
        self.0.put_aside(Some(&text(channels)))?;
        Ok(self.0.aside())
    }

    /// Replaces the file.
    pub fn write(&self, channels: &BTreeMap<String, Arc<Kept>>) -> Result<(), ChannelError> {
        Ok(self.0.write(&text(channels))?)
    }
}

fn text(channels: &BTreeMap<String, Arc<Kept>>) -> String {
    let mut text = line(&Head { khz_channels: VERSION, channels: channels.len() });
    for kept in channels.values() {
        text += &line(&Line { maker: kept.maker.to_string(), definition: kept.definition.clone() });
    }
    text
}

/// Texts and numbers are always JSON.
fn line(object: &impl Serialize) -> String {
    serde_json::to_string(object).map(|line| line + "\n").unwrap_or_default()
}

/// Reads the lines; damaged ones are left out, with a sentence for each.
fn read(path: &Path, bytes: &[u8]) -> Found {
    let mut found = Found::default();
    let mut note = |number: usize, problem: &str| {
        found.damage.push(format!("{}:{number}: {problem}", path.display()));
    };
    if bytes.len() as u64 > FILE_BYTES_MAX {
        note(1, &format!("a file of channels has at most {FILE_BYTES_MAX} bytes"));
        return found;
    }
    let mut lines = bytes.split(|&byte| byte == b'\n').enumerate().map(|(at, line)| (at + 1, line));
    let head = lines.next().map(|(_, line)| serde_json::from_slice::<Head>(line));
    let awaited = match head {
        Some(Ok(Head { khz_channels: VERSION, channels })) => channels,
        Some(Ok(Head { khz_channels, .. })) => {
            note(1, &format!("it has version {khz_channels}; this khz reads version {VERSION}"));
            return found;
        }
        _ => {
            note(1, "it does not begin with {\"khz_channels\":1, ...}: this is no file of channels");
            return found;
        }
    };
    let mut entries: Vec<(usize, (Role, Definition))> = Vec::new();
    let mut count = 0;
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        count += 1;
        let read = serde_json::from_slice::<Line>(line).map_err(|error| error.to_string());
        let role = |line: &Line| line.maker.parse::<Role>().map_err(|error| error.to_string());
        match read.and_then(|line| Ok((role(&line)?, line.definition))) {
            Ok(entry) => {
                let name = &entry.1.name;
                if let Some(at) = entries.iter().position(|(_, (_, before))| before.name == *name) {
                    let (before, _) = entries.remove(at);
                    note(
                        number,
                        &format!("channel '{}' is on line {before}, too; this line counts", printable(name)),
                    );
                }
                entries.push((number, entry));
            }
            Err(problem) => note(number, &problem),
        }
    }
    if count != awaited {
        note(count + 1, &format!("it holds {count} channels, and says that it holds {awaited}"));
    }
    found.entries = entries.into_iter().map(|(_, entry)| entry).collect();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_and_every_flipped_byte_is_an_answer_and_no_panic() {
        let definition = Definition { name: "a".into(), expr: Some("b".into()), ..Definition::default() };
        let other = Definition { name: "b".into(), ..definition.clone() };
        let [one, other] =
            [definition, other].map(|definition| line(&Line { maker: "reader".into(), definition }));
        let whole = line(&Head { khz_channels: VERSION, channels: 2 }) + &one + &other;
        let path = Path::new("channels.jsonl");
        assert!(read(path, whole.as_bytes()).damage.is_empty());
        for cut in 0..whole.len() - 1 {
            let found = read(path, &whole.as_bytes()[..cut]);
            assert!(!found.damage.is_empty(), "{cut}");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] ^= 0x55;
            assert!(read(path, &bytes).entries.len() <= 3);
        }
    }

    #[test]
    fn of_two_lines_of_one_name_the_later_one_counts_and_both_are_told() {
        let of = |name: &str, expr: &str| {
            let definition =
                Definition { name: name.into(), expr: Some(expr.into()), ..Definition::default() };
            line(&Line { maker: "reader".into(), definition })
        };
        let text = line(&Head { khz_channels: VERSION, channels: 3 })
            + &of("a", "x")
            + &of("b", "y")
            + &of("a", "z");
        let found = read(Path::new("channels.jsonl"), text.as_bytes());
        assert_eq!(found.damage, ["channels.jsonl:4: channel 'a' is on line 2, too; this line counts"]);
        let left: Vec<_> = found.entries.iter().map(|(_, one)| (&*one.name, one.expr.as_deref())).collect();
        assert_eq!(left, [("b", Some("y")), ("a", Some("z"))]);
    }

    #[test]
    fn the_bytes_of_a_file_of_channels_stay() {
        let text = "{\"khz_channels\":1,\"channels\":1}\n\
            {\"maker\":\"operator\",\"definition\":{\"name\":\"hot\",\"nodes\":\"n[1-4]\",\"series\":[\"mem.*\"],\
            \"rate\":\"10Hz\",\"exact\":true,\"every\":\"1s\",\"when\":\"{\\\"load.1m\\\"} > 2\",\"for\":\"5s\",\
            \"unless\":\"{\\\"load.1m\\\"} < 1\",\"at_least\":3,\"of\":5,\"deadband\":\"5%\"}}\n";
        let found = read(Path::new("channels.jsonl"), text.as_bytes());
        assert_eq!(found.damage, [""; 0]);
        let [(maker, definition)] = &found.entries[..] else { panic!("{found:?}") };
        let written = line(&Head { khz_channels: VERSION, channels: 1 })
            + &line(&Line { maker: maker.to_string(), definition: definition.clone() });
        assert_eq!(written, text);
    }
}
