//! Reads trees of small files as `khz_parse::tree` describes them: lists the folders of the instances, and reads a file for each
//! number. Each folder is a step of its own, since its driver may hang. Files are opened for each read: at one read in ten seconds
//! open files would save less than they hold.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use khz_model::{Nanos, ValueType};
use khz_parse::columns::{names_under, rest_at};
use khz_parse::tree::{Branch, Form, Part, Words, file_of, fits, numbers_of, place_of};
use khz_parse::{Entry, Group, KnownFiles, Subject};
use rustix::io::Errno;

use super::Answer;
use super::course::{Abandoned, Course};
use super::folder::{Folder, names};
use super::line::Line;
use crate::clock;

/// The most instances of one tree: each costs some files at each survey. The largest trees are those of processors: one with
/// 1,152 of them has an instance for each, and one for each of their two governors.
pub const TREE_INSTANCES_MAX: usize = 4_096;

/// A read of a file that may be slow ([`Form::ThousandsIfQuick`]) and takes longer than this is slow. Quick ones take some
/// microseconds; slow kernels sleep for 20 ms or 50 ms.
pub const TREE_SLOW_READ: Nanos = Nanos::from_millis(5);

/// After this number of slow reads one after the other, such files are not read again. A busy machine holds up some reads, too, but
/// not each.
pub const TREE_SLOW_READS_MAX: u32 = 8;

/// The lines of each folder.
type Lines = HashMap<String, Vec<Line>>;

/// What surveys of trees keep.
#[derive(Default)]
pub(super) struct Trees {
    /// The sources among which they are.
    known: KnownFiles,
    /// What each survey wrote last, for folders whose drivers are stuck now.
    latest: Mutex<HashMap<Subject, Lines>>,
    /// The number of slow reads of an entry, one after the other.
    slow: Mutex<HashMap<&'static str, u32>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is harmless: each map is whole at any time.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One survey of a tree: the text, and its lines by folder.
pub(super) struct Leaves {
    text: Vec<u8>,
    lines: Lines,
    instances: u64,
}

impl Leaves {
    pub fn new() -> Self {
        Leaves { text: Vec::new(), lines: HashMap::new(), instances: 0 }
    }

    /// Adds a line that was made in this step.
    pub fn add(&mut self, step: &str, line: Line) {
        line.write(&mut self.text);
        self.lines.entry(step.to_owned()).or_default().push(line);
    }

    /// The text; `None`: there is no instance.
    pub fn into_text(self) -> Option<Vec<u8>> {
        (!self.text.is_empty()).then_some(self.text)
    }

    /// False beyond the limit of instances; then one is counted as left out.
    pub fn has_room(&mut self, course: &mut Course<'_>) -> bool {
        let has_room = self.instances < TREE_INSTANCES_MAX as u64;
        self.instances += u64::from(has_room);
        course.left_out += u64::from(!has_room);
        has_room
    }
}

impl Trees {
    /// Those that are among these sources.
    pub fn of(known: KnownFiles) -> Self {
        Trees { known, ..Trees::default() }
    }

    /// Makes the text of the tree with this name.
    pub fn survey(&self, course: &mut Course<'_>, root: &Path, name: &str) -> Result<Answer, Abandoned> {
        let Some(file) = self.known.named(name) else { return Ok(Err(Errno::NOENT)) };
        let (mut leaves, mut problem) = (Leaves::new(), Errno::NOENT);
        for groups in file.groups.chunk_by(|a, b| a.line_kind() == b.line_kind()) {
            let Some(branch) = groups[0].branch else { continue };
            if !course.begin(b"")? {
                return Ok(Err(Errno::TIMEDOUT));
            }
            match folders(root, branch.folders) {
                Ok(found) => self.groups(course, root, (groups, &branch), &found, &mut leaves)?,
                Err(errno) if errno != Errno::NOENT => problem = errno,
                Err(_) => {}
            }
        }
        Ok(self.finish(course.subject(), leaves).ok_or(problem))
    }

    /// Ends a survey: its lines are kept. `None`: there is no instance.
    pub fn finish(&self, subject: Subject, leaves: Leaves) -> Option<Vec<u8>> {
        lock(&self.latest).insert(subject, leaves.lines);
        // A folder is there without a device, too.
        (!leaves.text.is_empty()).then_some(leaves.text)
    }

    /// Begins the step of a folder. `false`: another thread is stuck in it; its lines say so.
    pub fn begin(&self, course: &mut Course<'_>, step: &str, leaves: &mut Leaves) -> Result<bool, Abandoned> {
        if course.begin(step.as_bytes())? {
            return Ok(true);
        }
        let mut latest = lock(&self.latest);
        if let Some(lines) = latest.get_mut(&course.subject()).and_then(|latest| latest.remove(step)) {
            lines.iter().for_each(|line| line.write_stuck(&mut leaves.text));
            leaves.lines.insert(step.to_owned(), lines);
        }
        Ok(false)
    }

    fn groups(
        &self,
        course: &mut Course<'_>,
        root: &Path,
        (groups, branch): (&[Group], &Branch),
        found: &[Found],
        leaves: &mut Leaves,
    ) -> Result<(), Abandoned> {
        let mut before = 0;
        for place in found {
            // A folder may be one of several kinds, which are stuck each for itself.
            let step = place.path.clone();
            if !self.begin(course, &step, leaves)? {
                continue;
            }
            let Ok(mut folder) = Folder::open(&root.join(&place.path)) else { continue };
            let mut index = None;
            if let Some((file, word)) = branch.only {
                match folder.value(file).ok().and_then(|value| numbered(value, word)) {
                    None => continue,
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
                    found.into_iter().map(|(_, word)| word.into_bytes()).collect()
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
            for word in words {
                if leaves.has_room(course) {
                    let line = self.line(groups, branch, place, index, &word, &mut folder);
                    leaves.add(&step, line);
                }
            }
        }
        Ok(())
    }

    fn line(
        &self,
        groups: &[Group],
        branch: &Branch,
        place: &Found,
        index: Option<u64>,
        word: &[u8],
        folder: &mut Folder,
    ) -> Line {
        if groups[0].is_whole() {
            return self.filled(Line::without_instance(), groups, word, folder);
        }
        let mut parts = branch
            .name
            .iter()
            .map(|part| part_of(*part, place, index, word, folder))
            .collect::<Vec<_>>()
            .into_iter();
        let name = parts.next().unwrap_or_default();
        let labels: Vec<(&str, Vec<u8>)> = groups[0].instance_labels.iter().copied().zip(parts).collect();
        let labels = labels.iter().map(|(label, value)| (*label, value.as_slice()));
        self.filled(Line::new(groups[0].line_kind(), &name, labels), groups, word, folder)
    }

    /// The line with its numbers and its description.
    fn filled(&self, mut line: Line, groups: &[Group], word: &[u8], folder: &mut Folder) -> Line {
        for entry in groups.iter().flat_map(|group| group.entries) {
            if entry.value_type == ValueType::Labels {
                line.description(folder, entry);
            } else {
                self.number(&mut line, folder, entry, word);
            }
        }
        line
    }

    fn number(&self, line: &mut Line, folder: &mut Folder, entry: &'static Entry, word: &[u8]) {
        let file = file_of(entry.field, word);
        let is_one_of = |values: &[&str], value: &[u8]| values.iter().any(|known| known.as_bytes() == value);
        match entry.form {
            Form::ThousandsIfQuick => {}
            Form::CountOf([]) => return line.count(folder, &file, entry, |_| true),
            Form::CountOf(values) => {
                return line.count(folder, &file, entry, |value| is_one_of(values, value));
            }
            Form::CountOfOthers(values) => {
                return line.count(folder, &file, entry, |value| !is_one_of(values, value));
            }
            Form::Copies => return line.copies(folder, &file, entry),
            _ => {
                return match place_of(entry) {
                    Some((file, place)) => line.number_at(folder, (&file_of(file, word), place), entry, word),
                    None => line.number(folder, &file, entry, word),
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

fn part_of(part: Part, place: &Found, index: Option<u64>, word: &[u8], folder: &mut Folder) -> Vec<u8> {
    let captured =
        |number: usize| place.captured.get(number).map_or_else(Vec::new, |text| text.as_bytes().to_vec());
    match part {
        Part::Captured(number) => captured(number),
        Part::Named(number) => place.named.get(number).map_or_else(Vec::new, |text| text.as_bytes().to_vec()),
        Part::Value(file) => folder.value(&file_of(file, word)).unwrap_or_default().to_vec(),
        Part::Line(file, line, skipped) => folder
            .text(&file_of(file, word))
            .map_or_else(|_| Vec::new(), |text| rest_at(text, line, skipped).to_vec()),
        Part::ValueOr(file, number) => match folder.value(file) {
            Ok(value) if !value.is_empty() => value.to_vec(),
            _ => captured(number),
        },
        Part::Edited(file, edits, otherwise) => match folder.value(&file_of(file, word)) {
            Ok(value) => {
                let value = String::from_utf8_lossy(value).into_owned();
                edits.iter().fold(value, |value, (from, to)| value.replace(from, to)).into_bytes()
            }
            Err(_) => otherwise.as_bytes().to_vec(),
        },
        Part::Word => word.to_vec(),
        Part::Path => format!("/{}", place.path).into_bytes(),
        Part::Index => index.unwrap_or(0).to_string().into_bytes(),
    }
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

/// A folder, and what the wildcards stand for.
#[derive(Clone, Debug, Default)]
struct Found {
    /// Below the root.
    path: String,
    captured: Vec<String>,
    named: Vec<String>,
}

/// The folders of this pattern below the root, in the order of their names. The first with a wildcard must be there.
fn folders(root: &Path, pattern: &str) -> Result<Vec<Found>, Errno> {
    let mut found = vec![Found::default()];
    let mut is_first = true;
    for part in pattern.split('/') {
        if !part.contains(['*', '#']) {
            found.iter_mut().for_each(|place| place.path = joined(&place.path, part));
            continue;
        }
        let mut below = Vec::new();
        for place in &found {
            let names = match names(&root.join(&place.path)) {
                Ok(names) => names,
                Err(errno) if is_first => return Err(errno),
                Err(_) => continue,
            };
            for name in &names {
                let mut captured = Vec::new();
                if fits(part, name, &mut captured) {
                    let mut place = place.clone();
                    place.path = joined(&place.path, name);
                    place.captured.extend(captured.into_iter().map(str::to_owned));
                    place.named.push(name.clone());
                    below.push(place);
                }
            }
        }
        (found, is_first) = (below, false);
    }
    Ok(found)
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

#[cfg(test)]
mod tests;
