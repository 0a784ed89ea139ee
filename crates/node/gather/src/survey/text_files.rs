//! Files of numbers that programs leave for node_exporter (`*.prom` in one folder): reads them, and leaves out a file with an error,
//! whole, as node_exporter does. Each file is a step of its own, since it may be a link to a file server that is gone.
//! `khz_parse::textfile` decides the names in khz; [`numbers`] merges the numbers of several files.

mod numbers;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use khz_model::instance::kernel_text;
use khz_parse::textfile::{write_error, write_family, write_mtime};
use rustix::io::Errno;

use super::churn::{Churn, Room};
use super::course::{Abandoned, Course};
use super::folder::{kind_of, names, shown};
use super::limited::Shown;
use super::{Answer, SurveySettings};
use crate::clock;
use numbers::{Contents, Kinds, Numbers};
pub use numbers::{TEXT_FILE_KINDS_MAX, TEXT_FILE_SERIES_MAX};

/// The most files that are read. A program that writes such files has one of them.
pub const TEXT_FILES_MAX: usize = 256;
/// A longer file is left out. Its largest honest user lists each attribute of each disk: 100 bytes a number.
pub const TEXT_FILE_BYTES_MAX: u64 = 2 << 20;
/// The most bytes of all files that are read in one survey.
pub const TEXT_FILES_BYTES_MAX: u64 = 8 << 20;

/// The most files of which one sentence says why they are left out: `khz check` shows it.
const PROBLEMS_SHOWN: usize = 16;

/// The folder, and what is known of its files.
pub(super) struct TextFiles {
    folder: PathBuf,
    /// A setting named the folder, so it should be there.
    is_expected: bool,
    state: Mutex<State>,
}

/// What is kept from one survey to the next.
struct State {
    latest: Latest,
    churn: Churn,
    kinds: Kinds,
}

/// The latest survey.
#[derive(Default)]
struct Latest {
    /// The files, as they were.
    stamps: Vec<(OsString, Stamp)>,
    /// The files beyond [`TEXT_FILES_MAX`].
    beyond: usize,
    /// A file was left out that may have its place later although it is the same: for want of room for new series, or because reading
    /// it failed.
    is_to_be_tried: bool,
    text: Vec<u8>,
    /// What was wrong with which file.
    problems: BTreeMap<OsString, String>,
    /// Why the folder has no files now.
    folder_problem: Option<String>,
}

impl Latest {
    /// The rank of a file when there is no room for all files: first files that were shown and have not changed, then other files
    /// that were shown, then new files.
    fn rank(&self, name: &OsString, stamp: Stamp) -> u8 {
        let before = self.stamps.binary_search_by(|(known, _)| known.cmp(name)).ok();
        match before.and_then(|index| self.stamps.get(index)) {
            Some((_, known)) if !self.problems.contains_key(name) => u8::from(*known != stamp),
            _ => 2,
        }
    }
}

/// Shows whether a file has changed: its number, its size, when it was written, and when its rights were changed. `None`: the file
/// system does not report this.
type Stamp = Option<(u64, u64, [i64; 4])>;

fn stamp(of: std::io::Result<Metadata>) -> Stamp {
    let of = of.ok()?;
    Some((of.ino(), of.len(), [of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec()]))
}

/// Why a file was not read.
struct Unread {
    problem: String,
    /// The same file may be read later.
    is_to_be_tried: bool,
}

impl TextFiles {
    /// Those of the folder below the root.
    pub fn new(root: &Path, settings: &SurveySettings) -> Self {
        let folder = &settings.text_files;
        let state = State {
            latest: Latest::default(),
            churn: Churn::new(Room::OF_TEXT_FILES, clock::boot()),
            kinds: Kinds::default(),
        };
        TextFiles {
            folder: root.join(folder.strip_prefix("/").unwrap_or(folder)),
            is_expected: settings.expects_text_files,
            state: Mutex::new(state),
        }
    }

    /// Makes the text.
    pub fn survey(&self, course: &mut Course<'_>) -> Result<Answer, Abandoned> {
        if !course.begin(b"")? {
            return Ok(Err(Errno::TIMEDOUT));
        }
        let mut files = match names(&self.folder) {
            Ok(files) => files,
            // Most machines have no such files.
            Err(errno @ Errno::NOENT) if !self.is_expected => {
                course.note_refused(&self.folder, errno);
                return Ok(Err(errno));
            }
            Err(errno) => return self.without_folder(course, errno),
        };
        files.retain(|name| name.as_encoded_bytes().ends_with(b".prom"));
        let beyond = self.choose(&mut files);
        course.left_out += beyond as u64;
        let stamps = self.stamps(course, files)?;
        let is_same = {
            let latest = &self.state().latest;
            let is_same = latest.stamps == stamps && latest.beyond == beyond && !latest.is_to_be_tried;
            is_same && !latest.text.is_empty() && latest.folder_problem.is_none()
        };
        if !is_same {
            // No lock is held while files are read: if this thread is stuck, another thread takes its
            // place.
            let read = self.read_all(course, &stamps)?;
            let mut state = self.state();
            let found = self.made_of(read, beyond, &mut state);
            self.report(&state.latest, &found);
            state.latest = Latest { stamps, ..found };
        }
        let state = self.state();
        if let Some(problem) = self.problem(&state.latest) {
            course.note_of_all(problem);
        }
        Ok(Ok(state.latest.text.clone()))
    }

    /// If there are more files than are read, takes files that were there before, then others in the order of their names. Returns
    /// how many are left out.
    fn choose(&self, files: &mut Vec<OsString>) -> usize {
        let state = self.state();
        let before = Shown::of(state.latest.stamps.iter().map(|(name, _)| name.as_encoded_bytes()));
        let mut seats = before.seats_among(files.iter().map(|name| name.as_encoded_bytes()), TEXT_FILES_MAX);
        files.retain(|name| seats.takes(name.as_encoded_bytes()));
        seats.left_out() as usize
    }

    /// The text where the folder cannot be read: an error, and no number.
    fn without_folder(&self, course: &mut Course<'_>, errno: Errno) -> Result<Answer, Abandoned> {
        course.close()?;
        let why = match errno {
            Errno::NOTDIR => "it is no folder".to_owned(),
            _ => std::io::Error::from(errno).to_string(),
        };
        let problem = format!(
            "textfile.error is 1, since the folder of files of numbers cannot be read: {}: {why}",
            shown(&self.folder)
        );
        let latest = &mut self.state().latest;
        if latest.folder_problem.as_ref() != Some(&problem) {
            tracing::warn!("{problem}");
        }
        course.note_of_all(problem.clone());
        latest.folder_problem = Some(problem);
        let mut text = String::new();
        write_error(true, &mut text);
        Ok(Ok(text.into_bytes()))
    }

    /// Which files are left out, and why, in one sentence.
    fn problem(&self, latest: &Latest) -> Option<String> {
        let left_out =
            |(name, problem): (&OsString, &String)| format!("{}: {problem}", shown(&self.folder.join(name)));
        let mut problems: Vec<String> = latest.problems.iter().take(PROBLEMS_SHOWN).map(left_out).collect();
        let more = latest.problems.len() - problems.len();
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        if latest.beyond > 0 {
            problems.push(format!("{} files beyond {TEXT_FILES_MAX}", latest.beyond));
        }
        (!problems.is_empty())
            .then(|| format!("textfile.error is 1, since files are left out: {}", problems.join("; ")))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files with these names as they are now, without files that have gone.
    fn stamps(
        &self,
        course: &mut Course<'_>,
        names: Vec<OsString>,
    ) -> Result<Vec<(OsString, Stamp)>, Abandoned> {
        let mut stamps = Vec::with_capacity(names.len());
        for name in names {
            let path = self.folder.join(&name);
            let stamp = match course.begin(path.as_os_str().as_encoded_bytes())? {
                true => stamp(std::fs::metadata(&path)),
                false => None,
            };
            if stamp.is_some() || !has_gone(&path) {
                stamps.push((name, stamp));
            }
        }
        Ok(stamps)
    }

    /// Says what is left out, and was not before.
    fn report(&self, latest: &Latest, found: &Latest) {
        let beyond = found.beyond;
        if beyond > 0 && latest.beyond == 0 {
            let folder = shown(&self.folder);
            tracing::warn!(
                "{folder}: more than {TEXT_FILES_MAX} files of numbers; {beyond} of them are left out"
            );
        }
        for (name, problem) in &found.problems {
            if latest.problems.get(name) != Some(problem) {
                tracing::warn!("{} is left out: {problem}", shown(&self.folder.join(name)));
            }
        }
    }

    /// Reads the files: first those that have room before others.
    fn read_all(
        &self,
        course: &mut Course<'_>,
        stamps: &[(OsString, Stamp)],
    ) -> Result<FilesRead, Abandoned> {
        let (mut found, mut room) = (FilesRead::default(), TEXT_FILES_BYTES_MAX);
        let ranked: BTreeSet<(u8, &OsString)> = {
            let latest = &self.state().latest;
            stamps.iter().map(|(name, stamp)| (latest.rank(name, *stamp), name)).collect()
        };
        for (_, name) in ranked {
            let path = self.folder.join(name);
            let read = match course.begin(path.as_os_str().as_encoded_bytes())? {
                true => read(&path, room),
                false => Err(Unread {
                    problem: "it cannot be read: its file system does not answer".to_owned(),
                    is_to_be_tried: true,
                }),
            };
            match read {
                Ok((text, mtime)) => {
                    room -= text.len() as u64;
                    found.texts.push((name.clone(), text, mtime));
                }
                Err(unread) => {
                    found.is_to_be_tried |= unread.is_to_be_tried;
                    found.problems.insert(name.clone(), unread.problem);
                }
            }
        }
        // Where this thread was given up, another one has read them.
        course.close()?;
        Ok(found)
    }

    /// Makes the text.
    fn made_of(&self, read: FilesRead, beyond: usize, state: &mut State) -> Latest {
        let State { churn, kinds, .. } = state;
        let FilesRead { texts, mut problems, is_to_be_tried } = read;
        let (mut times, mut numbers, mut room) = (Vec::new(), Numbers::default(), TEXT_FILE_SERIES_MAX);
        churn.begin(clock::boot());
        let mut contents = BTreeMap::new();
        for (name, text, mtime) in &texts {
            let file = kernel_text(name.as_encoded_bytes());
            match Contents::of(file, text, kinds, churn).and_then(|found| found.within(&mut room)) {
                Ok(found) => drop(contents.insert(name, (found, *mtime))),
                Err(problem) => drop(problems.insert(name.clone(), problem)),
            }
        }
        churn.reserve(contents.values().flat_map(|(found, _)| found.names()));
        // If two files have the same series, the first file of the alphabet gets it.
        for (name, (found, mtime)) in contents {
            match numbers.add(found, churn) {
                Ok(()) => {
                    write_mtime(mtime, self.folder.join(name).as_os_str().as_encoded_bytes(), &mut times)
                }
                Err(problem) => drop(problems.insert(name.clone(), problem)),
            }
        }
        let is_to_be_tried = churn.end() || is_to_be_tried;
        let (mut error, mut text) = (String::new(), String::new());
        write_error(!problems.is_empty() || beyond > 0, &mut error);
        numbers.into_families(kinds).iter().for_each(|family| write_family(family, &mut text));
        let text = [error.as_bytes(), &times, text.as_bytes()].concat();
        Latest { stamps: Vec::new(), beyond, is_to_be_tried, text, problems, folder_problem: None }
    }
}

/// What was read of all files.
#[derive(Default)]
struct FilesRead {
    /// The name of each file, its text, and when it was written, in seconds since 1970; first those that have room before others.
    texts: Vec<(OsString, String, u64)>,
    problems: BTreeMap<OsString, String>,
    is_to_be_tried: bool,
}

/// True if the name is not in the folder any more: a link to nowhere is.
fn has_gone(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// The text of a file and when it was written, in seconds since 1970.
fn read(path: &Path, room: u64) -> Result<(String, u64), Unread> {
    let refused = |error: std::io::Error| Unread {
        problem: format!("it cannot be read: {error}"),
        // That changes with the file's rights, which its stamp has.
        is_to_be_tried: error.kind() != ErrorKind::PermissionDenied,
    };
    let wrong = |problem: String| Unread { problem, is_to_be_tried: false };
    if let Some(kind) = kind_of(rustix::fs::CWD, path) {
        return Err(wrong(kind.to_owned()));
    }
    // A pipe without a writer must not wait.
    let file: File =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(refused)?;
    let found = file.metadata().map_err(refused)?;
    let longest = TEXT_FILE_BYTES_MAX.min(room);
    let mut bytes = Vec::new();
    file.take(longest + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > longest {
        return Err(wrong(format!(
            "a file may have {TEXT_FILE_BYTES_MAX} bytes, and all files together {TEXT_FILES_BYTES_MAX}"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        wrong(format!("byte {at} is not UTF-8"))
    })?;
    Ok((text, found.mtime().max(0).cast_unsigned()))
}

#[cfg(test)]
mod tests;
