//! The roster's file, `roster.jsonl`: read once at the start, replaced as a whole. It always has the old text or the new
//! one, even after the hub was killed. A damaged file is put aside, and the lines that can be read are used.

use std::io;
use std::path::{Path, PathBuf};

use khz_state::{StateError, StateFile};

use super::entry::{Entry, LINE_BYTES_MAX, head, read_head};
use crate::limits::{NODES_MAX, ROSTER_BYTES_MAX};

/// Of the file, without its ending.
const NAME: &str = "roster";

/// Why nodes are not remembered, or not all of them.
#[derive(Debug, thiserror::Error)]
pub enum RosterError {
    /// A file or directory cannot be used.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another hub uses the directory.
    #[error("another hub of this machine remembers its nodes in {}; give this one another --state-dir", .0.display())]
    Shared(PathBuf),
    /// The file is not a roster.
    #[error("{path}:{line}: {problem}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// What was read from the file.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub entries: Vec<Entry>,
    /// The first damage, if there is any.
    pub damage: Option<RosterError>,
    /// All damaged places, from the first on.
    pub damages: usize,
}

impl From<StateError> for RosterError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::File { what, path, source } => RosterError::File { what, path, source },
            StateError::Shared(path) => RosterError::Shared(path),
        }
    }
}

/// The file, which is this hub's as long as this lives.
#[derive(Debug)]
pub(crate) struct RosterFile(StateFile);

impl RosterFile {
    /// Makes the directory if it does not exist, and locks the file.
    pub fn open(directory: &Path) -> Result<Self, RosterError> {
        Ok(RosterFile(StateFile::open(directory, NAME)?))
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// Reads the file; a file that does not exist is empty. A damaged file is put aside.
    pub fn read(&self) -> Result<Found, RosterError> {
        let Some(bytes) = self.0.read(ROSTER_BYTES_MAX)? else { return Ok(Found::default()) };
        let found = read(&self.path(), &bytes);
        if found.damage.is_some() {
            // The hub's name and the time come with the next write, which is soon.
            let lines = found.entries.iter().map(Entry::line);
            let rest: String = [head("", 0, found.entries.len())].into_iter().chain(lines).collect();
            self.0.put_aside(Some(&rest))?;
        }
        Ok(found)
    }

    /// The place of a damaged file.
    pub fn aside(&self) -> PathBuf {
        self.0.aside()
    }

    /// Replaces the file.
    pub fn write(&self, text: &str) -> Result<(), RosterError> {
        Ok(self.0.write(text)?)
    }
}

/// Reads the lines; damaged lines are left out, and the first of them is reported.
fn read(path: &Path, bytes: &[u8]) -> Found {
    let mut found = Found::default();
    let note = |line: usize, problem: String, found: &mut Found| {
        let path = path.to_owned();
        found.damage.get_or_insert(RosterError::Damaged { path, line, problem });
        found.damages += 1;
    };
    if bytes.len() as u64 > ROSTER_BYTES_MAX {
        let problem = format!("a roster has at most {ROSTER_BYTES_MAX} bytes; what follows is left out");
        note(1, problem, &mut found);
    }
    let mut awaited = None;
    for (number, line) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
        if line.is_empty() {
            continue;
        }
        match (text(line), number) {
            (Err(problem), _) => note(number, problem, &mut found),
            (Ok(line), 1) => match read_head(line) {
                Ok(nodes) => awaited = Some(nodes),
                Err(problem) => {
                    note(number, problem, &mut found);
                    return found;
                }
            },
            (Ok(_), _) if found.entries.len() == NODES_MAX => {
                note(number, format!("a roster has at most {NODES_MAX} nodes"), &mut found);
                return found;
            }
            (Ok(line), _) => match Entry::read(line) {
                Ok(entry) => found.entries.push(entry),
                Err(problem) => note(number, problem, &mut found),
            },
        }
    }
    let lines = bytes.split(|&byte| byte == b'\n').count();
    // Lines that cannot be read are why nodes are missing.
    if awaited != Some(found.entries.len() as u64) && found.damages == 0 {
        let (is, should) = (found.entries.len(), awaited.unwrap_or(0));
        note(lines, format!("it holds {is} nodes, and says that it holds {should}"), &mut found);
    }
    found
}

fn text(line: &[u8]) -> Result<&str, String> {
    if line.len() > LINE_BYTES_MAX {
        return Err(format!("a line has at most {LINE_BYTES_MAX} bytes"));
    }
    std::str::from_utf8(line).map_err(|_| "it is not UTF-8 text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::entry::State;
    use super::*;
    use khz_model::NodeName;

    fn entry(name: &str) -> Entry {
        let node = NodeName::new(name).unwrap();
        let (address, version) = (String::new(), "0.1.0".into());
        Entry { node, state: State::Up, heard: 7, since: 5, address, version }
    }

    fn roster(names: &[&str]) -> String {
        let lines = names.iter().map(|name| entry(name).line());
        [head("hub1", 9, names.len())].into_iter().chain(lines).collect()
    }

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("khz-roster-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn what_is_written_is_read_and_the_place_is_one_hubs_alone() {
        let place = directory("round");
        let file = RosterFile::open(&place.join("deep")).unwrap();
        assert!(file.read().unwrap().entries.is_empty(), "there is none yet, and that is no error");
        file.write(&roster(&["n1"])).unwrap();
        file.write(&roster(&["n1", "n2"])).unwrap();
        let found = file.read().unwrap();
        assert!(found.damage.is_none());
        assert_eq!(found.entries, [entry("n1"), entry("n2")]);
        assert!(matches!(RosterFile::open(&place.join("deep")), Err(RosterError::Shared(_))));
        drop(file);
        assert!(RosterFile::open(&place.join("deep")).is_ok());
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_damaged_one_is_put_aside_with_its_line_named_and_the_whole_lines_count() {
        let place = directory("damaged");
        let file = RosterFile::open(&place).unwrap();
        let whole = roster(&["n1", "n2", "n3"]);
        for (text, line, kept) in [
            (whole.replace("\"n2\"", "\"../n2\""), 3, 2),
            (whole[..whole.len() - 20].to_owned(), 4, 2),
            (whole[..whole.find("\"n3\"").unwrap() - 40].to_owned(), 3, 1),
            ("{\"khz_roster\": 9}\n".to_owned(), 1, 0),
            ("\0\0\0\0\0\0".to_owned(), 1, 0),
            (String::new(), 1, 0),
            (whole.lines().take(3).map(|line| format!("{line}\n")).collect(), 4, 2),
        ] {
            std::fs::write(file.path(), &text).unwrap();
            let found = file.read().unwrap();
            let damage = found.damage.unwrap().to_string();
            assert!(damage.starts_with(&format!("{}:{line}: ", file.path().display())), "{damage}\n{text}");
            assert_eq!(found.entries.len(), kept, "{text}");
            assert_eq!(std::fs::read_to_string(file.aside()).unwrap(), text);
            // The next start finds what the whole lines say.
            let again = file.read().unwrap();
            assert!(again.damage.is_none() && again.entries == found.entries, "{text}");
        }
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_an_answer_and_no_panic() {
        let whole = roster(&["n1", "n2", "n3"]);
        let path = Path::new("roster.jsonl");
        for cut in 0..whole.len() - 1 {
            assert!(read(path, &whole.as_bytes()[..cut]).entries.len() <= 3);
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] ^= 0x55;
            assert!(read(path, &bytes).entries.len() <= 4);
        }
    }

    #[test]
    fn one_that_is_too_large_is_not_read_to_its_end() {
        let many: String = (0..=NODES_MAX).map(|n| entry(&format!("n{n}")).line()).collect();
        let text = head("hub1", 9, NODES_MAX + 1) + &many;
        let found = read(Path::new("roster.jsonl"), text.as_bytes());
        assert_eq!(found.entries.len(), NODES_MAX);
        assert!(found.damage.unwrap().to_string().contains("at most 65536 nodes"));
    }
}
