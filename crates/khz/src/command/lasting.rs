//! Rows that go on when their khz goes away: it is asked again, after growing pauses, until it is back. Where there are others to
//! ask, they also go on when their nodes go to another khz. `khz watch`, `khz channel watch` and `khz wait` share this. It counts
//! nothing: who prints the rows knows their numbers.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use khz_ask::{AskError, Piece};

use super::elsewhere::Elsewhere;
use super::this_node::Stream;
use crate::show::outcome::Failure;

/// The pause before the second attempt; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(125);

/// The longest pause: a khz that is back is found soon, and one that is gone for long costs nothing.
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// Why rows are asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// They have ended.
    Ended,
    /// What was asked last has fallen silent: others are asked before it.
    Silence,
    /// This one has more of the nodes. Only it is asked.
    NodesAt(usize),
}

/// Asks for the same rows again, for at most this time.
pub type Reopen = Box<dyn FnMut(Option<Duration>, Why) -> Result<Stream, AskError>>;

/// A stream of rows that survives its khz.
pub struct Lasting {
    /// `None`: the khz is away.
    stream: Option<Stream>,
    /// `None`: nobody can be asked again, since this process reads the kernel itself.
    reopen: Option<Reopen>,
    /// There are others to ask: one that falls silent is left, and one that the nodes leave.
    others: Option<Rc<Elsewhere>>,
    until: Option<Instant>,
    away: Away,
    absent: Absent,
}

/// Nodes that send no rows when the stream begins. What comes of them before they are back is from before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absent {
    /// Their names.
    pub nodes: HashSet<String>,
    /// Somebody waits for them: they are named, or there are no others.
    pub are_wanted: bool,
}

/// An absence of the khz.
struct Away {
    since: Instant,
    /// The pause before the next attempt.
    pause: Duration,
    /// It began with silence, not with an end.
    is_silence: bool,
}

impl Lasting {
    /// A stream that was opened, and how to open it again.
    pub fn new(stream: Stream, reopen: Option<Reopen>) -> Self {
        let away = Away { since: Instant::now(), pause: Duration::ZERO, is_silence: false };
        Lasting { stream: Some(stream), reopen, others: None, until: None, away, absent: Absent::default() }
    }

    /// The same; these nodes send no rows at its beginning.
    pub fn without(self, absent: Absent) -> Self {
        Lasting { absent, ..self }
    }

    /// The nodes that send no rows at its beginning.
    pub fn absent(&self) -> Absent {
        self.absent.clone()
    }

    /// The same where there are others to ask: they are asked, too, when the khz falls silent, or when they have the nodes.
    pub fn among(self, others: Rc<Elsewhere>) -> Self {
        Lasting { others: Some(others), ..self }
    }

    /// It is not opened again after this moment.
    pub fn until(self, until: Option<Instant>) -> Self {
        Lasting { until, ..self }
    }

    fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Waits for the next pieces: none where it only waited, `None` at the end.
    ///
    /// # Errors
    /// Returns why the rows cannot come any more: nobody can be asked again, or the khz that is back refuses.
    pub fn next(&mut self) -> Result<Option<Vec<Piece>>, Failure> {
        if let Some(server) = self.others.as_ref().and_then(|others| others.take_better())
            && let Some(pieces) = self.follow_nodes(server)
        {
            return Ok(Some(pieces));
        }
        match &mut self.stream {
            Some(stream) => match (stream(), &self.others) {
                (Ok(Some(pieces)), _) if pieces.iter().any(|piece| matches!(piece, Piece::Gone { .. })) => {
                    self.leave(pieces)
                }
                (Ok(Some(pieces)), Some(others)) => {
                    others.heard(&pieces);
                    Ok(Some(self.leave_silent(pieces)))
                }
                (Ok(Some(pieces)), None) => Ok(Some(pieces)),
                (ended, _) => self.lose(ended),
            },
            None => self.try_again(),
        }
    }

    /// Goes to the server that has more of the nodes. If that gives no rows, those of the present one go on.
    fn follow_nodes(&mut self, server: usize) -> Option<Vec<Piece>> {
        let left = self.left();
        let stream = self.reopen.as_mut()?(left, Why::NodesAt(server)).ok()?;
        let away = match self.stream.replace(stream) {
            Some(_) => Duration::ZERO,
            None => self.away.since.elapsed(),
        };
        Some(vec![Piece::Again { away }])
    }

    /// Leaves the khz if these pieces say that it has fallen silent.
    fn leave_silent(&mut self, pieces: Vec<Piece>) -> Vec<Piece> {
        let silence = pieces.iter().find_map(|piece| match piece {
            Piece::Server { server, is_silent: true, span } => Some((server.clone(), *span)),
            _ => None,
        });
        let Some((server, span)) = silence else { return pieces };
        self.stream = None;
        let since = Instant::now().checked_sub(span).unwrap_or_else(Instant::now);
        self.away = Away { since, pause: Duration::ZERO, is_silence: true };
        let text = format!("{server} has not been heard for {} s", span.as_secs());
        vec![Piece::Gone { text, is_there: false }]
    }

    /// The khz has ended the stream, and said so.
    fn leave(&mut self, pieces: Vec<Piece>) -> Result<Option<Vec<Piece>>, Failure> {
        let is_over = self.left().is_some_and(|left| left.is_zero());
        let reason = pieces.iter().find_map(|piece| match piece {
            Piece::Gone { text, .. } => Some(text.clone()),
            _ => None,
        });
        if self.reopen.is_none() || is_over {
            return Err(Failure::work(reason.unwrap_or_default()));
        }
        self.stream = None;
        self.away = Away { since: Instant::now(), pause: Duration::ZERO, is_silence: false };
        Ok(Some(pieces))
    }

    /// The stream has ended.
    fn lose(&mut self, ended: Result<Option<Vec<Piece>>, Failure>) -> Result<Option<Vec<Piece>>, Failure> {
        let is_over = self.left().is_some_and(|left| left.is_zero());
        if self.reopen.is_none() || is_over {
            return ended;
        }
        let text = match ended {
            Err(failure) => failure.to_string(),
            Ok(_) => "the khz that was asked has ended".to_owned(),
        };
        self.stream = None;
        self.away = Away { since: Instant::now(), pause: Duration::ZERO, is_silence: false };
        Ok(Some(vec![Piece::Gone { text, is_there: false }]))
    }

    fn try_again(&mut self) -> Result<Option<Vec<Piece>>, Failure> {
        let left = self.left();
        let Some(reopen) = &mut self.reopen else { return Ok(None) };
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
        std::thread::sleep(left.map_or(self.away.pause, |left| left.min(self.away.pause)));
        self.away.pause = (self.away.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        match reopen(left, if self.away.is_silence { Why::Silence } else { Why::Ended }) {
            Ok(stream) => {
                self.stream = Some(stream);
                Ok(Some(vec![Piece::Again { away: self.away.since.elapsed() }]))
            }
            Err(error) if error.is_final() => Err(error.into()),
            Err(_) => Ok(Some(Vec::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    fn stream(mut answers: Vec<Result<Option<Vec<Piece>>, Failure>>) -> Stream {
        answers.reverse();
        Box::new(move || answers.pop().unwrap_or(Ok(None)))
    }

    /// No others that anybody knows.
    fn others() -> Rc<Elsewhere> {
        Rc::new(Elsewhere::start(Vec::new(), &[], 0).unwrap())
    }

    fn nobody() -> AskError {
        AskError::NobodyThere { url: "http://h".to_owned(), reason: "refused".to_owned() }
    }

    #[test]
    fn it_is_opened_again_until_it_is_back_and_says_so() {
        let answers = Rc::new(RefCell::new(vec![Ok(stream(vec![Ok(Some(vec![]))])), Err(nobody())]));
        let reopen: Reopen =
            Box::new(move |_, _| answers.borrow_mut().pop().unwrap_or_else(|| Err(nobody())));
        let mut rows = Lasting::new(stream(vec![Err(Failure::work("it broke off"))]), Some(reopen));
        let mut next = || rows.next().unwrap().unwrap();
        assert_eq!(next(), [Piece::Gone { text: "it broke off".to_owned(), is_there: false }]);
        assert_eq!(next(), [], "nobody is there yet");
        assert!(matches!(next()[..], [Piece::Again { .. }]));
        assert_eq!(next(), [], "the new stream");
        assert!(matches!(&next()[..], [Piece::Gone { text, .. }] if text.contains("has ended")));
    }

    #[test]
    fn one_that_falls_silent_is_left_only_where_there_are_others_which_are_asked_before_it() {
        let silent = || {
            let span = Duration::from_secs(3);
            vec![Piece::Server { server: "http://b".to_owned(), is_silent: true, span }]
        };
        let mut rows = Lasting::new(stream(vec![Ok(Some(silent()))]), Some(Box::new(|_, _| Err(nobody()))));
        assert_eq!(rows.next().unwrap(), Some(silent()), "there is nobody else");
        let asked = Rc::new(RefCell::new(Vec::new()));
        let noted = asked.clone();
        let reopen: Reopen = Box::new(move |_, why| {
            noted.borrow_mut().push(why);
            Ok(stream(vec![]))
        });
        let mut rows = Lasting::new(stream(vec![Ok(Some(silent()))]), Some(reopen)).among(others());
        let text = "http://b has not been heard for 3 s".to_owned();
        assert_eq!(rows.next().unwrap(), Some(vec![Piece::Gone { text, is_there: false }]));
        let again = rows.next().unwrap().unwrap();
        assert!(matches!(again[..], [Piece::Again { away }] if away >= Duration::from_secs(3)), "{again:?}");
        assert!(matches!(&rows.next().unwrap().unwrap()[..], [Piece::Gone { .. }]));
        rows.next().unwrap();
        assert_eq!(*asked.borrow(), [Why::Silence, Why::Ended]);
    }

    #[test]
    fn a_stream_that_the_khz_ends_itself_is_opened_again_and_nobody_says_that_the_khz_is_away() {
        let dropped = || vec![Piece::Gone { text: "you fell behind".to_owned(), is_there: true }];
        let reopen: Reopen = Box::new(|_, _| Ok(stream(vec![Ok(Some(vec![]))])));
        let mut rows = Lasting::new(stream(vec![Ok(Some(dropped()))]), Some(reopen));
        assert_eq!(rows.next().unwrap(), Some(dropped()));
        assert!(matches!(rows.next().unwrap().unwrap()[..], [Piece::Again { .. }]));
        assert_eq!(rows.next().unwrap(), Some(vec![]));
        let ended = Lasting::new(stream(vec![Ok(Some(dropped()))]), None).next();
        assert!(matches!(ended, Err(Failure::Work(text)) if text == "you fell behind"));
    }

    #[test]
    fn a_refusal_is_final_and_so_is_the_end_of_what_cannot_be_opened_again() {
        let refused = || AskError::NotAllowed("you may not".to_owned());
        let mut rows = Lasting::new(stream(vec![]), Some(Box::new(move |_, _| Err(refused()))));
        assert!(matches!(&rows.next().unwrap().unwrap()[..], [Piece::Gone { .. }]));
        assert!(matches!(rows.next(), Err(Failure::Usage(text)) if text == "you may not"));
        assert_eq!(Lasting::new(stream(vec![]), None).next().unwrap(), None);
        let over =
            Lasting::new(stream(vec![]), Some(Box::new(|_, _| Err(nobody())))).until(Some(Instant::now()));
        assert_eq!({ over }.next().unwrap(), None, "the time is over");
    }
}
