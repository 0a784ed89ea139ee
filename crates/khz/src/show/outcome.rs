//! How a command ends: exit codes, and the sentence for each. Prints nothing itself.

use std::io;

pub use khz_ask::sentence;
use khz_model::fold::fold;

/// The end of a command: how complete it was, or why it failed.
pub type Outcome = Result<Done, Failure>;

/// A command that ended well.
#[derive(Debug, PartialEq, Eq)]
pub enum Done {
    /// Everything that was asked for: exit code 0.
    Wholly,
    /// The recorded program has ended with this exit code, which becomes ours.
    OfCommand(u8),
    /// Some nodes did not answer, or something does not exist; stderr names both: exit code 3.
    Partly {
        /// The nodes that did not answer.
        missing: Vec<String>,
    },
    /// Some rows did not come: exit code 3.
    Lacking {
        /// What is missing, as a sentence.
        sentence: String,
    },
}

/// A command that failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A bad flag, pattern or setting; nothing was started: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The work itself failed: exit code 1.
    #[error("{0}")]
    Work(String),
    /// The work itself failed, and the reason is on stderr already: exit code 1.
    #[error("the reason is on stderr")]
    Reported,
    /// A program that we run for somebody cannot be started: the exit code is the one that `env` has then.
    #[error("{problem}")]
    NotStarted {
        /// 126 or 127.
        code: u8,
        /// In words.
        problem: String,
    },
    /// Another process did the work, said what there is to say, and ended with this exit code.
    #[error("another process did the work")]
    InSecond(u8),
    /// The terminal, file or pipe that we print to went wrong.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// A usage error from any error or sentence.
    pub fn usage(problem: impl std::fmt::Display) -> Self {
        Failure::Usage(problem.to_string())
    }

    /// A failure at work from any error or sentence.
    pub fn work(problem: impl std::fmt::Display) -> Self {
        Failure::Work(problem.to_string())
    }
}

/// The exit code of an outcome, and the sentence for stderr, if one is due.
pub fn exit(outcome: Outcome) -> (u8, Option<String>) {
    match outcome {
        Ok(Done::Wholly) => (0, None),
        Ok(Done::OfCommand(code)) => (code, None),
        // stderr has named it already.
        Ok(Done::Partly { missing }) if missing.is_empty() => (3, None),
        Ok(Done::Partly { missing }) => (3, Some(format!("no answer from {}", fold(missing)))),
        Ok(Done::Lacking { sentence }) => (3, Some(sentence)),
        Err(Failure::Usage(problem)) => (2, Some(problem)),
        Err(Failure::Work(problem)) => (1, Some(problem)),
        Err(Failure::NotStarted { code, problem }) => (code, Some(problem)),
        Err(Failure::Reported) => (1, None),
        Err(Failure::InSecond(code)) => (code, None),
        // `khz catalog | head` is no failure: the reader has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => (0, None),
        Err(failure @ Failure::Output(_)) => (1, Some(failure.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_the_text_includes_is_not_repeated() {
        let path = "/proc/n1".into();
        let error = khz_ring::RingError::File { what: "create", path, source: rustix::io::Errno::NOENT };
        assert_eq!(sentence(&error), "cannot create /proc/n1: No such file or directory (os error 2)");
    }

    #[test]
    fn missing_nodes_are_named() {
        let (code, sentence) = exit(Ok(Done::Partly { missing: vec!["n1".to_owned(), "n2".to_owned()] }));
        assert_eq!(code, 3);
        assert_eq!(sentence.as_deref(), Some("no answer from n[1-2]"));
        assert_eq!(exit(Ok(Done::Partly { missing: Vec::new() })), (3, None));
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_failure() {
        let broken = Failure::Output(io::ErrorKind::BrokenPipe.into());
        assert_eq!(exit(Err(broken)), (0, None));
        let full = Failure::Output(io::ErrorKind::StorageFull.into());
        assert_eq!(exit(Err(full)).0, 1);
    }
}
