//! Reads the control groups: walks the tree of folders when something in it has changed, and reads the files of each group that has
//! tasks. The kernel answers from memory, so all groups are one step. The names of groups are in files of runtimes, which may be on a
//! file server that is gone, so each name is its own step.

mod names;
mod watch;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use khz_model::instance::{kernel_bytes, kernel_text, shortened};
use khz_parse::control_groups::{GroupFile, group_files};
use khz_parse::survey::{UNREADABLE, describe, escape, no_number};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{Errno, read};

use super::Answer;
use super::course::{Abandoned, Course};
use super::threads::Turn;
use names::{Named, Names};
use watch::Watch;

/// The most groups that are read: each costs twelve files. A node of Kubernetes has some hundred, one of Slurm some ten.
pub const CONTROL_GROUPS_MAX: usize = 2_048;

/// Deeper groups are left out, and the groups one level deeper are counted: they belong to a container, or to a user's own manager.
pub const CONTROL_GROUPS_DEPTH_MAX: usize = 12;

/// The longest file of a group that is read; `io.stat` has a line for each disk.
pub const CONTROL_GROUP_FILE_BYTES_MAX: usize = 256 << 10;

/// At this number of surveys khz looks again for a name that it has not found: runtimes write names down shortly after they make the
/// group.
const NAME_TRIES: u32 = 30;

/// What is kept from one survey to the next.
pub(super) struct ControlGroups {
    /// The names that paths say, and those that files say.
    names_of_paths: Names,
    names: Names,
    files: Vec<GroupFile>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watch: Watch,
    /// The folders of the last walk, in the order of their names.
    groups: Vec<Group>,
    left_out: u64,
}

/// A group that has tasks.
#[derive(Clone)]
struct Group {
    /// Its folder below that of all groups.
    folder: PathBuf,
    /// The same as text.
    path: String,
    named: Named,
    tries: u32,
}

impl ControlGroups {
    pub fn new(root: &Path) -> Self {
        let (names_of_paths, names) = (Names::of_paths(), Names::new(root));
        ControlGroups { names_of_paths, names, files: group_files(), state: Mutex::default() }
    }

    /// Makes the text.
    pub fn survey(&self, course: &mut Course<'_>, root: &Path) -> Result<Answer, Abandoned> {
        if !course.begin(b"")? {
            return Ok(Err(Errno::TIMEDOUT));
        }
        let Some(top) = control_groups_folder(root) else { return Ok(Err(Errno::NOENT)) };
        for (folder, path) in self.unnamed(&top) {
            let (turn, _) = course.begin_apart(path.as_bytes())?;
            // Nothing is held while a file is read.
            if turn == Turn::Take
                && let Some(named) = self.names.of(&top, &path)
            {
                self.name(&folder, named);
            }
        }
        if !course.begin(b"")? {
            return Ok(Err(Errno::TIMEDOUT));
        }
        let state = self.state();
        course.left_out = state.left_out;
        if state.left_out > 0 {
            course.note_left_out(what_is_left_out(state.left_out));
        }
        let (mut text, mut room, mut told) = (Vec::new(), Vec::new(), HashSet::new());
        let mut claims: HashMap<&str, usize> = HashMap::new();
        for id in state.groups.iter().filter_map(|group| group.named.claim()) {
            *claims.entry(id).or_default() += 1;
        }
        // A path is the group's own, whatever others would be called.
        let paths: HashSet<&str> = state.groups.iter().map(|group| &*group.path).collect();
        for group in &state.groups {
            let folder = open(
                top.join(&group.folder),
                OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            );
            // It is gone since the walk.
            let Ok(folder) = folder else { continue };
            // A runtime makes one group for each container. If two groups claim one container, nobody knows
            // which is right.
            let is_disputed = group.named.claim().is_some_and(|id| claims.get(id).is_some_and(|n| *n > 1));
            // Two containers may have one name while the old one ends.
            let names = [&group.named.name, &group.named.by_id, &group.path];
            let is_free = |name: &&&String| {
                !is_disputed && !name.is_empty() && !told.contains(**name) && !paths.contains(name.as_str())
            };
            let name = names.iter().find(is_free).copied().unwrap_or(&group.path);
            told.insert(name);
            self.line(&folder, group, name, &mut text, &mut room);
        }
        text.extend(format!("* count={}\n", told.len()).bytes());
        Ok(Ok(text))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is harmless: the next walk makes another list.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the groups again if something has changed. Returns those whose names are not known, and are to be asked for.
    fn unnamed(&self, top: &Path) -> Vec<(PathBuf, String)> {
        let mut state = self.state();
        if state.watch.has_news() {
            self.walk(&mut state, top);
        }
        let is_unnamed = |group: &&mut Group| !group.named.is_resolved && group.tries < NAME_TRIES;
        let unnamed = state.groups.iter_mut().filter(is_unnamed);
        let ask = |group: &mut Group| {
            group.tries += 1;
            (group.folder.clone(), group.path.clone())
        };
        unnamed.map(ask).collect()
    }

    /// A group is called so from now on.
    fn name(&self, folder: &Path, named: Named) {
        if let Some(group) = self.state().groups.iter_mut().find(|group| group.folder == folder) {
            group.named = named;
        }
    }

    /// Lists all groups that have tasks.
    fn walk(&self, state: &mut State, top: &Path) {
        let State { watch, groups, left_out } = state;
        let before: HashMap<PathBuf, Group> =
            std::mem::take(groups).into_iter().map(|g| (g.folder.clone(), g)).collect();
        watch.begin();
        watch.folder(top);
        *left_out = 0;
        // Groups that had a place keep it. Which of these groups still exist is known at the end of
        // the walk.
        let mut old: Vec<(u64, Group)> = Vec::new();
        let mut new = Vec::new();
        let mut folders = below(top, Path::new(""));
        while let Some(folder) = folders.pop() {
            let whole = top.join(&folder);
            watch.folder(&whole);
            if !is_populated(&whole) {
                continue;
            }
            if folder.components().count() > CONTROL_GROUPS_DEPTH_MAX {
                *left_out += 1;
                continue;
            }
            let group = match before.get(&folder) {
                Some(known) => known.clone(),
                None => {
                    let path = kernel_text(folder.as_os_str().as_encoded_bytes());
                    let Some(named) = self.names_of_paths.of(top, &path) else { continue };
                    Group { folder, path, named, tries: 0 }
                }
            };
            if group.named.has_parts {
                folders.extend(below(top, &group.folder));
            }
            let place = (old.len() + new.len()) as u64 + *left_out;
            match before.contains_key(&group.folder) {
                true => old.push((place, group)),
                false if new.len() < CONTROL_GROUPS_MAX => new.push((place, group)),
                false => *left_out += 1,
            }
        }
        let free = CONTROL_GROUPS_MAX.saturating_sub(old.len());
        *left_out += new.len().saturating_sub(free) as u64;
        old.extend(new.into_iter().take(free));
        old.sort_by_key(|(place, _)| *place);
        *groups = old.into_iter().map(|(_, group)| group).collect();
    }

    fn line(&self, folder: &OwnedFd, group: &Group, name: &str, text: &mut Vec<u8>, room: &mut Vec<u8>) {
        text.extend(b"cgroup ");
        // The text of a survey has bytes: its reader makes them printable, once.
        escape(&shortened(&kernel_bytes(name)), text);
        for file in &self.files {
            let numbers = match whole(folder, file.name, room) {
                Ok(text) => file.read(text),
                // The controller is not switched on for this group, or it has just been removed.
                Err(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP) => continue,
                Err(_) => {
                    for number in &file.numbers {
                        text.extend(format!(" {}={UNREADABLE}", number.word).bytes());
                    }
                    continue;
                }
            };
            for (number, value) in file.numbers.iter().zip(numbers) {
                match value {
                    Ok(Some(value)) => text.extend(format!(" {}={value}", number.word).bytes()),
                    Ok(None) => {}
                    Err(fault) => text.extend(format!(" {}={}", number.word, no_number(fault)).bytes()),
                }
            }
        }
        for (label, value) in [("kind", group.named.kind), ("path", &*group.path), ("id", &*group.named.id)] {
            describe(label, &kernel_bytes(value), text);
        }
        text.push(b'\n');
    }
}

/// Says how many groups are left out, and why.
fn what_is_left_out(count: u64) -> String {
    format!(
        "{count} control groups are left out: khz shows {CONTROL_GROUPS_MAX}, and {CONTROL_GROUPS_DEPTH_MAX} levels; those that were shown before keep their places"
    )
}

/// The folder of all control groups below the root: where cgroup v2 is mounted alone, or beside version 1.
pub fn control_groups_folder(root: &Path) -> Option<PathBuf> {
    let places = ["sys/fs/cgroup", "sys/fs/cgroup/unified"].map(|place| root.join(place));
    places.into_iter().find(|place| place.join("cgroup.controllers").exists())
}

/// The folders of the groups right below one, the last name first.
fn below(top: &Path, folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(top.join(folder)) else { return Vec::new() };
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut folders: Vec<PathBuf> =
        entries.flatten().filter(is_folder).map(|entry| folder.join(entry.file_name())).collect();
    folders.sort_unstable_by(|a, b| b.cmp(a));
    folders
}

/// True if the group, or one below it, has a task.
fn is_populated(folder: &Path) -> bool {
    match fs::read(folder.join("cgroup.events")) {
        Ok(events) => !events.split(|&byte| byte == b'\n').any(|line| line == b"populated 0"),
        Err(_) => true,
    }
}

/// Reads a whole file into the room, which grows as it is needed.
fn whole<'a>(folder: &OwnedFd, name: &str, room: &'a mut Vec<u8>) -> Result<&'a [u8], Errno> {
    let file = openat(folder, name, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
    let mut length = 0;
    loop {
        if room.len() < length + 4_096 {
            room.resize(length + 8_192, 0);
        }
        match read(&file, &mut room[length..]) {
            Ok(count) => {
                length += count;
                // Such a file is one record: if there is room left, the file has ended.
                if length < room.len() {
                    break;
                }
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if length > CONTROL_GROUP_FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
    }
    Ok(&room[..length])
}

#[cfg(test)]
mod tests;
