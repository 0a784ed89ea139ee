//! The files of a black box: a recording for each freeze, `ID.khzt`, and the list of all, `freezes.jsonl`. The oldest recordings
//! are removed when room is needed. It knows no node.

use std::fs::File;
use std::path::{Path, PathBuf};

use khz_model::ByteSize;
use khz_state::{StateError, StateFile};
use serde::{Deserialize, Serialize};

use super::entry::Entry;
use crate::show::outcome::sentence;

/// The directory below the state directory.
const FOLDER: &str = "blackbox";
/// The largest list: freezes of thousands of nodes with odd names.
const LIST_BYTES_MAX: u64 = 64 << 20;
/// The most freezes in the list, however small they are.
pub const LISTED_MAX: usize = 1_024;

/// The first line of the list.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    /// The highest id that a freeze ever had. No id is used again, even after its freeze is gone.
    last_id: u64,
}

/// A line of the list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Head(Head),
    Entry(Box<Entry>),
}

/// The directory.
pub struct Shelf {
    folder: PathBuf,
    list: StateFile,
    /// Bytes that all recordings may have.
    pub room: u64,
    is_failing: bool,
}

impl Shelf {
    /// Opens the directory, which is made if it does not exist.
    pub fn open(state: &Path, room: ByteSize) -> Result<Self, StateError> {
        let folder = state.join(FOLDER);
        let list = StateFile::open(&folder, "freezes")?;
        Ok(Shelf { folder, list, room: room.0, is_failing: false })
    }

    /// The freezes of earlier starts, and the highest number that one ever had. Recordings that are missing in the list, because a
    /// user removed it, are included.
    pub fn entries(&self) -> (u64, Vec<Entry>) {
        let (last_id, mut entries) = self.listed();
        for id in self.recordings() {
            if entries.iter().all(|entry| entry.id != id) {
                let cause = "not known: the list of freezes was lost".to_owned();
                let bytes = self.bytes(id);
                entries.push(Entry { is_over: true, bytes, ..Entry::new(id, 0, 0, 0, 0, cause) });
            }
        }
        let last_id = entries.iter().map(|entry| entry.id).fold(last_id, u64::max);
        (last_id, entries)
    }

    fn listed(&self) -> (u64, Vec<Entry>) {
        let bytes = match self.list.read(LIST_BYTES_MAX) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(error) => {
                tracing::warn!("the list of freezes cannot be read: {}", sentence(&error));
                return (0, Vec::new());
            }
        };
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().map(serde_json::from_str::<Line>).collect();
        let is_damaged = lines.iter().any(Result::is_err);
        let (mut last_id, mut entries) = (0, Vec::new());
        for line in lines.into_iter().flatten() {
            match line {
                Line::Head(head) => last_id = last_id.max(head.last_id),
                Line::Entry(entry) => entries.push(*entry),
            }
        }
        if is_damaged {
            // The number of a freeze that is in no line may be that of a recording.
            let last_id = self.recordings().into_iter().fold(last_id, u64::max);
            tracing::warn!("the list of freezes is damaged; it is kept as {}", self.list.aside().display());
            if let Err(error) = self.list.put_aside(Some(&written(last_id, entries.iter()))) {
                tracing::warn!("{}", sentence(&error));
            }
        }
        (last_id, entries)
    }

    /// The numbers of the recordings that are there.
    fn recordings(&self) -> Vec<u64> {
        let Ok(folder) = std::fs::read_dir(&self.folder) else { return Vec::new() };
        let id = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.ok()?.file_name().to_str()?.strip_suffix(".khzt")?.parse().ok()
        };
        folder.filter_map(id).collect()
    }

    /// Writes the list to the disk. A failure is logged once.
    pub fn write<'a>(
        &mut self,
        last_id: u64,
        entries: impl Iterator<Item = &'a Entry>,
    ) -> Result<(), StateError> {
        let kept = self.list.write(&written(last_id, entries));
        match &kept {
            Ok(()) => self.is_failing = false,
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                tracing::warn!("the list of freezes cannot be written: {}", sentence(error));
            }
            Err(_) => {}
        }
        kept
    }

    /// True if the last write failed and a retry is due.
    pub fn is_due_again(&self) -> bool {
        self.list.is_due_again()
    }

    /// The place of a recording.
    pub fn path(&self, id: u64) -> PathBuf {
        self.folder.join(format!("{id}.khzt"))
    }

    /// The size of a recording; 0 if it does not exist.
    pub fn bytes(&self, id: u64) -> u64 {
        std::fs::metadata(self.path(id)).map_or(0, |about| about.len())
    }

    /// Opens it.
    pub fn open_recording(&self, id: u64) -> Option<File> {
        File::open(self.path(id)).ok()
    }

    /// Removes it.
    pub fn remove(&self, id: u64) {
        match std::fs::remove_file(self.path(id)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!("the recording of freeze {id} cannot be removed: {error}"),
        }
    }
}

/// The list. An entry that cannot become text is left out.
fn written<'a>(last_id: u64, entries: impl Iterator<Item = &'a Entry>) -> String {
    let mut text = serde_json::to_string(&Head { last_id }).unwrap_or_default();
    text.push('\n');
    for entry in entries {
        text += &serde_json::to_string(entry).unwrap_or_default();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_number_is_kept_also_when_the_list_is_empty() {
        let place = std::env::temp_dir().join(format!("khz-shelf-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let mut shelf = Shelf::open(&place, ByteSize(1)).unwrap();
        assert_eq!(shelf.entries(), (0, Vec::new()));
        let entry = Entry::new(7, 1, 0, 0, 0, "x".to_owned());
        shelf.write(9, [&entry].into_iter()).unwrap();
        assert_eq!(shelf.entries(), (9, vec![entry.clone()]));
        shelf.write(9, [].into_iter()).unwrap();
        assert_eq!(shelf.entries(), (9, Vec::new()));
        // As the list was written before it had a head; and a recording that is not in it.
        std::fs::write(place.join("blackbox/freezes.jsonl"), serde_json::to_string(&entry).unwrap()).unwrap();
        assert_eq!(shelf.entries(), (7, vec![entry]));
        std::fs::write(shelf.path(11), "").unwrap();
        assert_eq!(shelf.entries().0, 11);
        // A damaged line costs its freeze, and no other one, at this start and at each later one.
        let whole = [3, 7].map(|id| Entry::new(id, 1, 0, 0, 0, format!("cause of {id}")));
        shelf.write(12, whole.iter()).unwrap();
        let list = place.join("blackbox/freezes.jsonl");
        let text = std::fs::read_to_string(&list).unwrap();
        std::fs::write(&list, text.replace("cause of 3\"", "cause of 3\\")).unwrap();
        for _ in 0..3 {
            let (last_id, entries) = shelf.entries();
            assert_eq!((last_id, entries.len(), &entries[0]), (12, 2, &whole[1]), "{entries:?}");
        }
        assert!(shelf.list.aside().exists());
        std::fs::remove_dir_all(place).unwrap();
    }
}
