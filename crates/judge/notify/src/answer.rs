//! What came of a request or a message: taken, refused for good, or to be sent again later; and what HTTP's statuses mean.

use std::time::Duration;

use khz_ask::PostAnswer;

use crate::limits::PROBLEM_BYTES_MAX;

/// What the other side said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has it; its word, such as a status.
    Taken(String),
    /// It will never take it: sending it again does not help.
    Refused(String),
    /// It does not take it now; it may have said for how long.
    Later(String, Option<Duration>),
}

impl Answer {
    /// The sentence.
    pub fn text(&self) -> &str {
        match self {
            Answer::Taken(text) | Answer::Refused(text) | Answer::Later(text, _) => text,
        }
    }
}

/// What a status means.
pub(crate) fn of_http(answer: Result<PostAnswer, String>) -> Answer {
    let PostAnswer { status, retry_after, text } = match answer {
        Ok(answer) => answer,
        Err(problem) => return Answer::Later(cut(problem), None),
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
        for status in [100, 408, 429, 500, 502, 503] {
            let later = Answer::Later(format!("status {status}: why"), Some(Duration::from_secs(7)));
            assert_eq!(meaning(status), later);
        }
        assert_eq!(of_http(Err("gone".into())), Answer::Later("gone".into(), None));
    }

    #[test]
    fn a_long_problem_is_cut_between_two_letters() {
        let text = cut("\u{20ac}".repeat(PROBLEM_BYTES_MAX));
        assert!(text.len() <= PROBLEM_BYTES_MAX + 3 && text.ends_with("\u{20ac}..."));
    }
}
