//! Folders of files with one value each, as /sys has them: lists their names in order, and reads values into the words of
//! a survey's text. A value that cannot be read is said to be so, and never becomes a number.

use std::path::Path;

use khz_parse::survey::{NONE, UNREADABLE, describe, escape};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{Errno, read};

/// The longest value that is read; sysfs gives a page at most.
const VALUE_BYTES_MAX: usize = 4_096;

/// NONBLOCK: below a captured root the file could be a pipe without a writer, and opening it would wait.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// An open folder, and room for a value.
pub(super) struct Folder {
    folder: OwnedFd,
    value: Box<[u8; VALUE_BYTES_MAX]>,
}

impl Folder {
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let folder = open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Folder { folder, value: Box::new([0; VALUE_BYTES_MAX]) })
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
    let entries =
        std::fs::read_dir(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}
