//! Asks each mounted file system for its sizes, with statvfs(2). A file server that is gone blocks the thread: each is a
//! step of its own.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use khz_parse::mountinfo::{Mount, chosen, mounts};
use khz_parse::survey::{NONE, STUCK, UNREADABLE, escape, unescaped};
use rustix::fs::{StatVfs, statfs, statvfs};
use rustix::io::Errno;

use super::Answer;
use super::course::{Abandoned, Course};
use super::limited::{Seats, Shown};
use super::threads::{END_OF_KIN, Turn};

/// The most file systems that are asked: each costs a system call every ten seconds, and eight slots. A node of a
/// cluster has some ten; a node with hundreds of containers has a mount for each container.
pub const MOUNTS_MAX: usize = 256;

/// A longer list of mounts is not read.
const LIST_BYTES_MAX: u64 = 8 << 20;

/// True if this root has the kernel's own /proc, so that system calls are about the same host as its files.
pub(super) fn is_live(root: &Path) -> bool {
    root == Path::new("/")
        || statfs(root.join("proc")).is_ok_and(|found| found.f_type as u64 == libc::PROC_SUPER_MAGIC as u64)
}

/// What is kept from one survey to the next.
#[derive(Default)]
pub(super) struct FileSystems {
    /// The last answer of each file system: the end of its line. The key is the list's data about the mount ([`identity`]), so that
    /// the answer of another file system at the same place is not used.
    ends: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    /// The places that have series: another file system at such a place comes before one at a new place.
    shown: Mutex<Shown>,
}

impl FileSystems {
    /// Makes the text.
    pub fn survey(&self, course: &mut Course<'_>, root: &Path) -> Result<Answer, Abandoned> {
        if !is_live(root) {
            return Ok(Err(Errno::NOENT));
        }
        if !course.begin(b"")? {
            return Ok(Err(Errno::TIMEDOUT));
        }
        let list = match Mounts::read(root) {
            Ok(list) => list,
            Err(errno) => return Ok(Err(errno)),
        };
        let (mounts, seats) = seated(&lock(&self.shown), list.visible(root));
        let mut lines: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for mount in &mounts {
            let who = identity(mount);
            let end = match course.begin_apart(&step_of(mount))?.0 {
                Turn::Take => {
                    let sizes = statvfs(below(root, mount.place)).and_then(known);
                    if let Err(errno) = sizes {
                        course.note_refused(&below(root, mount.place), errno);
                    }
                    let end = end_of_line(sizes.map_err(|_| UNREADABLE));
                    self.kept().insert(who.clone(), end.clone());
                    end
                }
                Turn::Leave => end_of_line(Err(STUCK)),
                Turn::Keep(_) => match self.kept().get(&who) {
                    Some(end) => end.clone(),
                    // It has never answered, and may yet.
                    None => continue,
                },
            };
            let mut line = Vec::new();
            begin_line(&mut line, mount, list.is_read_only(mount));
            line.extend(end);
            lines.push((who, line));
        }
        course.close()?;
        let left_out = seats.left_out();
        if left_out > 0 {
            course.note_left_out(format!(
                "{left_out} mounted file systems are left out: khz asks {MOUNTS_MAX}, and places that were shown before keep theirs"
            ));
        }
        lock(&self.shown).note(seats);
        // A place may have been another file system's when it was asked than when the list was read.
        let after = match Mounts::read(root) {
            Ok(after) => after,
            Err(errno) => return Ok(Err(errno)),
        };
        if let Some(stayed) = list.that_stayed(&after, root) {
            lines.retain(|(who, _)| stayed.contains(who));
        }
        let mut text = format!("* left_out={left_out}\n").into_bytes();
        lines.iter().for_each(|(_, line)| text.extend(line));
        let shown: HashSet<&[u8]> = lines.iter().map(|(who, _)| &**who).collect();
        self.kept().retain(|who, _| shown.contains(&**who));
        Ok(Ok(text))
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Vec<u8>>> {
        lock(&self.ends)
    }
}

/// The mounts that have a place, and their places. Mounts at places that were already shown come before mounts at new places,
/// whatever is mounted there.
fn seated<'a>(shown: &Shown, mut mounts: Vec<Mount<'a>>) -> (Vec<Mount<'a>>, Seats) {
    let mut seats = shown.seats_among(mounts.iter().map(|mount| mount.place), MOUNTS_MAX);
    mounts.retain(|mount| seats.takes(mount.place));
    (mounts, seats)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is harmless: its data is complete at any time.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The step that asks a mount: the number of its file system, with which all its mounts hang, then the mount's own number, then its
/// place. Another mount at the same place, or over it, is another step.
fn step_of(mount: &Mount<'_>) -> Vec<u8> {
    [mount.number, &[END_OF_KIN], mount.id, b" ", mount.place].concat()
}

/// The place in the step of a mount: it has no blank, since the kernel escapes them.
pub(super) fn place_of(step: &[u8]) -> &[u8] {
    step.rsplit(|&byte| byte == b' ').next().unwrap_or_default()
}

fn begin_line(text: &mut Vec<u8>, mount: &Mount<'_>, is_read_only: bool) {
    let words = [("mountpoint ", mount.place), (" device=", mount.device), (" fstype=", mount.fs_type)];
    for (begin, word) in words {
        text.extend(begin.bytes());
        // The kernel escapes them as we do; but a word may have other blanks.
        escape(&unescaped(word), text);
    }
    text.extend(format!(" read_only={}", u8::from(is_read_only)).bytes());
    let mut number = mount.number.splitn(2, |&byte| byte == b':');
    for (begin, word) in [" :major=", " :minor="].into_iter().zip(&mut number) {
        text.extend(begin.bytes());
        escape(word, text);
    }
}

/// The list's data about a mount, in one word: it differs for another mount at the same place.
fn identity(mount: &Mount<'_>) -> Vec<u8> {
    [mount.place, mount.number, mount.root, mount.fs_type, mount.device].join(&b' ')
}

/// FUSE answers all users but the one who has mounted it with zeros, unless it was mounted with `allow_other`. No file system has blocks
/// of no bytes.
fn known(sizes: StatVfs) -> Result<StatVfs, Errno> {
    if sizes.f_bsize == 0 && sizes.f_blocks == 0 && sizes.f_namemax == 0 {
        Err(Errno::ACCESS)
    } else {
        Ok(sizes)
    }
}

fn end_of_line(sizes: Result<StatVfs, &'static str>) -> Vec<u8> {
    let line = match sizes {
        Ok(found) => {
            let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
            // btrfs and FAT have no limit of their own, and say 0.
            let files = |files: u64| if found.f_files == 0 { NONE.to_owned() } else { files.to_string() };
            format!(
                " error=0 size={} free={} available={} files={} files_free={}\n",
                bytes(found.f_blocks),
                bytes(found.f_bfree),
                bytes(found.f_bavail),
                files(found.f_files),
                files(found.f_ffree),
            )
        }
        Err(why) => format!(" error=1 size={why} free={why} available={why} files={why} files_free={why}\n"),
    };
    line.into_bytes()
}

fn below(root: &Path, place: &[u8]) -> PathBuf {
    let place = unescaped(place);
    let relative = place.strip_prefix(b"/").unwrap_or(&place);
    root.join(OsStr::from_bytes(relative))
}

/// What is mounted, as process 1 sees it, and as this process does.
struct Mounts {
    list: Vec<u8>,
    /// `None`: the list is this process's own, because that of process 1 cannot be read.
    own: Option<Vec<u8>>,
}

impl Mounts {
    fn read(root: &Path) -> Result<Self, Errno> {
        let own = || text_of(&root.join("proc/self/mountinfo"));
        match text_of(&root.join("proc/1/mountinfo")) {
            Ok(list) => Ok(Mounts { list, own: Some(own()?) }),
            Err(_) => Ok(Mounts { list: own()?, own: None }),
        }
    }

    /// The mounts whose sizes are of use and that this process sees at the same place. systemd hides some from a
    /// service.
    fn visible(&self, root: &Path) -> Vec<Mount<'_>> {
        let mut chosen = chosen(&self.list);
        let own = self.own.as_ref().filter(|own| **own != self.list && root == Path::new("/"));
        if let Some(own) = own {
            let own: HashMap<&[u8], &[u8]> = mounts(own).map(|mount| (mount.place, mount.number)).collect();
            chosen.retain(|mount| own.get(mount.place) == Some(&mount.number));
        }
        chosen
    }

    /// Which mounts are in a later list as they are in this one; `None`: all of them.
    fn that_stayed(&self, after: &Mounts, root: &Path) -> Option<HashSet<Vec<u8>>> {
        let is_same = self.list == after.list && self.own == after.own;
        (!is_same).then(|| after.visible(root).iter().map(identity).collect())
    }

    /// True if nothing can be written. In a service's own list, many mounts are read-only that are not on the
    /// host (`ProtectSystem=strict`). So only the flag of the file system itself counts.
    fn is_read_only(&self, mount: &Mount<'_>) -> bool {
        mount.is_all_read_only || (mount.is_read_only && self.own.is_some())
    }
}

fn text_of(path: &Path) -> Result<Vec<u8>, Errno> {
    use std::io::Read;
    let read = || {
        let mut text = Vec::new();
        std::fs::File::open(path)?.take(LIST_BYTES_MAX + 1).read_to_end(&mut text).map(|_| text)
    };
    let text = read().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if text.len() as u64 > LIST_BYTES_MAX { Err(Errno::FBIG) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_in_place_of_an_answer_are_no_sizes() {
        let of_proc = statvfs("/proc").unwrap();
        let zeros =
            StatVfs { f_bsize: 0, f_frsize: 0, f_blocks: 0, f_namemax: 0, ..statvfs("/proc").unwrap() };
        assert!(known(of_proc).is_ok(), "it is empty, and has blocks of some size");
        assert_eq!(known(zeros).map(|_| ()), Err(Errno::ACCESS));
    }

    #[test]
    fn what_is_mounted_at_the_place_of_another_mount_or_over_it_is_another_step() {
        let line =
            |id, number, root, device| format!("{id} 1 {number} {root} /a\\040b rw - nfs4 {device} rw\n");
        let step = |text: &str| {
            let chosen = chosen(text.as_bytes());
            assert_eq!(chosen.len(), 1, "{text}");
            step_of(&chosen[0])
        };
        let first = line(20, "0:30", "/", "s:/x");
        let others = [
            line(21, "0:30", "/", "s:/x"),
            line(21, "0:31", "/", "s:/x"),
            line(21, "0:30", "/part", "s:/x"),
            line(21, "0:32", "/", "s:/y"),
            first.clone() + &line(22, "0:31", "/", "s:/x"),
        ];
        for other in &others {
            assert_ne!(step(&first), step(other), "{other}");
            assert_eq!(place_of(&step(other)), b"/a\\040b");
        }
        assert_eq!(step(&first), step(&first.replace(" rw", " ro")), "its options are its own");
    }

    #[test]
    fn what_is_mounted_at_a_place_that_was_shown_comes_before_new_places() {
        let line = |place: &str, device: &str| format!("20 1 0:30 / {place} rw - tmpfs {device} rw\n");
        let mut shown = Shown::default();
        let mut survey = |text: &str| {
            let (mounts, seats) = seated(&shown, chosen(text.as_bytes()));
            let left_out = seats.left_out();
            shown.note(seats);
            let device = |place: &str| {
                let found = mounts.iter().find(|mount| mount.place == place.as_bytes());
                found.map(|mount| String::from_utf8_lossy(mount.device).into_owned())
            };
            (mounts.len(), left_out, device("/z"), device("/a0"))
        };
        let of = |device: &str| Some(device.to_owned());
        assert_eq!(survey(&line("/z", "first")), (1, 0, of("first"), None));
        let many: String = (0..300).map(|number| line(&format!("/a{number}"), "many")).collect();
        assert_eq!(survey(&(many.clone() + &line("/z", "first"))), (MOUNTS_MAX, 45, of("first"), of("many")));
        // The new one is the last of the list.
        assert_eq!(survey(&(many.clone() + &line("/z", "again"))), (MOUNTS_MAX, 45, of("again"), of("many")));
        assert_eq!(survey(&many), (MOUNTS_MAX, 44, None, of("many")));
    }

    #[test]
    fn of_a_place_that_got_another_file_system_meanwhile_nothing_is_said() {
        let line = |id, number, place, device| format!("{id} 1 {number} / {place} rw - tmpfs {device} rw\n");
        let list = |lines: &[String]| Mounts { list: lines.concat().into_bytes(), own: None };
        let (a, b) = (line(20, "0:30", "/a", "small"), line(21, "0:31", "/b", "small"));
        let before = list(&[a.clone(), b.clone()]);
        let stayed = |after: &[String]| {
            let found = before.that_stayed(&list(after), Path::new("/"))?;
            let mut found: Vec<String> =
                found.iter().map(|who| String::from_utf8_lossy(who).into_owned()).collect();
            found.retain(|who| before.visible(Path::new("/")).iter().any(|m| identity(m) == who.as_bytes()));
            found.sort();
            Some(found)
        };
        assert_eq!(stayed(&[a.clone(), b.clone()]), None, "nothing has changed");
        // The numbers are given again at once.
        let other = line(21, "0:31", "/b", "big");
        assert_eq!(stayed(&[a.clone(), other.clone()]), Some(vec!["/a 0:30 / tmpfs small".to_owned()]));
        assert_eq!(stayed(std::slice::from_ref(&b)), Some(vec!["/b 0:31 / tmpfs small".to_owned()]));
        // One above it.
        assert_eq!(stayed(&[a, b, other]), Some(vec!["/a 0:30 / tmpfs small".to_owned()]));
    }
}
