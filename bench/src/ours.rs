//! Our side of every comparison, and the only file that knows our interfaces: a kernel file kept open, read
//! into the differential parser's own buffer, and parsed there.

use std::fs::File;
use std::path::PathBuf;

use khz_model::{Absence, Reading};
use khz_parse::{KernelFile, Outcome, Parser};

use crate::error::BenchError;

/// Our kernel file with this name.
pub fn kernel_file(name: &str) -> Result<&'static KernelFile, BenchError> {
    let found = khz_parse::files().iter().find(|file| file.name == name);
    found.copied().ok_or_else(|| BenchError::Reply(format!("khz-parse knows no file called {name}")))
}

/// One source as the gatherer keeps it.
pub struct Source {
    path: PathBuf,
    file: File,
    parser: Parser,
}

impl Source {
    /// Opens the kernel file with this name under `/`.
    pub fn open(name: &str) -> Result<Self, BenchError> {
        let kernel_file = kernel_file(name)?;
        let path = PathBuf::from("/").join(kernel_file.path);
        let file = File::open(&path).map_err(BenchError::file(&path))?;
        Ok(Source { path, file, parser: Parser::new(kernel_file) })
    }

    /// Reads the file into `room`, as the gatherer does for all its sources, and updates the readings.
    #[inline]
    pub fn gather(&mut self, room: &mut Vec<u8>) -> Result<Outcome, BenchError> {
        self.parser.expect();
        let length =
            rustix::io::pread(&self.file, &mut room[..], 0).map_err(BenchError::call(self.path.display()))?;
        Ok(self.parser.advance(room, length))
    }

    /// The parser with its readings.
    pub fn parser(&mut self) -> &mut Parser {
        &mut self.parser
    }
}

/// A parser for captured texts. Each text is copied into its buffer first; in a gather the kernel writes it
/// there.
pub struct Replayed {
    /// The parser.
    pub parser: Parser,
    room: Vec<u8>,
}

impl Replayed {
    /// A parser for the kernel file with this name.
    pub fn new(name: &str) -> Result<Self, BenchError> {
        Ok(Replayed { parser: Parser::new(kernel_file(name)?), room: Vec::new() })
    }

    /// Parses one text.
    #[inline]
    pub fn take(&mut self, text: &[u8]) {
        if self.room.len() < text.len() {
            self.room.resize(text.len(), 0);
        }
        self.room[..text.len()].copy_from_slice(text);
        self.parser.advance(&mut self.room, text.len());
    }
}

/// Checks a parser: compares the differential parser's readings of a text with those of a second parser that
/// has no earlier text and so looks up fields by name.
pub struct Check {
    reference: Parser,
    /// Readings compared.
    pub compared: u64,
    /// Readings that differed.
    pub wrong: u64,
}

impl Check {
    /// A check for the kernel file with this name.
    pub fn new(name: &str) -> Result<Self, BenchError> {
        Ok(Check { reference: Parser::new(kernel_file(name)?), compared: 0, wrong: 0 })
    }

    /// Compares every reading of `parser`, whose last text is `text`, with a full parse.
    pub fn compare(&mut self, parser: &Parser, text: &[u8]) {
        self.reference.lose(Reading::Absent(Absence::NotYet));
        self.reference.advance_with(text);
        for (slot, series) in self.reference.schema().series().iter().enumerate() {
            let ours = parser.schema().slot(&series.metric.name, series.instance.as_ref());
            let ours = ours.and_then(|slot| parser.reading(slot as usize));
            self.compared += 1;
            self.wrong += u64::from(ours != self.reference.reading(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_finds_a_wrong_value() {
        let mut parser = Parser::new(kernel_file("uptime").unwrap());
        let mut check = Check::new("uptime").unwrap();
        parser.advance_with(b"100.25 200.50\n");
        check.compare(&parser, b"100.25 200.50\n");
        assert!(check.compared >= 2);
        assert_eq!(check.wrong, 0);
        check.compare(&parser, b"100.26 200.50\n");
        assert_eq!(check.wrong, 1);
    }
}
