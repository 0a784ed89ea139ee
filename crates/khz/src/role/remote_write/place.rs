//! A receiver over HTTP: the credentials that it gets, and the meaning of its answers.

use khz_ask::PostAnswer;
use khz_remote::write::{Answer, Receiver};

use crate::config::remote::RemoteWrite;
use crate::show::outcome::sentence;

/// A receiver behind HTTP.
pub struct Place(khz_ask::Place);

impl Place {
    /// The receiver of this table. Its secrets must be there.
    pub fn new(receiver: &RemoteWrite) -> Result<Self, String> {
        let server = receiver.server.clone();
        server.login.authorization()?;
        khz_ask::Place::new(server).map(Place).map_err(|error| sentence(&error))
    }
}

impl Receiver for Place {
    fn send(&mut self, packed: &[u8]) -> Answer {
        let headers = [
            ("Content-Type", "application/x-protobuf"),
            ("Content-Encoding", "snappy"),
            ("X-Prometheus-Remote-Write-Version", "0.1.0"),
        ];
        match self.0.send(&headers, packed) {
            Ok(answer) => meaning(&answer),
            Err(none) => Answer::Later(none.problem, None),
        }
    }
}

/// What an answer means for the request. A status that shows a wrong set-up loses no samples: they are sent once a person has fixed
/// it. Only an error in the samples themselves is final.
fn meaning(answer: &PostAnswer) -> Answer {
    let PostAnswer { status, retry_after, text } = answer;
    let problem = match text.is_empty() {
        true => format!("status {status}"),
        false => format!("status {status}: {text}"),
    };
    let mend = |advice: &str| Answer::Later(format!("{problem}; {advice}"), *retry_after);
    match status {
        200..=299 => Answer::Taken,
        // Only the address of the configuration may get the samples and secrets. Another address must be written there.
        300..=399 => {
            Answer::Later(format!("it redirects ({problem}); write the other address into url"), None)
        }
        401 | 402 | 403 | 407 => {
            mend("it does not let us in: check bearer, user and password, cert and key, and headers")
        }
        404..=406 | 415 => {
            mend("it takes no remote write 1.0 there: check url, and whether it must be switched on")
        }
        431 => mend("the headers are too long for it: check headers and bearer"),
        413 => Answer::TooLarge(problem),
        408 | 425 | 429 => Answer::Later(problem, *retry_after),
        400..=499 => Answer::Refused(problem),
        _ => Answer::Later(problem, *retry_after),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_what_is_wrong_with_the_samples_is_dropped() {
        let answer = |status| {
            let after = Some(Duration::from_secs(7));
            meaning(&PostAnswer { status, retry_after: after, text: "why".into() })
        };
        for status in [200, 204] {
            assert_eq!(answer(status), Answer::Taken);
        }
        for status in [400, 409, 410, 422] {
            assert_eq!(answer(status), Answer::Refused(format!("status {status}: why")));
        }
        assert_eq!(answer(413), Answer::TooLarge("status 413: why".into()));
        for status in [408, 425, 429, 500, 503] {
            let expected = Answer::Later(format!("status {status}: why"), Some(Duration::from_secs(7)));
            assert_eq!(answer(status), expected);
        }
        for (status, advice) in [
            (401, "bearer"),
            (403, "bearer"),
            (407, "user"),
            (404, "url"),
            (405, "url"),
            (415, "url"),
            (431, "headers"),
        ] {
            let Answer::Later(problem, _) = answer(status) else { panic!("{status} loses samples") };
            assert!(
                problem.starts_with(&format!("status {status}: why; ")) && problem.contains(advice),
                "{problem}"
            );
        }
        for status in [100, 301, 307, 600] {
            assert!(matches!(answer(status), Answer::Later(_, _)), "{status}");
        }
    }
}
