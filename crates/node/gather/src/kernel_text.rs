//! A kernel file that stays open: each gather reads the whole text, from the start, into the parser's buffer. A
//! folder of files with one value each is read as one text of lines `label=value`. The text of a survey is made
//! elsewhere (`survey.rs`), and copied here.

use std::path::{Path, PathBuf};

use khz_parse::{KernelFile, Pieces, ValueFile};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{Errno, pread};

use crate::survey::SurveyText;

/// A longer kernel text is not read: 10,000 interfaces make 3 MiB.
pub const TEXT_BYTES_MAX: usize = 64 << 20;

/// The first size of a buffer: most files fit, and the kernel itself first formats into one page.
const FIRST_BYTES: usize = 8 << 10;

/// The kernel hands out records about a page at a time, and a page has at least this size.
const PAGE: usize = 4_096;

/// Room for one value below `/proc/sys`; a longer one is read again.
const VALUE_BYTES: usize = 128;

/// The file of the folder `proc/sys/kernel` with what `uname -m` prints.
const ARCHITECTURE: &str = "arch";

/// How files are opened. NONBLOCK: below a captured root the file could be a pipe without a writer, and opening it
/// would wait.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// One open kernel file.
#[derive(Debug)]
pub(crate) struct KernelText {
    path: PathBuf,
    /// `None`: not open yet, or a folder.
    file: Option<OwnedFd>,
    pieces: Pieces,
    /// True if the root is this machine's own.
    is_live: bool,
    /// The survey that makes the text; `None`: it is in a file.
    survey: Option<SurveyText>,
}

impl KernelText {
    /// The text of a file; for a survey, its text as a captured host has it.
    pub fn new(root: &Path, file: &KernelFile) -> Self {
        let path = root.join(file.captured_path());
        KernelText { path, file: None, pieces: file.pieces, is_live: root == Path::new("/"), survey: None }
    }

    /// The text that a survey makes.
    pub fn of_survey(root: &Path, file: &KernelFile, survey: SurveyText) -> Self {
        KernelText { path: root.join(file.path), survey: Some(survey), ..Self::new(root, file) }
    }

    /// True unless it is the text of a survey, and that was read already.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.survey.as_ref().is_none_or(SurveyText::is_fresh)
    }

    /// True if it is the text of a survey.
    #[inline]
    pub fn is_surveyed(&self) -> bool {
        self.survey.is_some()
    }

    /// Why the first file of a survey that should have a number has none, for people.
    pub fn problem(&self) -> Option<&str> {
        self.survey.as_ref().and_then(SurveyText::problem)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the file, so that the next read opens it again.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Reads the whole text into `buffer`; returns its length. The buffer grows as needed and never shrinks.
    #[inline]
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> Result<usize, Errno> {
        if self.file.is_none() {
            if let Some(survey) = &mut self.survey {
                return survey.read(buffer);
            }
            if let Pieces::Folder(files) = self.pieces {
                return self.read_folder(files, buffer);
            }
            self.file = Some(open(&self.path, READ, Mode::empty())?);
        }
        let Some(file) = &self.file else { return Err(Errno::BADF) };
        if buffer.len() < FIRST_BYTES {
            buffer.resize(FIRST_BYTES, 0);
        }
        if self.pieces == Pieces::Value {
            let got = read_at(file, &mut buffer[..VALUE_BYTES], 0)?;
            if got < VALUE_BYTES {
                return Ok(got);
            }
        }
        let mut length = 0;
        loop {
            let room = buffer.len() - length;
            let got = read_at(file, &mut buffer[length..], length as u64)?;
            length += got;
            if got == 0 || self.was_last(length, got, room) {
                return Ok(length);
            }
            if buffer.len() - length < PAGE {
                if buffer.len() >= TEXT_BYTES_MAX {
                    return Err(Errno::FBIG);
                }
                let grown = buffer.len() * 2;
                buffer.resize(grown, 0);
            }
        }
    }

    /// True when the size of a piece shows that nothing follows, which saves a read that would return 0. The
    /// kernel ends a piece when the next record does not fit into its page. So a piece that leaves room for
    /// the longest record was the last one. (If a single record is too long, the kernel prints it again into
    /// a larger buffer.)
    #[inline]
    fn was_last(&self, length: usize, got: usize, room: usize) -> bool {
        match self.pieces {
            Pieces::Whole | Pieces::Value | Pieces::Survey { .. } => got < room,
            Pieces::Records { longest } => length == got && got < room && got + longest <= PAGE,
            Pieces::Folder(_) => true,
        }
    }

    /// Reads the folder's files. It leaves out a file that this process may not read, that does not exist or that is
    /// empty. If no file is left, it returns the first error that is not "no such file".
    #[cold]
    fn read_folder(&self, files: &[ValueFile], buffer: &mut Vec<u8>) -> Result<usize, Errno> {
        let folder = open(&self.path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut length = 0;
        let mut problem = Errno::NOENT;
        for &ValueFile { file, label } in files {
            let start = length + label.len() + 1;
            if buffer.len() < start + PAGE {
                buffer.resize(start + FIRST_BYTES, 0);
            }
            let value = &mut buffer[start..start + PAGE - 1];
            let got = match self.read_value(&folder, file, value) {
                Ok(got) => got,
                Err(errno) => {
                    problem = if problem == Errno::NOENT { errno } else { problem };
                    continue;
                }
            };
            let got = on_one_line(&mut value[..got]);
            if got > 0 {
                buffer[length..start - 1].copy_from_slice(label.as_bytes());
                buffer[start - 1] = b'=';
                buffer[start + got] = b'\n';
                length = start + got + 1;
            }
        }
        if length == 0 { Err(problem) } else { Ok(length) }
    }

    /// Reads the beginning of a file, as much as fits.
    fn read_value(&self, folder: &OwnedFd, file: &str, value: &mut [u8]) -> Result<usize, Errno> {
        match openat(folder, file, READ, Mode::empty()) {
            Ok(file) => read_at(&file, value, 0),
            // Before Linux 6.1 the kernel has no file with the machine's architecture.
            Err(Errno::NOENT) if self.is_live && file == ARCHITECTURE => {
                let uname = rustix::system::uname();
                let machine = uname.machine().to_bytes();
                let got = machine.len().min(value.len());
                value[..got].copy_from_slice(&machine[..got]);
                Ok(got)
            }
            Err(errno) => Err(errno),
        }
    }
}

/// One read.
#[inline]
fn read_at(file: &OwnedFd, room: &mut [u8], offset: u64) -> Result<usize, Errno> {
    loop {
        match pread(file, &mut *room, offset) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Moves the value to the start without the blanks around it, and makes one line of it. Returns its length.
fn on_one_line(value: &mut [u8]) -> usize {
    let blanks = value.len() - value.trim_ascii_start().len();
    let length = value.trim_ascii().len();
    value.copy_within(blanks..blanks + length, 0);
    value[..length].iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_whole_however_long_it_is() {
        let root = std::env::temp_dir().join(format!("khz-value-{}", std::process::id()));
        let path = root.join(khz_parse::hung_tasks::FILE.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        for length in [0, 1, VALUE_BYTES - 1, VALUE_BYTES, VALUE_BYTES + 1, 3 * FIRST_BYTES] {
            let text = vec![b'7'; length];
            std::fs::write(&path, &text).unwrap();
            let (mut file, mut buffer) = (KernelText::new(&root, &khz_parse::hung_tasks::FILE), Vec::new());
            let got = file.read(&mut buffer).unwrap();
            assert_eq!(buffer[..got], text, "{length} bytes");
        }
        std::fs::remove_dir_all(root).unwrap();
    }
}
