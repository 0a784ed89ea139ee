//! The last word of another hub, in a file of the state directory: `rules-peer-1.jsonl` for the first one of the configuration. If
//! both hubs go down, the one that returns first knows the messages and the actions of the other. The first line says which hub
//! sent the word, and when; the answer follows as received.

use std::path::Path;

use khz_state::StateFile;
use serde::{Deserialize, Serialize};

use super::passed::Complaint;
use super::peers::ANSWER_BYTES_MAX;
use crate::show::outcome::sentence;

/// The version of the format.
const VERSION: u32 = 1;
/// An older word does not count (ms), since alerts begin again after such a pause.
const WORD_KEPT: i64 = 3_600_000;
/// Bytes of the first line, at most: a URL is as long as a line of the configuration.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// The file.
pub(super) struct PeerFile {
    file: StateFile,
    url: String,
    /// It cannot be written.
    unwritten: Complaint,
}

/// Its first line.
#[derive(Serialize, Deserialize)]
struct Head {
    khz_rules_peer: u32,
    url: String,
    /// When the hub was asked (ms since 1970).
    known_at: i64,
}

impl PeerFile {
    /// The file of the hub with this number in the configuration. A failure is only logged.
    pub fn open(directory: &Path, number: usize, url: &str) -> Option<Self> {
        let file = StateFile::open(directory, &format!("rules-peer-{}", number + 1));
        let file = file.inspect_err(|error| {
            tracing::warn!("what other hubs say is forgotten over a restart: {}", sentence(error));
        });
        Some(PeerFile { file: file.ok()?, url: url.to_owned(), unwritten: Complaint::default() })
    }

    /// Reads when the hub was asked, and its answer. `None`: the file has no word of this hub that still counts at this time.
    pub fn read(&self, now: i64) -> Option<(i64, Vec<u8>)> {
        let bytes = self.file.read((ANSWER_BYTES_MAX + HEAD_BYTES_MAX) as u64);
        let bytes = bytes.inspect_err(|error| tracing::warn!("another hub's last word: {}", sentence(error)));
        let bytes = bytes.ok()??;
        let line = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let head: Result<Head, _> = serde_json::from_slice(&bytes[..line]);
        let head = head.inspect_err(|error| self.is_damaged(&error.to_string())).ok()?;
        let known_at = head.known_at.min(now);
        let counts = head.khz_rules_peer == VERSION && head.url == self.url && now - known_at <= WORD_KEPT;
        counts.then(|| (known_at, bytes[line..].to_vec()))
    }

    /// Stores the answer of the other hub, which was asked at this time.
    pub fn write(&mut self, known_at: i64, answer: &[u8]) {
        let head = Head { khz_rules_peer: VERSION, url: self.url.clone(), known_at };
        let head = serde_json::to_string(&head).unwrap_or_default();
        // It was parsed as JSON, so it is text.
        let Ok(answer) = std::str::from_utf8(answer) else { return };
        if let Err(error) = self.file.write(&format!("{head}\n{answer}"))
            && self.unwritten.is_due()
        {
            tracing::warn!(
                "what another hub says would be forgotten over a restart now: {}",
                sentence(&error)
            );
        }
    }

    /// Writing the last word failed, and a retry is due.
    pub fn wants_again(&self) -> bool {
        self.file.is_due_again()
    }

    /// The file cannot be parsed, and is put aside.
    pub fn is_damaged(&self, error: &str) {
        tracing::warn!("{}: {error}; the file is put aside", self.file.path().display());
        if let Err(error) = self.file.put_aside(None) {
            tracing::warn!("{}", sentence(&error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_a_hub_counts_for_an_hour_and_for_that_hub_only() {
        let place = std::env::temp_dir().join(format!("khz-peer-file-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let open = |url| PeerFile::open(&place, 0, url).unwrap();
        let mut file = open("http://a");
        assert_eq!(file.read(1_000), None);
        file.write(1_000, b"{\"hub\":\n1}");
        let word = Some((1_000, b"\n{\"hub\":\n1}".to_vec()));
        assert_eq!(file.read(1_000 + WORD_KEPT), word);
        assert_eq!(file.read(1_001 + WORD_KEPT), None, "it is too old");
        assert_eq!(file.read(7).map(|(known_at, _)| known_at), Some(7), "the clock was set back");
        drop(file);
        assert_eq!(open("http://b").read(1_000), None, "another hub has this number now");
        let file = open("http://a");
        assert_eq!(file.read(1_000), word);
        std::fs::write(file.file.path(), "nonsense").unwrap();
        assert_eq!(file.read(1_000), None);
        assert!(file.file.aside().exists() && !file.file.path().exists());
        std::fs::remove_dir_all(place).unwrap();
    }
}
