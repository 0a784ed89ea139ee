//! One connection from its first byte to its last: reads commands and sends pages, one after the other. While
//! it sends an answer it reads nothing, so a client that does not read its answers cannot pile up more. Such
//! a client is dropped after a time limit.

use std::io;
use std::sync::Arc;

use khz_door::counts::count;
use khz_door::{
    Accepted, Access, Caller, Connection, Entered, Held, Sealed, Socket, Stalling, Turned, enter,
};
use khz_model::{Nanos, QueryError, Rate, Share, Wanted};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::describe::Listing;
use crate::extension::{Extension, HELP};
use crate::gone::Gone;
use crate::input::{Command, Input, Unusable};
use crate::limits::Limits;
use crate::page::Page;
use crate::session::{Session, Shared};

/// Bytes read at once: no person types more.
const ROOM_BYTES: usize = 4_096;

/// What one connection needs.
pub(crate) struct Talk {
    pub connection: Arc<Connection>,
    pub shared: Shared,
    pub access: Access,
    pub sealed: Option<Sealed>,
    pub limits: Limits,
    pub closing: watch::Receiver<bool>,
    pub _open: Held,
}

/// Why a connection ends.
enum Ended {
    /// The client or its socket ended it.
    Gone,
    /// The client sends a command that is too long.
    Unusable(Unusable),
    /// The client does not read.
    Stalled,
    /// The query has stopped.
    Stopped,
    /// The answer does not fit into the memory of all connections.
    Full,
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::TimedOut { Ended::Stalled } else { Ended::Gone }
    }
}

impl From<Unusable> for Ended {
    fn from(unusable: Unusable) -> Self {
        Ended::Unusable(unusable)
    }
}

impl Talk {
    /// Admits the client, and talks until either side ends the connection.
    pub async fn run(mut self, socket: Accepted) {
        let connection = Arc::clone(&self.connection);
        let mut closing = self.closing.clone();
        let counters = self.shared.counters.clone();
        let entered = tokio::select! {
            entered = enter(socket, self.sealed.take()) => entered,
            () = connection.evicted() => return,
            _ = closing.changed() => return,
        };
        let entered = match entered {
            Ok(entered) => entered,
            Err(Turned::Slow | Turned::Socket(_) | Turned::Plain | Turned::Stranger(_)) => {
                return count(&counters.handshakes_failed);
            }
        };
        let ended = tokio::select! {
            biased;
            ended = self.talk(entered) => ended,
            () = connection.evicted() => return,
            _ = closing.changed() => return,
        };
        match ended {
            Ended::Unusable(Unusable::MaskTooLong) => count(&counters.dropped_mask),
            Ended::Unusable(Unusable::LineTooLong) => count(&counters.dropped_line),
            Ended::Stalled => count(&counters.dropped_stalled),
            Ended::Full => count(&counters.dropped_full),
            Ended::Gone | Ended::Stopped => {}
        }
    }

    async fn talk(self, Entered { socket, origin, .. }: Entered) -> Ended {
        let Talk { connection, shared, access, limits, .. } = self;
        let mut socket = Stalling::new(socket, limits.stall_timeout, limits.taken_min);
        let caller = match access.caller(&origin, None) {
            Ok(caller) => caller,
            Err(error) => {
                count(&shared.counters.strangers);
                let _ = socket.write_all(format!(":error {error}\n").as_bytes()).await;
                return Ended::Gone;
            }
        };
        let Some(share) = shared.answers.take(0) else { return Ended::Full };
        let session = Session::new(shared);
        let mut exchange = Exchange { socket, session, caller, limits, page: Page::default(), share };
        let (mut input, mut room) = (Input::default(), vec![0; ROOM_BYTES]);
        loop {
            let read = match exchange.socket.read(&mut room).await {
                Ok(0) | Err(_) => return Ended::Gone,
                Ok(read) => read,
            };
            let Some(_busy) = connection.busy() else { return Ended::Gone };
            if let Err(ended) = exchange.answer_all(&mut input, &mut room, read).await {
                return ended;
            }
        }
    }
}

/// What an exchange of commands and answers needs.
struct Exchange {
    socket: Stalling<Socket>,
    session: Session,
    caller: Caller,
    limits: Limits,
    page: Page,
    /// The memory of page and session.
    share: Share,
}

impl Exchange {
    /// Executes every command in the bytes that were read.
    async fn answer_all(&mut self, input: &mut Input, room: &mut [u8], mut read: usize) -> Result<(), Ended> {
        loop {
            let mut bytes = &room[..read];
            let mut every = None;
            while let Some(command) = input.next(&mut bytes)? {
                every = self.answer(command).await?;
                if every.is_some() {
                    break;
                }
            }
            let Some(rate) = every else { return Ok(()) };
            let rest = bytes.len();
            let first = read - rest;
            room.copy_within(first..read, 0);
            // Input that is already here ends a subscription before it begins.
            read = if rest > 0 { rest } else { self.every(rate, room).await? };
        }
    }

    /// Answers one command. Returns a rate if statuses are to follow.
    async fn answer(&mut self, command: Command) -> Result<Option<Rate>, Ended> {
        count(&self.session.shared.counters.commands);
        match command {
            Command::Describe => self.describe(Listing::Plain).await?,
            Command::Status => self.status().await?,
            Command::Mask(mask) => self.session.choose(mask),
            Command::Extension(line) => return self.extension(&line).await,
        }
        Ok(None)
    }

    async fn extension(&mut self, line: &str) -> Result<Option<Rate>, Ended> {
        let mut rate = None;
        let answer = match Extension::read(line) {
            Err(problem) => format!(":error {problem}\n"),
            Ok(Extension::Help) => HELP.to_owned(),
            Ok(Extension::Items { types }) => {
                let listing = if types { Listing::Typed } else { Listing::Full };
                return self.describe(listing).await.map(|()| None);
            }
            Ok(Extension::Slowed) => return self.slowed().await.map(|()| None),
            Ok(Extension::Every(wanted)) => match self.caller.check_rate(wanted) {
                Ok(()) => {
                    rate = Some(wanted.at_most(self.session.shared.query.rate_max()));
                    self.session.every()
                }
                Err(error) => format!(":error {error}\n"),
            },
            Ok(other) => self.session.set(other),
        };
        self.page.put(answer.as_bytes());
        self.send().await?;
        Ok(rate)
    }

    /// Lists the items of all nodes.
    async fn describe(&mut self, listing: Listing) -> Result<(), Ended> {
        let gone = self.learn().await?;
        let mut describe = self.session.describe(listing, gone, &mut self.page);
        loop {
            let items = self.session.shared.items.clone();
            let goes_on = describe.go_on(&items.lock(), &mut self.page);
            self.send().await?;
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Sends the lanes that run slower than asked.
    async fn slowed(&mut self) -> Result<(), Ended> {
        let lines: Vec<String> = self.session.slowed().collect();
        for line in lines {
            self.page.put(line.as_bytes());
            if self.page.is_full() {
                self.send().await?;
            }
        }
        self.page.put(b"\n");
        self.send().await
    }

    /// Reads the items from the rows at hand: gathers nothing for it.
    async fn learn(&mut self) -> Result<Gone, Ended> {
        let query = self.session.shared.query.clone();
        let mut look = query.look(&Wanted::default(), Nanos(u64::MAX));
        stopped(look.ready().await)?;
        Ok(self.session.learn_from(&mut *look))
    }

    async fn status(&mut self) -> Result<(), Ended> {
        if self.session.shared.items.lock().list().is_empty() {
            self.learn().await?;
        }
        let query = self.session.shared.query.clone();
        let age_max = self.session.age_max();
        let mut look = query.look(self.session.wanted(), age_max);
        // Starts the timer only when a node has to be waited for.
        let deadline = self.limits.answer_deadline;
        tokio::select! {
            biased;
            ready = look.ready() => stopped(ready)?,
            () = async { sleep(deadline).await } => {}
        }
        self.session.begin(&mut self.page);
        while self.session.go_on(&mut *look, &mut self.page) {
            self.send().await?;
        }
        self.session.end(&*look, &mut self.page);
        self.send().await
    }

    /// Sends statuses until the client sends something. That is then in `room`; returns its length.
    async fn every(&mut self, rate: Rate, room: &mut [u8]) -> Result<usize, Ended> {
        let mut ticks = interval(rate.period().into());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                read = self.socket.read(room) => match read {
                    Ok(0) | Err(_) => return Err(Ended::Gone),
                    Ok(read) => return Ok(read),
                },
                _ = ticks.tick() => {}
            }
            self.status().await?;
        }
    }

    /// Sends the page and empties it.
    async fn send(&mut self) -> Result<(), Ended> {
        if !self.share.set((self.page.held() + self.session.held()) as u64) {
            return Err(Ended::Full);
        }
        self.socket.write_all(self.page.written()).await?;
        self.socket.flush().await?;
        self.page.clear();
        Ok(())
    }
}

/// If the gatherer has stopped, the connection ends; any other error leaves the answer empty.
fn stopped(ready: Result<(), QueryError>) -> Result<(), Ended> {
    match ready {
        Err(QueryError::Stopped) => Err(Ended::Stopped),
        _ => Ok(()),
    }
}
