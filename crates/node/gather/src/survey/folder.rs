//! Folders of files with one value each, as /sys has them: lists their names in order, and reads values into the words of
//! a survey's text. A value that cannot be read is said to be so, and never becomes a number. Names may have any bytes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use khz_model::instance::kernel_text;
use khz_model::printable::printable;
use khz_parse::survey::{MALFORMED, NONE, TOO_LARGE, UNREADABLE, describe, escape};
use khz_parse::tree::fits;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, openat, statat};
use rustix::io::{Errno, read};

use super::course::Whereabouts;

/// The longest value that is read; sysfs gives a page at most.
const VALUE_BYTES_MAX: usize = 4_096;

/// NONBLOCK: below a captured root the file could be a pipe without a writer, and opening it would wait.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// The longest file of several lines that is read: files of ZFS have up to 10 KiB, and the list of 5,000 disks has 750 KiB.
pub const TREE_FILE_BYTES_MAX: usize = 1 << 20;

/// A name, or the part of it that a wildcard matches: any bytes.
type Name = Vec<u8>;

/// Why a file has no number.
#[derive(Clone, Copy)]
enum Problem {
    /// Reading it said so.
    Refused(Errno),
    Empty,
    /// What it has is none.
    Malformed,
    /// It is below zero, and may not be.
    BelowZero,
    /// It does not fit.
    TooLarge,
}

/// An open folder, and room for a value.
pub(super) struct Folder<'a> {
    path: PathBuf,
    folder: OwnedFd,
    value: Box<[u8; VALUE_BYTES_MAX]>,
    /// The file of several lines that was read last: it has many numbers.
    text: Option<(Name, Result<Vec<u8>, Errno>)>,
    whereabouts: Whereabouts<'a>,
    /// The first file that should have had a number, and why it has none.
    problem: Option<(Name, Problem)>,
}

impl<'a> Folder<'a> {
    pub fn open(path: &Path, whereabouts: Whereabouts<'a>) -> Result<Self, Errno> {
        whereabouts.reads(path, b"");
        let folder = open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let value = Box::new([0; VALUE_BYTES_MAX]);
        Ok(Folder { path: path.to_owned(), folder, value, text: None, whereabouts, problem: None })
    }

    /// Opens a file to read it.
    fn file(&self, file: &[u8]) -> Result<OwnedFd, Errno> {
        self.whereabouts.reads(&self.path, file);
        openat(&self.folder, file, READ, Mode::empty()).map_err(|errno| match errno {
            // A driver says so of a number that it does not have, but only when the file is read: this is a socket, or the file of a
            // device without a driver.
            Errno::NXIO => Errno::IO,
            other => other,
        })
    }

    /// A whole file of several lines. It is read once, until another one is wanted.
    pub fn text(&mut self, file: impl AsRef<[u8]>) -> Result<&[u8], Errno> {
        let file = file.as_ref();
        if self.text.as_ref().is_none_or(|(name, _)| name != file) {
            self.text = Some((file.to_owned(), self.read_text(file)));
        }
        match &self.text {
            Some((_, Ok(text))) => Ok(text),
            Some((_, Err(errno))) => Err(*errno),
            None => Err(Errno::NOENT),
        }
    }

    fn read_text(&mut self, file: &[u8]) -> Result<Vec<u8>, Errno> {
        let file = self.file(file)?;
        let mut text = Vec::new();
        loop {
            match read(&file, &mut self.value[..]) {
                // A pipe without a writer is empty, too, and is no file without lines.
                Ok(0) if text.is_empty() && !is_file(&file) => return Err(Errno::AGAIN),
                Ok(0) => return Ok(text),
                Ok(length) if text.len() + length > TREE_FILE_BYTES_MAX => return Err(Errno::FBIG),
                Ok(length) => text.extend(&self.value[..length]),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// The files that match a pattern such as `slaves/*`, and what its wildcards match in each.
    pub fn matches(&self, pattern: &str) -> Result<Vec<(Name, Name)>, Errno> {
        let (folder, pattern) = pattern.rsplit_once('/').unwrap_or(("", pattern));
        let matched = |name: OsString| {
            let mut captured = Vec::new();
            let word = fits(pattern, name.as_bytes(), &mut captured).then(|| captured.concat())?;
            Some((joined(folder.as_bytes(), name.as_bytes()), word))
        };
        self.whereabouts.reads(&self.path, folder.as_bytes());
        Ok(names(&self.path.join(folder))?.into_iter().filter_map(matched).collect())
    }

    /// How many files of a pattern have a value for which `counts` is true: `slaves/*/device/state`. A file that cannot be read
    /// counts as empty. If a file is missing, the number is not known, unless the pattern means only some of the names
    /// (`lower_*/bonding_slave/mii_status`).
    pub fn count(&mut self, pattern: &str, counts: impl Fn(&[u8]) -> bool) -> Result<usize, Errno> {
        let Some(star) = pattern.find('*') else {
            return match self.value(pattern) {
                Err(Errno::NOENT | Errno::NOTDIR) => Ok(0),
                value => Ok(usize::from(counts(value?))),
            };
        };
        let end = pattern[star..].find('/').map_or(pattern.len(), |slash| star + slash);
        let (place, below) = pattern.split_at(end);
        let are_all_meant = place.rsplit('/').next() == Some("*");
        let mut count = 0;
        for (file, _) in self.matches(place)? {
            // If nothing follows the wildcard, the existence of the name counts.
            let value = match below.is_empty() {
                true => Ok(&[][..]),
                false => self.value([&file[..], below.as_bytes()].concat()),
            };
            count += usize::from(match value {
                Err(Errno::NOENT | Errno::NOTDIR) if are_all_meant => return Err(Errno::NODATA),
                Err(Errno::NOENT | Errno::NOTDIR) => false,
                value => counts(value.unwrap_or_default()),
            });
        }
        Ok(count)
    }

    /// The name of the folder.
    pub fn name(&self) -> &str {
        self.path.file_name().and_then(OsStr::to_str).unwrap_or_default()
    }

    /// The value of a file, without the blanks around it: all of it, never a part.
    pub fn value(&mut self, file: impl AsRef<[u8]>) -> Result<&[u8], Errno> {
        let file = self.file(file.as_ref())?;
        let length = read_some(&file, &mut self.value[..])?;
        if length == VALUE_BYTES_MAX && read_some(&file, &mut [0])? > 0 {
            return Err(Errno::FBIG);
        }
        Ok(self.value[..length].trim_ascii())
    }

    /// The word instead of the number of a file, which reading has refused, or which is empty.
    pub fn without_number(&mut self, file: &[u8], errno: Option<Errno>) -> &'static str {
        let word = why(errno);
        if word != NONE && self.problem.is_none() {
            self.problem = Some((file.to_owned(), errno.map_or(Problem::Empty, Problem::Refused)));
        }
        word
    }

    /// Notes why a file has no number, if this word stands instead of one. `is_below_zero`: the file has a number below zero.
    pub fn note_word(&mut self, file: &[u8], word: &[u8], is_below_zero: bool) {
        let problem = match word {
            _ if word == MALFORMED.as_bytes() && is_below_zero => Problem::BelowZero,
            _ if word == MALFORMED.as_bytes() => Problem::Malformed,
            _ if word == TOO_LARGE.as_bytes() => Problem::TooLarge,
            _ => return,
        };
        self.problem.get_or_insert_with(|| (file.to_owned(), problem));
    }

    /// Why the first file that should have had a number has none, for people.
    pub fn problem(&self) -> Option<String> {
        let (file, why) = self.problem.as_ref()?;
        let path = Path::new(OsStr::from_bytes(file));
        let problem = match (kind_of(&self.folder, path), why) {
            (Some(kind), _) => kind.to_owned(),
            (None, Problem::Malformed) => "what is in it is no number".to_owned(),
            (None, Problem::BelowZero) => {
                "its number is below zero, and this one cannot be: a counter counts from 0".to_owned()
            }
            (None, Problem::TooLarge) => {
                "its number is beyond 64 bits; one that may be below zero has 63".to_owned()
            }
            (None, Problem::Refused(Errno::FBIG)) => format!(
                "it is too long: a file with a number has at most {VALUE_BYTES_MAX} bytes, one of several lines {TREE_FILE_BYTES_MAX}"
            ),
            (None, Problem::Refused(errno)) => std::io::Error::from(*errno).to_string(),
            (None, Problem::Empty) => "there is nothing in it".to_owned(),
        };
        Some(format!("{}: {problem}", shown(&self.path.join(path))))
    }

    /// Writes ` name=NUMBER` of a file into the text.
    pub fn number(&mut self, file: &str, name: &str, text: &mut Vec<u8>) {
        text.extend(format!(" {name}=").bytes());
        let errno = match self.value(file) {
            Ok(value) if !value.is_empty() => return escape(value, text),
            other => other.err(),
        };
        text.extend(self.without_number(file.as_bytes(), errno).bytes());
    }

    /// The same of a file whose number is `0x` and hexadecimal digits.
    pub fn hexadecimal(&mut self, file: &str, name: &str, text: &mut Vec<u8>) {
        let number = match self.value(file) {
            Ok(value) => match value.strip_prefix(b"0x").map(khz_parse::number::hexadecimal) {
                Some(Ok(number)) => number.to_string(),
                _ => UNREADABLE.to_owned(),
            },
            Err(errno) => why(Some(errno)).to_owned(),
        };
        text.extend(format!(" {name}={number}").bytes());
    }

    /// Writes the label ` :name=VALUE` of a file into the text, if the file has a value.
    pub fn label(&mut self, file: &str, name: &str, text: &mut Vec<u8>) {
        if let Ok(value) = self.value(file) {
            describe(name, value, text);
        }
    }
}

/// What a path of a folder is if it is no file that can be read, in words.
pub(super) fn kind_of(folder: impl AsFd, path: &Path) -> Option<&'static str> {
    let found = statat(folder, path, AtFlags::empty()).ok()?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => Some("it is a folder"),
        FileType::Fifo => Some("it is a pipe, and no file"),
        FileType::Socket => Some("it is a socket, and no file"),
        FileType::CharacterDevice | FileType::BlockDevice => Some("it is a device, and no file"),
        _ => None,
    }
}

/// Reads once, whatever signal comes.
fn read_some(file: &OwnedFd, into: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match read(file, &mut *into) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

fn is_file(file: &OwnedFd) -> bool {
    fstat(file).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
}

/// A path for people, who read it in a log.
pub(super) fn shown(path: &Path) -> String {
    printable(&kernel_text(path.as_os_str().as_bytes())).into_owned()
}

/// A name below a folder; without one, the name itself.
pub(super) fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_owned() } else { [folder, b"/", name].concat() }
}

/// Why a file has no number.
pub(super) fn why(errno: Option<Errno>) -> &'static str {
    match errno {
        // The driver does not know: there is no such number.
        Some(
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::INVAL
            | Errno::OPNOTSUPP
            | Errno::NODEV
            | Errno::NXIO
            | Errno::NODATA,
        ) => NONE,
        _ => UNREADABLE,
    }
}

/// Numbers of the entries `beginN` of a folder, sorted.
pub(super) fn numbered(path: &Path, begin: &str) -> Result<Vec<u32>, Errno> {
    let number = |name: OsString| name.to_str()?.strip_prefix(begin)?.parse::<u32>().ok();
    let mut numbers: Vec<u32> = names(path)?.into_iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The names in a folder, sorted.
pub(super) fn names(path: &Path) -> Result<Vec<OsString>, Errno> {
    let entries =
        std::fs::read_dir(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let mut names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort_unstable();
    Ok(names)
}
