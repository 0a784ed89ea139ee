//! The audit log: `actions.jsonl` in the state directory, with a line for each step, written to the disk before the step is done.
//! When it is full, it becomes `actions.1.jsonl`, and a new file begins with the lines that must not be lost. Existing lines never
//! change. If somebody removes it, it is written again before the next step.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use khz_state::{NamedFile, StateFile, note_renewed};

use crate::error::ActionError;
use crate::limits::LOG_BYTES_MAX;
use crate::record::Line;

/// The file's name, without its ending.
const NAME: &str = "actions";

/// The log. This process holds it for the life of this value.
#[derive(Debug)]
pub(crate) struct AuditLog {
    directory: PathBuf,
    lock: StateFile,
    file: NamedFile,
    /// The file before it, if there is one.
    older: Option<NamedFile>,
    bytes: u64,
    max: u64,
    /// A file of this size is full.
    full_at: u64,
    /// The file is gone and cannot be written again, and the hub's log has already said so.
    is_lost: bool,
}

impl AuditLog {
    /// Opens it in this directory; `each` gets every line that there is, oldest first.
    pub fn open(directory: &Path, each: impl FnMut(Line)) -> Result<Self, ActionError> {
        Self::open_with(directory, LOG_BYTES_MAX, each)
    }

    fn open_with(directory: &Path, max: u64, mut each: impl FnMut(Line)) -> Result<Self, ActionError> {
        let lock = StateFile::open(directory, NAME)?;
        let mut ends_whole = true;
        for path in [older(directory), newer(directory)] {
            ends_whole = read(&path, max, &mut each).map_err(failed("read", &path))?;
        }
        let path = newer(directory);
        let file = NamedFile::append_to(&path).map_err(failed("write", &path))?;
        let bytes = file.file().metadata().map_err(failed("read", &path))?.len();
        let older = File::open(older(directory)).ok().map(|file| NamedFile::new(older(directory), file));
        let directory = directory.to_owned();
        let mut log = AuditLog { directory, lock, file, older, bytes, max, full_at: max, is_lost: false };
        if !ends_whole {
            // A process was killed while it wrote: the next line must begin on a new line.
            log.write(b"\n").map_err(failed("write", &path))?;
        }
        Ok(log)
    }

    /// Adds a line and waits until it is on the disk, under the file's name. `kept` gives the first lines of a new file.
    pub fn append(&mut self, line: &Line, kept: impl FnOnce() -> Vec<Line>) -> io::Result<()> {
        self.append_all(std::slice::from_ref(line), kept)
    }

    /// The same for several lines. After an error, none of them is in the file.
    pub fn append_all(&mut self, lines: &[Line], kept: impl FnOnce() -> Vec<Line>) -> io::Result<()> {
        self.keep_names()?;
        if self.bytes >= self.full_at {
            self.rotate(&kept())?;
        }
        let all: Vec<u8> = lines.iter().flat_map(text).collect();
        self.write(&all)
    }

    /// Restores files that somebody has removed.
    fn keep_names(&mut self) -> io::Result<()> {
        self.lock.keep_lock().map_err(io::Error::other)?;
        for file in [&mut self.file].into_iter().chain(self.older.as_mut()).filter(|file| !file.is_there()) {
            file.renew()?;
            note_renewed(file.path());
        }
        self.is_lost = false;
        Ok(())
    }

    /// The same for a thread that calls it from time to time. A failure is logged once.
    pub fn tend(&mut self) {
        if let Err(error) = self.keep_names()
            && !std::mem::replace(&mut self.is_lost, true)
        {
            tracing::warn!(
                "the log of actions was removed and cannot be written again; no action begins: {error}"
            );
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.file.file();
        let on_disk = file.write_all(bytes).and_then(|()| file.sync_data());
        // Somebody may have removed the file since.
        let written = on_disk.and_then(|()| self.keep_names());
        match written {
            Ok(()) => self.bytes += bytes.len() as u64,
            // Half a line would damage the next one. If it cannot be removed, readers skip it.
            Err(_) => _ = self.file.file().set_len(self.bytes),
        }
        written
    }

    /// Begins a new file. At every moment, both files together hold everything that matters.
    fn rotate(&mut self, kept: &[Line]) -> io::Result<()> {
        let next = self.directory.join(format!("{NAME}.jsonl.new"));
        match std::fs::remove_file(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = NamedFile::append_to(&next)?;
        let begin: Vec<u8> = kept.iter().flat_map(text).collect();
        file.file().write_all(&begin)?;
        file.file().sync_all()?;
        std::fs::rename(newer(&self.directory), older(&self.directory))?;
        std::fs::rename(&next, newer(&self.directory))?;
        File::open(&self.directory)?.sync_all()?;
        file.has_moved(newer(&self.directory));
        let mut before = std::mem::replace(&mut self.file, file);
        before.has_moved(older(&self.directory));
        self.older = Some(before);
        self.bytes = begin.len() as u64;
        // The kept lines must leave room for new ones.
        self.full_at = self.max.max(self.bytes + self.max / 2);
        Ok(())
    }
}

fn newer(directory: &Path) -> PathBuf {
    directory.join(format!("{NAME}.jsonl"))
}

fn older(directory: &Path) -> PathBuf {
    directory.join(format!("{NAME}.1.jsonl"))
}

fn text(line: &Line) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).expect("BUG: texts cannot be written as JSON");
    text.push(b'\n');
    text
}

/// Reads a file of the log; false: its last line is cut off.
fn read(path: &Path, max: u64, each: &mut impl FnMut(Line)) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    // A file may exceed its limit by one line and by the kept lines. Of a still larger file, only the end is read.
    let (most, length) = (4 * max, file.metadata()?.len());
    let mut bytes = vec![0; usize::try_from(length.min(most)).unwrap_or(0)];
    let from = length.saturating_sub(most);
    let mut at = 0;
    while at < bytes.len() {
        match file.read_at(&mut bytes[at..], from + at as u64) {
            Ok(0) => break,
            Ok(count) => at += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(at);
    let mut damaged = None;
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty())
    {
        match serde_json::from_slice(line) {
            Ok(line) => each(line),
            Err(error) => _ = damaged.get_or_insert((number + 1, error)),
        }
    }
    if let Some((number, error)) = damaged {
        tracing::warn!(
            "{}: line {number} cannot be read, and perhaps others ({error}); what the other lines say holds",
            path.display()
        );
    }
    Ok(bytes.last().is_none_or(|last| *last == b'\n'))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ActionError {
    let path = path.to_owned();
    move |source| ActionError::Log { what, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Event, Key, Outcome};

    fn place(name: &str) -> PathBuf {
        let place = std::env::temp_dir().join(format!("khz-actions-log-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        place
    }

    fn end(run: u64) -> Line {
        Line {
            at: 1,
            run,
            event: Event::End {
                outcome: Outcome::Done,
                text: "x".repeat(50),
                end: None,
                output: false,
                again: None,
            },
        }
    }

    fn kept(run: u64) -> Line {
        let key = Key { action: "a".into(), fingerprint: u64::MAX, starts_at: -1 };
        Line { at: 1, run, event: Event::Kept { key, again: None } }
    }

    fn open(place: &Path, max: u64) -> (AuditLog, Vec<Line>) {
        let mut lines = Vec::new();
        let log = AuditLog::open_with(place, max, |line| lines.push(line)).unwrap();
        (log, lines)
    }

    #[test]
    fn a_line_that_was_cut_off_spoils_no_other() {
        let place = place("cut");
        let (mut log, lines) = open(&place, 1 << 20);
        assert!(lines.is_empty());
        log.append(&end(1), Vec::new).unwrap();
        drop(log);
        let mut file = std::fs::OpenOptions::new().append(true).open(newer(&place)).unwrap();
        file.write_all(b"{\"at\":1,\"run\":2,\"eve").unwrap();
        let (mut log, lines) = open(&place, 1 << 20);
        assert_eq!(lines, [end(1)]);
        log.append(&end(3), Vec::new).unwrap();
        drop(log);
        assert_eq!(open(&place, 1 << 20).1, [end(1), end(3)]);
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_full_file_becomes_the_older_one_and_what_must_not_be_forgotten_is_in_the_new_one() {
        let place = place("full");
        let (mut log, _) = open(&place, 500);
        for run in 1..=40 {
            log.append(&end(run), || vec![kept(run)]).unwrap();
        }
        drop(log);
        for path in [older(&place), newer(&place)] {
            let bytes = std::fs::metadata(&path).unwrap().len();
            assert!((1..900).contains(&bytes), "{}: {bytes}", path.display());
        }
        let (_, lines) = open(&place, 500);
        let ends: Vec<u64> = lines
            .iter()
            .filter(|line| matches!(line.event, Event::End { .. }))
            .map(|line| line.run)
            .collect();
        assert_eq!(ends.last(), Some(&40));
        assert!(ends.windows(2).all(|pair| pair[1] == pair[0] + 1), "none is missing between them: {ends:?}");
        let keeps = lines.iter().filter(|line| matches!(line.event, Event::Kept { .. })).count();
        assert_eq!(keeps, 2, "each of the two files began with what was kept");
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_log_in_a_directory_that_cannot_be_written_is_an_error_with_its_place() {
        let place = place("none");
        std::fs::create_dir_all(place.join("actions.jsonl")).unwrap();
        let error = AuditLog::open(&place, |_| {}).unwrap_err().to_string();
        assert!(
            error.contains("actions.jsonl") && error.contains("without a log nothing is done"),
            "{error}"
        );
        std::fs::remove_dir_all(place).unwrap();
    }
}
