//! The log: `jobs.jsonl` in the state directory, a line with a whole run for each change of it, on the disk before anybody hears that the
//! change is made. The last line of a run counts. When it is twice as long as it could be, it is written again. If somebody removes it, it
//! is written again, too.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use khz_state::{NamedFile, StateFile, note_renewed};

use crate::error::JobError;
use crate::id::check_id;
use crate::job::Job;
use crate::limits::{LINE_BYTES_MAX, LOG_BYTES_MIN};
use crate::list::JobList;

/// The file's name, without its ending.
const NAME: &str = "jobs";

/// The log. It is this process's as long as this lives.
#[derive(Debug)]
pub(crate) struct JobLog {
    directory: PathBuf,
    lock: StateFile,
    file: NamedFile,
    bytes: u64,
    /// A file of this size is written again.
    full_at: u64,
    /// It is gone and cannot be written again, and the log of the hub says so.
    is_lost: bool,
    /// See [`JobLog::worked_until`].
    worked_until: i64,
}

impl JobLog {
    /// Opens it in this directory, with the jobs that it has.
    pub fn open(directory: &Path, list: &mut JobList) -> Result<Self, JobError> {
        let lock = StateFile::open(directory, NAME)?;
        let path = directory.join(format!("{NAME}.jsonl"));
        let failed = |what| {
            let path = path.clone();
            move |error: io::Error| JobError::Log { what, path, problem: error.to_string() }
        };
        let file = NamedFile::append_to(&path).map_err(failed("write"))?;
        let mut ends_whole = true;
        if let Ok(file) = File::open(&path) {
            let length = file.metadata().map_err(failed("read"))?.len();
            let (whole, damaged) = replay(BufReader::new(file.take(length)), list).map_err(failed("read"))?;
            ends_whole = whole;
            if let Some(line) = damaged {
                tracing::warn!(
                    "{}: line {line} cannot be read, and perhaps others; the jobs of the other lines are there",
                    path.display()
                );
            }
        }
        let bytes = file.file().metadata().map_err(failed("read"))?.len();
        let modified = file.file().metadata().and_then(|file| file.modified()).map_err(failed("read"))?;
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        let worked_until = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let directory = directory.to_owned();
        let mut log =
            JobLog { directory, lock, file, bytes, full_at: LOG_BYTES_MIN, is_lost: false, worked_until };
        if !ends_whole {
            // A process was killed while it wrote: the next line begins a line.
            log.write(b"\n").map_err(failed("write"))?;
        }
        Ok(log)
    }

    /// When an earlier start worked last (ms): what it left of the file was written then, or was marked as new.
    pub fn worked_until(&self) -> i64 {
        self.worked_until
    }

    /// Marks the file as new. A failure only makes the end of a job later that nobody sees end.
    pub fn note_works(&self) {
        let _ = self.file.file().set_modified(SystemTime::now());
    }

    /// Adds runs and waits until they are on the disk, in a file that has its name. Where there is an error, none is added.
    pub fn append<'a>(&mut self, jobs: impl Iterator<Item = &'a Job>) -> io::Result<()> {
        self.keep_names()?;
        let lines: Vec<u8> = jobs.flat_map(line).collect();
        if lines.is_empty() { Ok(()) } else { self.write(&lines) }
    }

    /// Writes the log again with these runs alone, if it is much longer than they are. An error changes nothing: the long one holds.
    pub fn shorten<'a>(&mut self, jobs: impl Iterator<Item = &'a Job>) {
        if self.bytes < self.full_at {
            return;
        }
        match self.replace(jobs) {
            Ok(()) => self.full_at = LOG_BYTES_MIN.max(2 * self.bytes),
            Err(error) => {
                tracing::warn!("the log of jobs cannot be shortened: {error}");
                self.full_at = self.bytes + LOG_BYTES_MIN;
            }
        }
    }

    /// Writes the file again if somebody has removed it: for a thread that does so from time to time. A failure is logged once.
    pub fn tend(&mut self) {
        if let Err(error) = self.keep_names()
            && !std::mem::replace(&mut self.is_lost, true)
        {
            tracing::warn!("the log of jobs was removed and cannot be written again: {error}");
        }
    }

    fn keep_names(&mut self) -> io::Result<()> {
        self.lock.keep_lock().map_err(io::Error::other)?;
        if !self.file.is_there() {
            self.file.renew()?;
            note_renewed(self.file.path());
        }
        self.is_lost = false;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.file.file();
        let on_disk = file.write_all(bytes).and_then(|()| file.sync_data());
        // Somebody may have removed it since.
        let written = on_disk.and_then(|()| self.keep_names());
        match written {
            Ok(()) => self.bytes += bytes.len() as u64,
            // Half a line would spoil the next one. If it stays, reading leaves it out.
            Err(_) => _ = self.file.file().set_len(self.bytes),
        }
        written
    }

    fn replace<'a>(&mut self, jobs: impl Iterator<Item = &'a Job>) -> io::Result<()> {
        let path = self.directory.join(format!("{NAME}.jsonl"));
        let next = self.directory.join(format!("{NAME}.jsonl.new"));
        match std::fs::remove_file(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = NamedFile::append_to(&next)?;
        let mut out = io::BufWriter::new(file.file());
        for job in jobs {
            out.write_all(&line(job))?;
        }
        out.flush()?;
        drop(out);
        file.file().sync_all()?;
        let bytes = file.file().metadata()?.len();
        std::fs::rename(&next, &path)?;
        file.has_moved(path);
        (self.file, self.bytes) = (file, bytes);
        File::open(&self.directory)?.sync_all()
    }
}

fn line(job: &Job) -> Vec<u8> {
    let mut line = serde_json::to_vec(job).expect("BUG: texts cannot be written as JSON");
    line.push(b'\n');
    line
}

/// Reads a log into a list. Returns whether its last line is whole, and the number of the first line that cannot be read.
fn replay(mut from: impl BufRead, list: &mut JobList) -> io::Result<(bool, Option<usize>)> {
    let (mut line, mut number, mut damaged, mut ends_whole) = (Vec::new(), 0, None, true);
    loop {
        line.clear();
        let length = from.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok((ends_whole, damaged));
        }
        number += 1;
        ends_whole = line.last() == Some(&b'\n');
        if !ends_whole && length > LINE_BYTES_MAX {
            // Its rest is no line either.
            skip_line(&mut from)?;
            damaged.get_or_insert(number);
            continue;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice::<Job>(&line) {
            Ok(job) if is_sound(&job) => {
                list.put(job);
                list.trim();
            }
            _ => _ = damaged.get_or_insert(number),
        }
    }
}

fn skip_line(from: &mut impl BufRead) -> io::Result<()> {
    loop {
        let part = from.fill_buf()?;
        if part.is_empty() {
            return Ok(());
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(part.len(), |end| end + 1);
        from.consume(length);
        if end.is_some() {
            return Ok(());
        }
    }
}

/// What khz itself writes is sound; a line that somebody has changed may not be.
fn is_sound(job: &Job) -> bool {
    check_id(&job.id).is_ok()
        && job.run > 0
        && job.run < u64::MAX
        && job.end.is_none_or(|end| end >= job.begin)
        && crate::change::nodes(&job.id, &job.nodes).is_ok()
}

/// The jobs of a log with these bytes, oldest first: what a hub would know after a start with it.
pub fn replayed(bytes: &[u8]) -> Vec<Job> {
    let mut list = JobList::default();
    // Bytes in memory can always be read.
    let _ = replay(bytes, &mut list);
    list.all().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_damaged_spoil_no_other() {
        let good = r#"{"run":1,"id":"7","nodes":"n1","begin":5,"source":"told"}"#;
        let later = r#"{"run":1,"id":"7","nodes":"n1","begin":5,"end":9,"source":"told"}"#;
        let other = r#"{"run":2,"id":"8","nodes":"n[1-2]","begin":6}"#;
        let long = "x".repeat(LINE_BYTES_MAX + 10);
        let text = format!(
            "{good}\n{{\"run\":3,\n{long}\n\n{{\"run\":4,\"id\":\"a b\",\"nodes\":\"n1\",\"begin\":1}}\n{later}\n{other}\n{{\"run\":9,\"i"
        );
        let jobs = replayed(text.as_bytes());
        let ids: Vec<(&str, Option<i64>)> = jobs.iter().map(|job| (&*job.id, job.end)).collect();
        assert_eq!(ids, [("7", Some(9)), ("8", None)]);
    }
}
