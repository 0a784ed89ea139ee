//! A batch: commands up to a line with a dot. Only the errors are answered, at the end.

use khz_rrd::text;

use super::answers::list;

/// Errors that the answer of one batch has; the rest are counted.
const ERRORS_MAX: usize = 10_000;
/// Bytes of each of them: an error may quote the whole line.
const ERROR_MAX: usize = 300;

/// A running batch.
#[derive(Default)]
pub struct Batch {
    commands: u64,
    errors: u64,
    shown: Vec<String>,
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
        if self.shown.len() < ERRORS_MAX {
            let most = text.floor_char_boundary(ERROR_MAX);
            self.shown.push(format!("{number} {}", &text[..most]));
        }
    }

    /// The answer at the end.
    pub fn answer(mut self) -> Vec<u8> {
        let hidden = self.errors - self.shown.len() as u64;
        if hidden > 0 {
            self.shown.push(format!("{} and further errors: {hidden}", self.commands));
        }
        text::bytes(&list("errors", &self.shown)).into_owned()
    }
}
