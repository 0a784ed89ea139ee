//! What came of a request or a message: taken, refused for good, not taken now, or unknown; and what HTTP's statuses mean.

use std::time::Duration;

use khz_ask::{NoAnswer, PostAnswer};

use crate::limits::PROBLEM_BYTES_MAX;

/// What the other side said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has it; its word, such as a status.
    Taken(String),
    /// It has it for some of those to whom it goes, and refuses it for the others.
    Partly {
        /// Its word.
        said: String,
        /// How many get nothing.
        refused: u64,
        /// Who these are, and why.
        problem: String,
    },
    /// It will never take it: sending it again does not help.
    Refused(String),
    /// It does not take it now; it may have said for how long.
    Later(String, Option<Duration>),
    /// It may have it or not: it got all of it, and its answer did not come. It may have said for how long it wants to be left
    /// alone.
    Unknown(String, Option<Duration>),
}

impl Answer {
    /// The sentence.
    pub fn text(&self) -> &str {
        match self {
            Answer::Taken(text)
            | Answer::Partly { problem: text, .. }
            | Answer::Refused(text)
            | Answer::Later(text, _)
            | Answer::Unknown(text, _) => text,
        }
    }

    /// The same with another sentence.
    pub(crate) fn map(self, change: impl Fn(&str) -> String) -> Self {
        match self {
            Answer::Taken(text) => Answer::Taken(change(&text)),
            Answer::Partly { said, refused, problem } => {
                Answer::Partly { said: change(&said), refused, problem: change(&problem) }
            }
            Answer::Refused(text) => Answer::Refused(change(&text)),
            Answer::Later(text, wish) => Answer::Later(change(&text), wish),
            Answer::Unknown(text, wish) => Answer::Unknown(change(&text), wish),
        }
    }
}

/// What a status means.
pub(crate) fn of_http(answer: Result<PostAnswer, NoAnswer>) -> Answer {
    let PostAnswer { status, retry_after, text } = match answer {
        Ok(answer) => answer,
        Err(NoAnswer { problem, may_have_arrived: true }) => return Answer::Unknown(cut(problem), None),
        Err(NoAnswer { problem, .. }) => return Answer::Later(cut(problem), None),
    };
    let said = match text.is_empty() {
        true => format!("status {status}"),
        false => cut(format!("status {status}: {text}")),
    };
    match status {
        200..=299 => Answer::Taken(said),
        // What is shown to a server is what the configuration says; another address must be written there.
        300..=399 => Answer::Refused(format!("it redirects ({said}); write the other address into url")),
        401 | 403 | 407 => Answer::Refused(format!(
            "{said}; it does not let us in: check bearer, user and password, cert and key, and headers"
        )),
        404 | 405 => Answer::Refused(format!("{said}; check url")),
        408 | 425 | 429 => Answer::Later(said, retry_after),
        400..=499 => Answer::Refused(said),
        // A proxy says that it has no answer of the server: the server may have the request.
        502 | 504 => Answer::Unknown(said, retry_after),
        _ => Answer::Later(said, retry_after),
    }
}

/// A sentence that fits into a log.
pub(crate) fn cut(mut text: String) -> String {
    if text.len() > PROBLEM_BYTES_MAX {
        let end = (0..=PROBLEM_BYTES_MAX).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(status: u16) -> Answer {
        of_http(Ok(PostAnswer { status, retry_after: Some(Duration::from_secs(7)), text: "why".into() }))
    }

    #[test]
    fn what_may_pass_is_sent_again_and_what_is_wrong_is_not() {
        for status in [200, 202, 204] {
            assert!(matches!(meaning(status), Answer::Taken(_)), "{status}");
        }
        for status in [301, 307, 400, 401, 403, 404, 410, 413, 422] {
            assert!(matches!(meaning(status), Answer::Refused(_)), "{status}");
        }
        for status in [100, 408, 429, 500, 503] {
            let later = Answer::Later(format!("status {status}: why"), Some(Duration::from_secs(7)));
            assert_eq!(meaning(status), later);
        }
        for status in [502, 504] {
            assert!(matches!(meaning(status), Answer::Unknown(..)), "{status}");
        }
        let gone = |may_have_arrived| of_http(Err(NoAnswer { problem: "gone".into(), may_have_arrived }));
        assert_eq!(gone(false), Answer::Later("gone".into(), None));
        assert_eq!(gone(true), Answer::Unknown("gone".into(), None));
    }

    #[test]
    fn a_long_problem_is_cut_between_two_letters() {
        let text = cut("\u{20ac}".repeat(PROBLEM_BYTES_MAX));
        assert!(text.len() <= PROBLEM_BYTES_MAX + 3 && text.ends_with("\u{20ac}..."));
    }
}
