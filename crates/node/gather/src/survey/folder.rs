//! Folders of files with one value each, as /sys has them: lists their names in order, and reads values into the words of
//! a survey's text. A value that cannot be read is said to be so, and never becomes a number.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use khz_parse::survey::{NONE, UNREADABLE, describe, escape};
use khz_parse::tree::fits;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{Errno, read};

/// The longest value that is read; sysfs gives a page at most.
const VALUE_BYTES_MAX: usize = 4_096;

/// NONBLOCK: below a captured root the file could be a pipe without a writer, and opening it would wait.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// The longest file of several lines that is read: those of ZFS have up to 10 KiB, and the list of 5,000 disks has 750 KiB.
pub const TREE_FILE_BYTES_MAX: usize = 1 << 20;

/// An open folder, and room for a value.
pub(super) struct Folder {
    path: PathBuf,
    folder: OwnedFd,
    value: Box<[u8; VALUE_BYTES_MAX]>,
    /// The file of several lines that was read last: it has many numbers.
    text: Option<(String, Result<Vec<u8>, Errno>)>,
}

impl Folder {
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let folder = open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Folder { path: path.to_owned(), folder, value: Box::new([0; VALUE_BYTES_MAX]), text: None })
    }

    /// A whole file of several lines. It is read once, until another one is wanted.
    pub fn text(&mut self, file: &str) -> Result<&[u8], Errno> {
        if self.text.as_ref().is_none_or(|(name, _)| name != file) {
            self.text = Some((file.to_owned(), self.read_text(file)));
        }
        match &self.text {
            Some((_, Ok(text))) => Ok(text),
            Some((_, Err(errno))) => Err(*errno),
            None => Err(Errno::NOENT),
        }
    }

    fn read_text(&mut self, file: &str) -> Result<Vec<u8>, Errno> {
        let file = openat(&self.folder, file, READ, Mode::empty())?;
        let mut text = Vec::new();
        loop {
            match read(&file, &mut self.value[..]) {
                Ok(0) => return Ok(text),
                Ok(length) if text.len() + length > TREE_FILE_BYTES_MAX => return Err(Errno::FBIG),
                Ok(length) => text.extend(&self.value[..length]),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// The files that a pattern fits, and what its wildcards stand for in each: `slaves/*`.
    pub fn matches(&self, pattern: &str) -> Result<Vec<(String, String)>, Errno> {
        let (folder, pattern) = pattern.rsplit_once('/').unwrap_or(("", pattern));
        let matched = |name: String| {
            let mut captured = Vec::new();
            let word = fits(pattern, &name, &mut captured).then(|| captured.concat())?;
            Some((if folder.is_empty() { name } else { format!("{folder}/{name}") }, word))
        };
        Ok(names(&self.path.join(folder))?.into_iter().filter_map(matched).collect())
    }

    /// How many files of a pattern have a value for which `counts` is true: `slaves/*/device/state`. What cannot be read is empty.
    pub fn count(&mut self, pattern: &str, counts: impl Fn(&[u8]) -> bool) -> Result<usize, Errno> {
        let is_there = |value: &Result<&[u8], Errno>| !matches!(value, Err(Errno::NOENT | Errno::NOTDIR));
        let Some(star) = pattern.find('*') else {
            let value = self.value(pattern);
            return Ok(usize::from(is_there(&value) && counts(value?)));
        };
        let end = pattern[star..].find('/').map_or(pattern.len(), |slash| star + slash);
        let (place, below) = pattern.split_at(end);
        let mut count = 0;
        for (file, _) in self.matches(place)? {
            // With nothing below it, the name is what counts.
            let value = if below.is_empty() { Ok(&[][..]) } else { self.value(&(file + below)) };
            count += usize::from(is_there(&value) && counts(value.unwrap_or_default()));
        }
        Ok(count)
    }

    /// The name of the folder.
    pub fn name(&self) -> &str {
        self.path.file_name().and_then(OsStr::to_str).unwrap_or_default()
    }

    /// The value of a file, without the blanks around it.
    pub fn value(&mut self, file: &str) -> Result<&[u8], Errno> {
        let file = openat(&self.folder, file, READ, Mode::empty())?;
        let length = loop {
            match read(&file, &mut self.value[..]) {
                Err(Errno::INTR) => {}
                other => break other?,
            }
        };
        Ok(self.value[..length].trim_ascii())
    }

    /// Writes ` name=NUMBER` of a file into the text.
    pub fn number(&mut self, file: &str, name: &str, text: &mut Vec<u8>) {
        text.extend(format!(" {name}=").bytes());
        match self.value(file) {
            Ok(value) if !value.is_empty() => escape(value, text),
            other => text.extend(why(other.err()).bytes()),
        }
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
    let number = |name: String| name.strip_prefix(begin)?.parse::<u32>().ok();
    let mut numbers: Vec<u32> = names(path)?.into_iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The names in a folder, sorted. Names that are not UTF-8 are left out: the kernel gives none here.
pub(super) fn names(path: &Path) -> Result<Vec<String>, Errno> {
    Ok(names_of_files(path)?.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// The names in a folder that programs write, sorted.
pub(super) fn names_of_files(path: &Path) -> Result<Vec<OsString>, Errno> {
    let entries =
        std::fs::read_dir(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let mut names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort_unstable();
    Ok(names)
}
