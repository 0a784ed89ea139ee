//! A batch: commands up to a line with a dot, of which only the errors are answered, at the end.

use khz_rrd::text;

use super::answers::list;

/// Errors of one batch that are told; the rest are counted.
const ERRORS_MAX: usize = 10_000;
/// Bytes of each of them: an error may quote the whole line.
const ERROR_MAX: usize = 300;

/// A running batch.
#[derive(Default)]
pub struct Batch {
    commands: u64,
    errors: u64,
    told: Vec<String>,
}

impl Batch {
    /// Counts a command; returns its number.
    pub fn count(&mut self) -> u64 {
        self.commands += 1;
        self.commands
    }

    /// How many commands came so far.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Command `number` failed with the error `text`.
    pub fn error(&mut self, number: u64, text: &str) {
        self.errors += 1;
        if self.told.len() < ERRORS_MAX {
            let most = text.floor_char_boundary(ERROR_MAX);
            self.told.push(format!("{number} {}", &text[..most]));
        }
    }

    /// The answer at the end.
    pub fn answer(mut self) -> Vec<u8> {
        let untold = self.errors - self.told.len() as u64;
        if untold > 0 {
            self.told.push(format!("{} and further errors: {untold}", self.commands));
        }
        text::bytes(&list("errors", &self.told)).into_owned()
    }
}
