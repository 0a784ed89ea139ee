//! The thread that has the child process: it starts the child, gives it programs, writes their rows into lanes, and starts it again when
//! it has died. It ends with the last program.

use std::sync::Arc;

use khz_model::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::child::now;
use crate::limits::{LINES_A_MINUTE, LINGER, RESTART, RESTART_MAX, SOUND_FOR};
use crate::process::Process;
use crate::sandbox::{Inner, State};
use crate::wire::{News, Order};

/// It looks for programs that nobody reads this often.
const LOOK: Nanos = Nanos::SECOND;

/// Starts the thread.
pub(crate) fn start(inner: Arc<Inner>) -> Result<(), String> {
    let keeper = Keeper {
        inner,
        child: None,
        rest: Nanos(0),
        again: Nanos(0),
        started: Nanos(0),
        lines: (0, 0),
        bells: Vec::new(),
    };
    let thread = std::thread::Builder::new().name("programs".to_owned());
    thread
        .spawn(move || keeper.run())
        .map(drop)
        .map_err(|error| format!("its thread cannot be started: {error}"))
}

struct Keeper {
    inner: Arc<Inner>,
    child: Option<Process>,
    /// How long the next start of the child waits, and until when.
    rest: Nanos,
    again: Nanos,
    started: Nanos,
    /// The present minute, and the lines of it.
    lines: (u64, u32),
    /// The programs that have new rows.
    bells: Vec<u32>,
}

impl Keeper {
    fn run(mut self) {
        while self.turn() {
            self.sleep();
        }
    }

    /// Does what is to be done; `false`: there are no programs any more.
    fn turn(&mut self) -> bool {
        self.hear();
        let inner = self.inner.clone();
        let mut state = inner.state();
        let now = now();
        while let Some(at) = state.entries.iter().position(|entry| entry.is_left(now, LINGER)) {
            state.end(at);
            inner.note_counts(&state);
        }
        if state.entries.is_empty() {
            state.ends.clear();
            state.is_kept = false;
            if let Some(child) = self.child.take() {
                child.end();
            }
            return false;
        }
        if self.child.is_none() && now >= self.again {
            self.start_child(&mut state, now);
        }
        if self.child.is_some() && self.give_orders(&mut state).is_err() {
            self.lose_child(&mut state, now);
        }
        true
    }

    fn start_child(&mut self, state: &mut State, now: Nanos) {
        self.started = now;
        match Process::start(&self.inner.settings.child) {
            Ok(child) => self.child = Some(child),
            Err(why) => self.wait_with_child(
                state,
                now,
                &format!("the process for programs cannot be started: {why}"),
            ),
        }
    }

    /// Says why there are no rows, and starts the child again later.
    fn wait_with_child(&mut self, state: &mut State, now: Nanos, why: &str) {
        let is_sound = now.since(self.started) > SOUND_FOR;
        self.rest = if is_sound { RESTART } else { Nanos(self.rest.0 * 2).clamp(RESTART, RESTART_MAX) };
        self.again = Nanos(now.0 + self.rest.0);
        tracing::warn!("{why}; it is started again in {} ms", self.rest.0 / 1_000_000);
        for entry in &mut state.entries {
            entry.lose_child();
            entry.lane().say(format!("sends no rows now: {why}"));
        }
        state.ends.clear();
    }

    fn lose_child(&mut self, state: &mut State, now: Nanos) {
        let how = self.child.take().map(Process::end).unwrap_or_default();
        let why = format!("the process that executes programs has died ({how})");
        self.wait_with_child(state, now, &why);
    }

    /// Tells the child of programs that it does not have, and of those that are over.
    fn give_orders(&mut self, state: &mut State) -> Result<(), Errno> {
        let Some(child) = &mut self.child else { return Ok(()) };
        while let Some(&number) = state.ends.front() {
            match child.order(&Order::End { number }, None) {
                Ok(()) => state.ends.pop_front(),
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            };
        }
        for entry in state.entries.iter_mut().filter(|entry| !entry.has_begun) {
            match entry.order() {
                Ok((order, ring)) => match child.order(&order, Some(&ring)) {
                    Ok(()) => entry.has_begun = true,
                    Err(Errno::AGAIN) => return Ok(()),
                    Err(errno) => return Err(errno),
                },
                Err(why) => {
                    entry.has_begun = true;
                    entry.lane().say(format!("sends no rows: {why}"));
                }
            }
        }
        Ok(())
    }

    /// Takes all that the child has said.
    fn hear(&mut self) {
        let inner = self.inner.clone();
        let Some(mut child) = self.child.take() else { return };
        let mut state = inner.state();
        let is_there = loop {
            match child.news() {
                Ok(Some(news)) => self.take(news, &mut state),
                Ok(None) => break true,
                Err(()) => break false,
            }
        };
        self.child = Some(child);
        if !is_there {
            self.lose_child(&mut state, now());
        }
        let bells = std::mem::take(&mut self.bells);
        for entry in state.entries.iter().filter(|entry| bells.contains(&entry.number)) {
            entry.ring_bells();
        }
    }

    fn take(&mut self, news: News, state: &mut State) {
        // Of a program that is over, there may still be something on its way.
        let mut with = |number: u32, then: &mut dyn FnMut(&mut crate::entry::Entry)| {
            if let Some(entry) = state.entries.iter_mut().find(|entry| entry.number == number) {
                then(entry);
            }
        };
        match news {
            News::Ready { how } => {
                tracing::info!("programs are executed in a process of their own, confined by {how}")
            }
            News::Unsafe { why } => {
                tracing::warn!("programs are refused: {why}");
                for entry in &mut state.entries {
                    entry.lane().say(format!("sends no rows: programs are refused here, because {why}"));
                }
            }
            News::Names { number, mut names } => {
                with(number, &mut |entry| entry.set_names(std::mem::take(&mut names)));
            }
            News::Row { number, stamp, values } => {
                with(number, &mut |entry| entry.row(stamp, &values));
                if !self.bells.contains(&number) {
                    self.bells.push(number);
                }
            }
            News::Works { number } => with(number, &mut |entry| entry.lane().say(String::new())),
            News::Failed { number, why } => with(number, &mut |entry| {
                entry.lane().say(format!("sends no rows now: its program has failed: {why}"));
            }),
            News::Counts { number, counts } => with(number, &mut |entry| entry.counts.set(counts)),
            News::Said { number, line } => {
                let minute = now().0 / 60_000_000_000;
                if self.lines.0 != minute {
                    self.lines = (minute, 0);
                }
                self.lines.1 += 1;
                if self.lines.1 <= LINES_A_MINUTE {
                    with(number, &mut |entry| {
                        tracing::info!("the program of channel {} says: {line}", entry.channel())
                    });
                }
            }
        }
    }

    /// Sleeps until the child or a reader wants something, or it is time to look.
    fn sleep(&self) {
        let now = now();
        let until = if self.child.is_none() { self.again.since(now).min(LOOK) } else { LOOK };
        let wait =
            Timespec { tv_sec: (until.0 / 1_000_000_000) as i64, tv_nsec: (until.0 % 1_000_000_000) as i64 };
        let bell = PollFd::new(&self.inner.bell, PollFlags::IN);
        let _ = match &self.child {
            Some(child) => {
                let socket = child.socket();
                poll(&mut [bell, PollFd::from_borrowed_fd(socket, PollFlags::IN)], Some(&wait))
            }
            None => poll(&mut [bell], Some(&wait)),
        };
        let _ = rustix::io::read(&self.inner.bell, &mut [0; 8]);
    }
}
