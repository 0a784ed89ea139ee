//! The result of a request or a message: accepted, refused for good, not accepted now, or unknown. Also the meaning of HTTP
//! statuses.

use std::time::Duration;

use khz_ask::{NoAnswer, PostAnswer};

use crate::limits::PROBLEM_BYTES_MAX;

/// The answer of the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Accepted; the text is the answer, such as a status.
    Taken(String),
    /// The other side has accepted it for some recipients, and refuses it for the others.
    Partly {
        /// Its word.
        said: String,
        /// How many get nothing.
        refused: u64,
        /// Who these are, and why.
        problem: String,
    },
    /// The other side will never accept it, so a resend does not help.
    Refused(String),
    /// The other side refuses it because of its content. If it has several alerts, one of them may be the reason.
    Unfit(String),
    /// The other side does not accept it now, and may have said how long to wait.
    Later(String, Option<Duration>),
    /// The other side got all of it, but its answer did not come, so it may have accepted it or not. It may have said how long to
    /// wait.
    Unknown(String, Option<Duration>),
}

impl Answer {
    /// The sentence.
    pub fn text(&self) -> &str {
        match self {
            Answer::Taken(text)
            | Answer::Partly { problem: text, .. }
            | Answer::Refused(text)
            | Answer::Unfit(text)
            | Answer::Later(text, _)
            | Answer::Unknown(text, _) => text,
        }
    }

    /// The same with another text.
    pub(crate) fn map(self, change: impl Fn(&str) -> String) -> Self {
        match self {
            Answer::Taken(text) => Answer::Taken(change(&text)),
            Answer::Partly { said, refused, problem } => {
                Answer::Partly { said: change(&said), refused, problem: change(&problem) }
            }
            Answer::Refused(text) => Answer::Refused(change(&text)),
            Answer::Unfit(text) => Answer::Unfit(change(&text)),
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
        // Only the address of the configuration may get the content. Another address must be written there.
        300..=399 => Answer::Refused(format!("it redirects ({said}); write the other address into url")),
        401 | 403 | 407 => Answer::Refused(format!(
            "{said}; it does not let us in: check bearer, user and password, cert and key, and headers"
        )),
        404 | 405 => Answer::Refused(format!("{said}; check url")),
        400 | 413 | 422 => Answer::Unfit(said),
        408 | 425 | 429 => Answer::Later(said, retry_after),
        400..=499 => Answer::Refused(said),
        // A proxy got no answer from the server, which may still have got the request.
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
        for status in [301, 307, 401, 403, 404, 410] {
            assert!(matches!(meaning(status), Answer::Refused(_)), "{status}");
        }
        for status in [400, 413, 422] {
            assert!(matches!(meaning(status), Answer::Unfit(_)), "{status}");
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
