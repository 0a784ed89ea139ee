//! Files of numbers that programs leave for node_exporter (`*.prom` in one folder): reads them, and leaves out a file with an error,
//! whole, as node_exporter does. Each file is a step of its own, since it may be a link to a file server that is gone. What a name
//! becomes in khz is decided in `khz_parse::textfile`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use khz_model::Instance;
use khz_model::exposed::is_of_rows;
use khz_model::instance::kernel_text;
use khz_model::metric::Text;
use khz_parse::exposition::{Family, Kind, families};
use khz_parse::textfile::{metric_name, series, write_error, write_family, write_mtime};
use rustix::io::Errno;

use super::Answer;
use super::churn::{Churn, Crowded, Room, TEXT_FILE_NAMES_MAX};
use super::course::{Abandoned, Course};
use super::folder::{kind_of, names, shown};
use crate::clock;

/// The most files that are read. A program that writes such files has one of them.
pub const TEXT_FILES_MAX: usize = 256;
/// A longer file is left out. Its largest honest user lists each attribute of each disk: 100 bytes a number.
pub const TEXT_FILE_BYTES_MAX: u64 = 2 << 20;
/// The most numbers of all files. A file that goes beyond is left out.
pub const TEXT_FILE_SERIES_MAX: usize = 8_192;
/// The most bytes of all files that are read in one survey.
pub const TEXT_FILES_BYTES_MAX: u64 = 8 << 20;

/// The most files of which one sentence says why they are left out: `khz check` shows it.
const PROBLEMS_SHOWN: usize = 16;

/// What the names of files may not begin with: khz's own numbers and those of jobs are called so.
const OURS: &str = "khz_";

/// Names that the program has itself. Most machines have no such files, and never ask.
static TAKEN: LazyLock<HashSet<Text>> =
    LazyLock::new(|| crate::catalogue().iter().map(|metric| metric.exposition.name.clone()).collect());

/// The folder, and what is known of its files.
pub(super) struct TextFiles {
    folder: PathBuf,
    state: Mutex<(Latest, Churn)>,
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
}

/// What tells a file from what it was before: its number, its size, when it was written, and when its rights were changed. `None`: the
/// file system does not say.
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
    pub fn new(root: &Path, folder: &Path) -> Self {
        let folder = root.join(folder.strip_prefix("/").unwrap_or(folder));
        TextFiles {
            folder,
            state: Mutex::new((Latest::default(), Churn::new(Room::OF_TEXT_FILES, clock::boot()))),
        }
    }

    /// Makes the text.
    pub fn survey(&self, course: &mut Course<'_>) -> Result<Answer, Abandoned> {
        if !course.begin(b"")? {
            return Ok(Err(Errno::TIMEDOUT));
        }
        let mut files = match names(&self.folder) {
            Ok(files) => files,
            Err(errno) => {
                course.note_refused(&self.folder, errno);
                return Ok(Err(errno));
            }
        };
        files.retain(|name| name.as_encoded_bytes().ends_with(b".prom"));
        let beyond = files.len().saturating_sub(TEXT_FILES_MAX);
        course.left_out += beyond as u64;
        files.truncate(TEXT_FILES_MAX);
        let stamps = self.stamps(course, files)?;
        let is_same = {
            let latest = &self.state().0;
            let is_same = latest.stamps == stamps && latest.beyond == beyond && !latest.is_to_be_tried;
            is_same && !latest.text.is_empty()
        };
        if !is_same {
            // Nothing is held while files are read: another thread takes the place of one that is stuck.
            let read = self.read_all(course, &stamps)?;
            let mut state = self.state();
            let (latest, churn) = &mut *state;
            let found = self.made_of(read, beyond, churn);
            self.report(latest, &found);
            *latest = Latest { stamps, ..found };
        }
        let state = self.state();
        if let Some(problem) = self.problem(&state.0) {
            course.note_of_all(problem);
        }
        Ok(Ok(state.0.text.clone()))
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

    fn state(&self) -> MutexGuard<'_, (Latest, Churn)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files of these names as they are now, without those that have gone.
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

    /// Reads the files.
    fn read_all(
        &self,
        course: &mut Course<'_>,
        stamps: &[(OsString, Stamp)],
    ) -> Result<FilesRead, Abandoned> {
        let (mut found, mut room) = (FilesRead::default(), TEXT_FILES_BYTES_MAX);
        for (name, _) in stamps {
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
    fn made_of(&self, read: FilesRead, beyond: usize, churn: &mut Churn) -> Latest {
        let FilesRead { texts, mut problems, is_to_be_tried } = read;
        let (mut times, mut numbers) = (Vec::new(), Numbers::default());
        churn.begin(clock::boot());
        for (name, text, mtime) in &texts {
            match numbers.add(&kernel_text(name.as_encoded_bytes()), text, churn) {
                Ok(()) => {
                    write_mtime(*mtime, self.folder.join(name).as_os_str().as_encoded_bytes(), &mut times)
                }
                Err(problem) => drop(problems.insert(name.clone(), problem)),
            }
        }
        let is_to_be_tried = churn.end() || is_to_be_tried;
        let (mut error, mut text) = (String::new(), String::new());
        write_error(!problems.is_empty() || beyond > 0, &mut error);
        numbers.families.iter().for_each(|family| write_family(family, &mut text));
        let text = [error.as_bytes(), &times, text.as_bytes()].concat();
        Latest { stamps: Vec::new(), beyond, is_to_be_tried, text, problems }
    }
}

/// What was read of all files.
#[derive(Default)]
struct FilesRead {
    /// The name of each file, its text, and when it was written, in seconds since 1970.
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

/// The numbers of several files.
#[derive(Default)]
struct Numbers<'a> {
    families: Vec<Family<'a>>,
    /// The place of each family by its name in khz, so that two names do not become one.
    places: HashMap<String, usize>,
    /// What is there already.
    seen: HashSet<(usize, Option<Instance>)>,
}

impl<'a> Numbers<'a> {
    /// Adds the numbers of a file, or none of them.
    fn add(&mut self, file: &str, text: &'a str, churn: &mut Churn) -> Result<(), String> {
        let found = families(text).map_err(|error| error.to_string())?;
        let count: usize = found.iter().map(|family| family.samples.len()).sum();
        if self.seen.len() + count > TEXT_FILE_SERIES_MAX {
            return Err(format!(
                "with it there would be more than {TEXT_FILE_SERIES_MAX} numbers in such files"
            ));
        }
        let (mut new_places, mut new) = (HashMap::new(), HashSet::new());
        let (mut places, mut names) = (Vec::with_capacity(found.len()), Vec::with_capacity(count + 1));
        // When it was written is a series, too.
        names.push(churn.series(("", file), file.len()));
        for family in &found {
            let metric = self.free_name(family)?;
            names.push(churn.metric(family.name));
            let next = self.families.len() + new_places.len();
            let place = self.places.get(&metric).copied().unwrap_or(next);
            places.push(place);
            if place == next && new_places.insert(metric, place).is_some() {
                return Err(format!(
                    "{}: khz has small letters only, and so another name is the same",
                    family.name
                ));
            }
            for sample in &family.samples {
                if family.kind == Kind::Counter && sample.value < 0.0 {
                    return Err(format!(
                        "line {}: {} is a counter, and below zero",
                        sample.line, family.name
                    ));
                }
                let series =
                    series(family, sample).map_err(|error| format!("line {}: {error}", sample.line))?;
                let instance = series.instance.as_ref();
                names.push(churn.series((family.name, instance), instance.map_or(0, Instance::bytes)));
                let one = (place, series.instance);
                if self.seen.contains(&one) || !new.insert(one) {
                    return Err(format!(
                        "line {}: {} has been there with these labels",
                        sample.line, family.name
                    ));
                }
            }
        }
        churn.take(names).map_err(crowded)?;
        for (family, place) in found.into_iter().zip(places) {
            match self.families.get_mut(place) {
                Some(known) => known.samples.extend(family.samples),
                None => self.families.push(helped(family, file)),
            }
        }
        self.places.extend(new_places);
        self.seen.extend(new);
        Ok(())
    }

    /// The name of a family in khz, if nothing else has it.
    fn free_name(&self, family: &Family<'_>) -> Result<String, String> {
        let name = family.name;
        if name.starts_with(OURS) || is_of_rows(name) || TAKEN.contains(name) {
            return Err(format!("khz has numbers called {name} itself"));
        }
        let metric = metric_name(name).map_err(|error| error.to_string())?;
        match self.places.get(&metric).and_then(|&place| self.families.get(place)) {
            Some(other) if other.name != name => Err(format!(
                "{name}: khz has small letters only, and {} of another file is the same then",
                other.name
            )),
            Some(other) if other.kind != family.kind => {
                Err(format!("{name}: another file gives it another type"))
            }
            _ => Ok(metric),
        }
    }
}

/// Why names have no room, in words.
fn crowded(why: Crowded) -> String {
    match why {
        Crowded::TooMany => format!(
            "with it the names and labels of the numbers in such files would have more than {TEXT_FILE_NAMES_MAX} bytes"
        ),
        Crowded::TooOften => format!(
            "its labels change too often: files may bring {TEXT_FILE_SERIES_MAX} new series and {TEXT_FILE_NAMES_MAX} bytes of names in 5 minutes"
        ),
    }
}

/// The family, which says where it is from if it says nothing of itself.
fn helped<'a>(family: Family<'a>, file: &str) -> Family<'a> {
    if family.help.is_empty() {
        Family { help: format!("A number of {file}.").into(), ..family }
    } else {
        family
    }
}

#[cfg(test)]
mod tests;
