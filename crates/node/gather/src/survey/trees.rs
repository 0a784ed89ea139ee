//! Reads trees of small files as `khz_parse::tree` describes them: lists the folders of the instances, and reads a file for each
//! number. Each folder is a step of its own, since its driver may hang; so is each list of folders. Files are opened for each read: at
//! one read in ten seconds open files would save less than they hold.

mod found;
mod leaves;

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use khz_model::{Nanos, ValueType};
use khz_parse::columns::names_under;
use khz_parse::own_source::is_own;
use khz_parse::tree::{Branch, Form, Words, file_of, numbers_of, place_of};
use khz_parse::{Entry, Group, KernelFile, KnownFiles, Subject};
use rustix::io::Errno;

use super::Answer;
use super::churn::{Churn, Room};
use super::course::{Abandoned, Course};
use super::folder::{Folder, joined, names, shown};
use super::limited::Shown;
use super::line::Line;
use super::threads::{Step, Turn};
use crate::clock;
use found::{Found, Head, Unread};
pub(super) use leaves::Leaves;
use leaves::Lines;

/// The most instances of one tree: each costs some files at each survey. The largest trees are those of processors: a host
/// with 1,152 processors has an instance for each, and one for each of its two governors.
pub const TREE_INSTANCES_MAX: usize = 4_096;

/// A read of a file that may be slow ([`Form::ThousandsIfQuick`]) and takes longer than this is slow. Quick ones take some
/// microseconds; slow kernels sleep for 20 ms or 50 ms.
pub const TREE_SLOW_READ: Nanos = Nanos::from_millis(5);

/// After this number of slow reads one after the other, such files are not read again. A busy machine holds up some reads, too, but
/// not each.
pub const TREE_SLOW_READS_MAX: u32 = 8;

/// What surveys of trees keep.
#[derive(Default)]
pub(super) struct Trees {
    /// The sources among which they are.
    known: KnownFiles,
    /// What each step of a survey wrote last, for folders whose drivers are slow or stuck now.
    latest: Mutex<HashMap<Subject, Lines>>,
    /// The beginning of the line, and the word of the instance, for a folder that is being read and has no line yet. If its driver
    /// hangs, they name the instance.
    heads: Mutex<HashMap<(Subject, Vec<u8>), Head>>,
    /// The instances that the latest survey of each has shown.
    shown: Mutex<HashMap<Subject, Shown>>,
    /// How many new instances the trees of a configuration may bring.
    churns: Mutex<HashMap<Subject, Arc<Mutex<Churn>>>>,
    /// The number of slow reads of an entry, one after the other.
    slow: Mutex<HashMap<&'static str, u32>>,
}

/// What becomes of a folder in a survey.
pub(super) enum Begun {
    /// It is read in this step.
    Read(Step),
    /// Its lines are in the text.
    Known,
    /// It is stuck in this step, and has no line.
    Unknown(Step),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is harmless: each map is whole at any time.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Trees {
    /// Those that are among these sources.
    pub fn of(known: KnownFiles) -> Self {
        Trees { known, ..Trees::default() }
    }

    /// Makes the text of the tree with this name.
    pub fn survey(&self, course: &mut Course<'_>, root: &Path, name: &str) -> Result<Answer, Abandoned> {
        let Some(file) = self.known.named(name) else { return Ok(Err(Errno::NOENT)) };
        let mut leaves = self.leaves(course.subject(), self.churn_of(file, course.subject()));
        let mut problem = Errno::NOENT;
        for groups in file.groups.chunk_by(|a, b| a.line_kind() == b.line_kind()) {
            let Some(branch) = groups[0].branch else { continue };
            match self.folders(course, root, branch.folders, &mut leaves)? {
                Ok(found) => {
                    let refused = self.groups(course, root, (groups, &branch), &found, &mut leaves)?;
                    problem = refused.unwrap_or(problem);
                }
                Err(Errno::NOENT) => {}
                Err(errno) => problem = errno,
            }
        }
        Ok(self.finish(course, leaves)?.ok_or(problem))
    }

    /// The text of a survey of this subject, before its first line.
    pub fn begun(&self, subject: Subject) -> Leaves {
        self.leaves(subject, None)
    }

    fn leaves(&self, subject: Subject, churn: Option<Arc<Mutex<Churn>>>) -> Leaves {
        let seats = lock(&self.shown).entry(subject).or_default().seats(TREE_INSTANCES_MAX);
        Leaves::new(seats, churn)
    }

    /// The limit of new names of a source that a configuration describes.
    fn churn_of(&self, file: &KernelFile, subject: Subject) -> Option<Arc<Mutex<Churn>>> {
        if !is_own(file) {
            return None;
        }
        let new = || Arc::new(Mutex::new(Churn::new(Room::OF_OWN_SOURCE, clock::boot())));
        Some(lock(&self.churns).entry(subject).or_insert_with(new).clone())
    }

    /// The folders of this pattern below the root, in the order of their names. The first with a wildcard must be there. Each list of
    /// names is its own step; if it does not answer, everything below it is stuck.
    fn folders(
        &self,
        course: &mut Course<'_>,
        root: &Path,
        pattern: &str,
        leaves: &mut Leaves,
    ) -> Result<Result<Vec<Found>, Errno>, Abandoned> {
        let mut found = vec![Found::default()];
        let (mut is_first, mut refused) = (true, None);
        for part in pattern.split('/') {
            if !part.contains(['*', '#']) {
                found.iter_mut().for_each(|place| place.path = joined(&place.path, part.as_bytes()));
                continue;
            }
            let mut below = Vec::new();
            for place in &found {
                let folder = place.below(root);
                // What is in the folder, and its names, are stuck each for itself.
                if !course.begin(&[&place.path[..], b"/"].concat())? {
                    self.stuck_below(course.subject(), &place.path, leaves);
                    if is_first {
                        return Ok(Err(Errno::TIMEDOUT));
                    }
                    continue;
                }
                course.whereabouts().reads(&folder, b"");
                match names(&folder) {
                    Ok(names) => {
                        below.extend(names.iter().filter_map(|name| place.deeper(part, name.as_bytes())));
                    }
                    // It is not there, or is no folder.
                    Err(errno) if is_missing(errno) && is_first => return Ok(Err(errno)),
                    Err(errno) if is_missing(errno) => {}
                    Err(errno) => {
                        let shown = shown(&folder);
                        let why = std::io::Error::from(errno);
                        course.note(|| Some(format!("{shown}: the folder cannot be read: {why}")));
                        refused = Some(errno);
                    }
                }
            }
            (found, is_first) = (below, false);
        }
        // If a folder cannot be listed, nobody knows whether it has entries.
        Ok(match refused {
            Some(errno) if found.is_empty() => Err(errno),
            _ => Ok(found),
        })
    }

    /// Writes the lines of the latest survey that are below a folder, as stuck.
    fn stuck_below(&self, subject: Subject, folder: &[u8], leaves: &mut Leaves) {
        let latest = lock(&self.latest);
        let is_below = |item: &[u8]| item.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"/"));
        for (step, lines) in latest.get(&subject).into_iter().flatten() {
            if is_below(&step.0) && !leaves.steps.contains(step) {
                leaves.add_known(step, lines, true);
            }
        }
    }

    /// Ends a survey. `None`: there is no instance.
    pub fn finish(&self, course: &mut Course<'_>, mut leaves: Leaves) -> Result<Option<Vec<u8>>, Abandoned> {
        course.close()?;
        leaves.end(course);
        if let Some(latest) = lock(&self.latest).get_mut(&course.subject()) {
            latest.retain(|step, _| leaves.steps.contains(step));
        }
        if leaves.text.is_empty() && leaves.is_waiting {
            // Whether there is an instance is not known yet.
            return Err(Abandoned);
        }
        let text = std::mem::take(&mut leaves.text);
        lock(&self.shown).entry(course.subject()).or_default().note(leaves.into_seats());
        // A folder is there without a device, too.
        Ok((!text.is_empty()).then_some(text))
    }

    /// Begins the step of a folder. If the folder is not read now, its known line goes into the
    /// text.
    pub fn begin(
        &self,
        course: &mut Course<'_>,
        folder: &[u8],
        leaves: &mut Leaves,
    ) -> Result<Begun, Abandoned> {
        let (turn, number) = course.begin_apart(folder)?;
        let step = (folder.to_owned(), number);
        if turn == Turn::Take {
            return Ok(Begun::Read(step));
        }
        // They stay where they are: this survey may be given up, too, and another one needs them.
        if let Some(lines) = lock(&self.latest).get(&course.subject()).and_then(|latest| latest.get(&step)) {
            leaves.add_known(&step, lines, turn == Turn::Leave);
        }
        let is_unknown = turn == Turn::Leave && !leaves.has(folder);
        leaves.is_waiting |= turn != Turn::Leave && !leaves.steps.contains(&step);
        Ok(if is_unknown { Begun::Unknown(step) } else { Begun::Known })
    }

    /// Ends the step: its lines are kept.
    pub fn end(&self, course: &Course<'_>, step: Step, leaves: &mut Leaves) {
        lock(&self.heads).remove(&(course.subject(), step.0.clone()));
        self.keep(course.subject(), step, leaves);
    }

    fn keep(&self, subject: Subject, step: Step, leaves: &mut Leaves) {
        let lines = std::mem::take(&mut leaves.lines);
        let mut latest = lock(&self.latest);
        let latest = latest.entry(subject).or_default();
        if lines.is_empty() {
            latest.remove(&step);
        } else {
            leaves.steps.insert(step.clone());
            latest.insert(step, lines);
        }
    }

    /// Adds the lines of these folders. Returns why a folder could not be opened.
    fn groups(
        &self,
        course: &mut Course<'_>,
        root: &Path,
        (groups, branch): (&[Group], &Branch),
        found: &[Found],
        leaves: &mut Leaves,
    ) -> Result<Option<Errno>, Abandoned> {
        let (mut before, mut refused) = (0, None);
        for place in found {
            // A folder may be one of several kinds, which are stuck each for itself.
            let step = match self.begin(course, &place.path, leaves)? {
                Begun::Read(step) => step,
                Begun::Known => continue,
                Begun::Unknown(step) => {
                    let head = lock(&self.heads).get(&(course.subject(), step.0.clone())).cloned();
                    let why = Unread::Stuck(&course.stuck_file(&step.0), head);
                    if let Some(line) = place.unread(root, groups, branch, why)
                        && leaves.takes(line.begin())
                    {
                        leaves.add(line);
                        self.keep(course.subject(), step, leaves);
                    }
                    continue;
                }
            };
            let mut folder = match Folder::open(&place.below(root), course.whereabouts()) {
                Ok(folder) => folder,
                // It is no folder, or has gone since it was listed.
                Err(errno) if is_missing(errno) => {
                    self.end(course, step, leaves);
                    continue;
                }
                Err(errno) => {
                    course.note_refused(&place.below(root), errno);
                    refused = Some(errno);
                    if let Some(line) = place.unread(root, groups, branch, Unread::Folder)
                        && leaves.takes(line.begin())
                    {
                        leaves.add(line);
                    }
                    self.end(course, step, leaves);
                    continue;
                }
            };
            let mut index = None;
            if let Some((file, word)) = branch.only {
                match folder.value(file).ok().and_then(|value| numbered(value, word)) {
                    None => {
                        self.end(course, step, leaves);
                        continue;
                    }
                    Some(number) => index = Some(number.unwrap_or(before)),
                }
                before = index.map_or(0, |index| index + 1);
            }
            let words = match branch.words {
                Words::None => vec![Vec::new()],
                // One more than there is room for, so that it is counted as left out.
                Words::Ranges(file) => {
                    numbers_of(folder.value(file).unwrap_or_default()).take(TREE_INSTANCES_MAX + 1).collect()
                }
                Words::Lines(file, heading) => {
                    let names = folder.text(file).map(|text| names_under(text, heading)).unwrap_or_default();
                    names.into_iter().take(TREE_INSTANCES_MAX + 1).map(<[u8]>::to_vec).collect()
                }
                Words::Files(pattern) => {
                    let found = folder.matches(pattern).unwrap_or_default();
                    found.into_iter().map(|(_, word)| word).collect()
                }
                Words::Of(file) => {
                    let value = folder.value(file).unwrap_or_default();
                    value
                        .split(u8::is_ascii_whitespace)
                        .filter(|w| !w.is_empty())
                        .map(<[u8]>::to_vec)
                        .collect()
                }
            };
            let is_new =
                lock(&self.latest).get(&course.subject()).is_none_or(|known| !known.contains_key(&step));
            for word in words {
                let head = place.head(&groups[0], branch, index, &word, &mut folder);
                if !leaves.takes(head.begin()) {
                    continue;
                }
                if is_new {
                    let key = (course.subject(), step.0.clone());
                    lock(&self.heads).insert(key, (head.clone(), word.clone()));
                }
                leaves.add(self.filled(head, groups, &word, &mut folder));
            }
            self.end(course, step, leaves);
            course.note(|| folder.problem());
        }
        Ok(refused)
    }

    /// The line with its numbers and its description.
    fn filled(&self, mut line: Line, groups: &[Group], word: &[u8], folder: &mut Folder<'_>) -> Line {
        for entry in groups.iter().flat_map(|group| group.entries) {
            if entry.value_type == ValueType::Labels {
                line.description(folder, entry);
            } else {
                self.number(&mut line, folder, entry, word);
            }
        }
        line
    }

    fn number(&self, line: &mut Line, folder: &mut Folder<'_>, entry: &'static Entry, word: &[u8]) {
        let pattern = || String::from_utf8_lossy(&file_of(entry.field, word)).into_owned();
        let is_one_of = |values: &[&str], value: &[u8]| values.iter().any(|known| known.as_bytes() == value);
        match entry.form {
            Form::ThousandsIfQuick => {}
            Form::CountOf([]) => return line.count(folder, &pattern(), entry, |_| true),
            Form::CountOf(values) => {
                return line.count(folder, &pattern(), entry, |value| is_one_of(values, value));
            }
            Form::CountOfOthers(values) => {
                return line.count(folder, &pattern(), entry, |value| !is_one_of(values, value));
            }
            Form::Copies => return line.copies(folder, &pattern(), entry),
            _ => {
                return match place_of(entry) {
                    Some((file, place)) => line.number_at(folder, (&file_of(file, word), place), entry, word),
                    None => line.number(folder, file_of(entry.field, word), entry, word),
                };
            }
        }
        if lock(&self.slow).get(entry.name).is_some_and(|slow| *slow >= TREE_SLOW_READS_MAX) {
            return;
        }
        let begun = clock::boot();
        line.number(folder, entry.field, entry, word);
        self.took(entry.name, clock::boot().since(begun));
    }

    /// Notes how long a read of such an entry took.
    fn took(&self, entry: &'static str, took: Nanos) {
        let mut slow = lock(&self.slow);
        let count = slow.entry(entry).or_default();
        *count = if took > TREE_SLOW_READ { *count + 1 } else { 0 };
        if *count == TREE_SLOW_READS_MAX {
            tracing::info!("{entry} takes the kernel long to say; it is left out from now on");
        }
    }
}

/// True if the path does not exist, or is no folder.
fn is_missing(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::NODEV)
}

/// `Some` if a value is the word, or the word, `-` and a number; that number, if there is one. A word that ends with `-` is a
/// beginning.
fn numbered(value: &[u8], word: &str) -> Option<Option<u64>> {
    let rest = value.strip_prefix(word.as_bytes())?;
    if rest.is_empty() || word.ends_with('-') {
        return Some(None);
    }
    Some(Some(khz_parse::number::digits(rest.strip_prefix(b"-")?).ok()?))
}

#[cfg(test)]
mod tests;
