//! Answers that are built while they are sent: a page is written and passed to the connection, and the next
//! page begins when the connection has room. The door's budget pays for what an answer holds. Knows nothing
//! of the contents.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::BoxError;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::Frame;
use khz_model::Share;

use crate::counters::{Counters, count};
use crate::limits::{HELD_BYTES_FREE, Limits, PAGE_BYTES, PAGE_ROOM, PAGES_BYTES};
use crate::refusal::Refusal;
use crate::routes::App;
use crate::turns::{Queue, Turns};

/// What an answer is written with. The function that writes the answer owns it until the end.
pub(crate) struct Writer {
    desk: Desk,
    share: Arc<Share>,
    /// Where it waits for its turn to write a page.
    turns: Arc<Turns>,
    queue: Queue,
    page: String,
    /// Bytes that the answer needs besides its pages.
    held: u64,
    /// Bytes that it keeps others from freeing, which the budget has paid for elsewhere.
    shared: u64,
    /// Bytes of the last page that was passed on: the connection may still hold it.
    handed: u64,
    pace: Pace,
}

/// How fast an answer is taken.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// How long a client may take nothing.
    patience: Duration,
    /// Bytes that it must take each second, if the answer holds much.
    rate: u64,
    taken: u64,
    /// How long pages have waited until they were taken.
    waited: Duration,
}

impl Pace {
    fn new(limits: &Limits) -> Self {
        Pace { patience: limits.stall_timeout, rate: limits.held_rate, taken: 0, waited: Duration::ZERO }
    }

    fn count(&mut self, bytes: u64, waited: Duration) {
        self.taken = self.taken.saturating_add(bytes);
        self.waited = self.waited.saturating_add(waited);
    }

    /// True if an answer that holds this many bytes besides its pages is taken too slowly.
    fn is_too_slow(&self, held: u64) -> bool {
        let due = self.patience.as_secs_f64() + self.taken as f64 / self.rate as f64;
        held > HELD_BYTES_FREE && self.waited.as_secs_f64() > due
    }
}

/// Where a page waits until it is taken.
#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Option<Bytes>>>);

impl Desk {
    fn take(&self) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, page: Bytes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(page);
    }

    /// Puts a page there, and waits until it is taken; the taker then asks for the next one.
    async fn hand_over(&self, page: Bytes) {
        let mut page = Some(page);
        std::future::poll_fn(|_| match page.take() {
            Some(page) => {
                self.put(page);
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
        .await;
    }
}

impl Writer {
    /// The page to write on.
    pub fn page(&mut self) -> &mut String {
        &mut self.page
    }

    /// Call this after each piece: it sends the page when it is full.
    pub async fn turn(&mut self) -> Result<(), Refusal> {
        self.check()?;
        if self.page.len() >= PAGE_BYTES {
            let mut page = std::mem::replace(&mut self.page, String::with_capacity(PAGE_ROOM));
            // The first page has doubled its room until the text fitted.
            page.shrink_to(PAGE_ROOM);
            self.handed = page.capacity() as u64;
            self.hand_over(page.into()).await?;
        }
        Ok(())
    }

    /// Writes a long text, page by page.
    pub async fn text(&mut self, text: &str) -> Result<(), Refusal> {
        let mut rest = text;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.floor_char_boundary(PAGE_BYTES));
            self.page.push_str(now);
            self.turn().await?;
            rest = later;
        }
        Ok(())
    }

    /// Sends these bytes as a page of their own: for answers that are no text, which leave the page empty. [`Writer::hold`] must
    /// count them.
    pub async fn send(&mut self, bytes: Vec<u8>) -> Result<(), Refusal> {
        self.check()?;
        if !bytes.is_empty() {
            self.hand_over(bytes.into()).await?;
        }
        Ok(())
    }

    /// Passes a page on, and waits until it is taken, and then for its turn.
    async fn hand_over(&mut self, page: Bytes) -> Result<(), Refusal> {
        let (bytes, began) = (page.len() as u64, Instant::now());
        self.desk.hand_over(page).await;
        self.pace.count(bytes, began.elapsed());
        if self.pace.is_too_slow(self.held.saturating_add(self.shared)) {
            return Err(Refusal::slow());
        }
        self.turns.next(self.queue).await;
        Ok(())
    }

    /// Sets how many bytes the answer holds from now on, besides its pages.
    pub fn hold(&mut self, bytes: u64) -> Result<(), Refusal> {
        self.held = bytes;
        match self.share.set(self.needed()) {
            true => Ok(()),
            false => Err(Refusal::busy()),
        }
    }

    /// Says how many bytes that the budget has paid for elsewhere, as those of a [`Version`](crate::versions::Version), stay as long
    /// as this answer: it must then be taken as fast as if it held them itself.
    pub fn share(&mut self, bytes: u64) {
        self.shared = bytes;
    }

    /// Gives some of what [`Writer::hold`] has set back, when it is written and freed.
    pub fn release(&mut self, bytes: usize) {
        self.held = self.held.saturating_sub(bytes as u64);
        // A share that shrinks always fits.
        self.share.set(self.needed());
    }

    fn check(&self) -> Result<(), Refusal> {
        match self.share.reach(self.needed()) {
            true => Ok(()),
            false => Err(Refusal::busy()),
        }
    }

    fn needed(&self) -> u64 {
        self.held + (self.handed + self.page.capacity() as u64).max(PAGES_BYTES)
    }
}

/// A share of the door's budget for an answer of pages.
fn share(app: &App, queue: Queue) -> Result<Arc<Share>, Refusal> {
    let budget = match queue {
        Queue::Answers => &app.answers,
        Queue::Scrapes => &app.scrape_answers,
        Queue::Own => &app.own_answers,
    };
    budget.take(PAGES_BYTES).map(Arc::new).ok_or_else(Refusal::busy)
}

/// The answer that `write` writes; it returns the writer at the end. An error before the first page is full
/// becomes a refusal; a later one cuts the answer, which the client notices.
pub(crate) async fn answer<F, W>(app: &App, kind: &'static str, write: W) -> Result<Response, Refusal>
where
    W: FnOnce(Writer) -> F,
    F: Future<Output = Result<Writer, Refusal>> + Send + 'static,
{
    answer_in(Queue::Answers, app, kind, write).await
}

/// The same, with turns from this queue.
pub(crate) async fn answer_in<F, W>(
    queue: Queue,
    app: &App,
    kind: &'static str,
    write: W,
) -> Result<Response, Refusal>
where
    W: FnOnce(Writer) -> F,
    F: Future<Output = Result<Writer, Refusal>> + Send + 'static,
{
    let (desk, share) = (Desk::default(), share(app, queue)?);
    app.turns.next(queue).await;
    let turns = Arc::clone(&app.turns);
    let (page, pace) = (String::new(), Pace::new(&app.limits));
    let (held, shared, handed) = (0, 0, 0);
    let (place, paid) = (desk.clone(), share.clone());
    let writer = Writer { desk: place, share: paid, turns, queue, page, held, shared, handed, pace };
    let mut writing: Writing = Box::pin(write(writer));
    let body = match std::future::poll_fn(|cx| first(&mut writing, &desk, cx)).await? {
        Begun::Whole(text) => {
            drop(writing);
            // This cannot exceed the budget: the share was larger until now.
            share.set(text.capacity() as u64);
            Body::from(text)
        }
        Begun::First(page) => {
            let counters = app.counters.clone();
            Body::new(Pages { writing: Some(writing), desk, first: Some(page), counters })
        }
    };
    let kind = HeaderValue::from_static(kind);
    let mut response = ([(header::CONTENT_TYPE, kind)], body).into_response();
    response.extensions_mut().insert(Held(share));
    Ok(response)
}

/// The same in JSON, which must not be cached.
pub(crate) async fn json<F, W>(app: &App, write: W) -> Result<Response, Refusal>
where
    W: FnOnce(Writer) -> F,
    F: Future<Output = Result<Writer, Refusal>> + Send + 'static,
{
    let mut response = answer(app, "application/json", write).await?;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// What a response holds of the budget until its last byte is sent.
#[derive(Clone, Debug)]
pub(crate) struct Held(pub Arc<Share>);

type Writing = Pin<Box<dyn Future<Output = Result<Writer, Refusal>> + Send>>;

/// The beginning of an answer.
enum Begun {
    /// The whole answer.
    Whole(String),
    /// The first page, with more to come.
    First(Bytes),
}

fn first(writing: &mut Writing, desk: &Desk, cx: &mut Context<'_>) -> Poll<Result<Begun, Refusal>> {
    match writing.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(done.map(|writer| Begun::Whole(writer.page))),
        Poll::Pending => match desk.take() {
            Some(page) => Poll::Ready(Ok(Begun::First(page))),
            None => Poll::Pending,
        },
    }
}

/// A body of pages.
struct Pages {
    /// `None` when all is written.
    writing: Option<Writing>,
    desk: Desk,
    first: Option<Bytes>,
    counters: Counters,
}

impl http_body::Body for Pages {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = |page: Bytes| Poll::Ready(Some(Ok(Frame::data(page))));
        if let Some(page) = self.first.take() {
            return frame(page);
        }
        let Some(writing) = &mut self.writing else { return Poll::Ready(None) };
        match writing.as_mut().poll(cx) {
            Poll::Ready(Ok(writer)) => {
                self.writing = None;
                if writer.page.is_empty() { Poll::Ready(None) } else { frame(writer.page.into()) }
            }
            Poll::Ready(Err(refusal)) => {
                self.writing = None;
                count(&self.counters.answers_cut);
                Poll::Ready(Some(Err(refusal.error.into())))
            }
            Poll::Pending => self.desk.take().map_or(Poll::Pending, frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.writing.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_takes_what_an_answer_holds_at_the_rate_that_is_stated_or_is_too_slow() {
        let after = |pages: u64, seconds: u64| {
            let mut pace = Pace::new(&Limits::default());
            (0..pages)
                .for_each(|_| pace.count(PAGE_BYTES as u64, Duration::from_millis(seconds * 1_000 / pages)));
            pace
        };
        // 13 MB: 200 pages. At the rate of the limit they take 200 s, and 10 s are for the first bytes.
        assert!(!after(200, 205).is_too_slow(13_000_000));
        assert!(after(200, 215).is_too_slow(13_000_000));
        assert!(after(10, 1_200).is_too_slow(HELD_BYTES_FREE + 1));
        // What holds little may be taken as slowly as the connection allows.
        assert!(!after(200, 2_000).is_too_slow(HELD_BYTES_FREE));
        assert!(!Pace::new(&Limits::default()).is_too_slow(u64::MAX), "no page has waited yet");
    }
}
