//! Commands from readers to the threads that own connections, with a bell that wakes the thread.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use khz_link::driver::Waker;
use khz_link::freeze::Freeze;
use khz_link::texts::ReadFrame;
use khz_link::{Ask, ChannelFrame, HubEnd, Want};
use khz_model::{Nanos, Rate};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use crate::freezes::FreezeOrder;
use crate::node::Terms;

/// A frame to send on a connection, or what to do with it.
#[derive(Debug)]
pub(crate) enum Command {
    /// Interest, or Channel: a subscription; the node opens a lane for it.
    Interest { number: u32, terms: Arc<Terms>, is_own: bool },
    /// Now: a row of a subscription without a rate is requested.
    Now { number: u32, ask: u32 },
    /// Dismiss: the subscription ends.
    Dismiss { number: u32 },
    /// Read: a kernel text is wanted, or at another pace.
    Read { number: u32, path: String, period: Nanos },
    /// TextNow: a wanted kernel text is requested now.
    TextNow { number: u32, ask: u32 },
    /// Unread: a kernel text is not wanted any more.
    Unread { number: u32 },
    /// Again: these rows of a lane are to be sent again.
    Again { lane: u32, from: u64, to: u64 },
    /// Leave: a lane is not wanted any more.
    Leave { lane: u32 },
    /// Freeze: the rows around a moment are to be kept.
    Freeze(Arc<FreezeOrder>),
    /// Thaw: they are not needed any more.
    Thaw { number: u64 },
    /// Want: the frozen rows of a lane are fetched.
    Want { lane: u32, want: Want },
    /// The link door closes.
    Stop,
    /// The connection ends; the reason goes into both logs.
    Cut { reason: khz_link::Reason, text: String },
}

impl Command {
    /// Writes the frame. An error is the reason why the connection ends.
    pub fn say(self, end: &mut HubEnd, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Command::Interest { number, terms, is_own: own } => {
                // The hub has chosen the nodes: an agent of an older version reads no lists of several hosts.
                let patterns: Vec<&str> = terms.patterns.iter().map(khz_model::Pattern::series).collect();
                let (exact, prompt) = (terms.exact, terms.prompt);
                let period = terms.rate.map_or(Nanos(0), Rate::period);
                let channel = terms.channel.as_deref().map(ChannelFrame::from);
                let ask =
                    Ask { number, period, exact, prompt, past: false, own, channel, patterns: &patterns };
                end.interest(&ask, out);
            }
            Command::Now { number, ask } => end.now(number, ask, out),
            Command::Dismiss { number } => end.dismiss(number, out),
            Command::Again { lane, from, to } => end.again(lane, from, to, out),
            Command::Leave { lane } => end.leave(lane, out),
            Command::Read { number, path, period } => {
                end.read(&ReadFrame { number, node: "", period, path: &path }, out);
            }
            Command::TextNow { number, ask } => end.text_now(number, ask, out),
            Command::Unread { number } => end.unread(number, out),
            Command::Cut { reason, text } => {
                end.refuse(reason, &text, out);
                return Err(text);
            }
            Command::Freeze(order) => {
                let FreezeOrder { number, before, after, ref cause, .. } = *order;
                let (at, age) = order.moment();
                end.freeze(&Freeze { number, at, age, before, after, cause }, out);
            }
            Command::Thaw { number } => end.thaw(number, out),
            Command::Want { lane, want } => end.want(lane, &want, out),
            Command::Stop => {}
        }
        Ok(())
    }
}

/// Commands on their way, each with its connection.
#[derive(Debug)]
pub(crate) struct Mailbox {
    bell: OwnedFd,
    /// What wakes the thread, if it does not wait on the bell.
    waker: OnceLock<Waker>,
    commands: Mutex<Vec<(u64, Command)>>,
}

impl Mailbox {
    pub fn new() -> Result<Self, rustix::io::Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox { bell, waker: OnceLock::new(), commands: Mutex::default() })
    }

    /// Its thread is a link's, which this wakes. Only the first call counts.
    pub fn wakes(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    fn commands(&self) -> MutexGuard<'_, Vec<(u64, Command)>> {
        self.commands.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Leaves a command for a connection. The number of commands is bounded by the subscriptions of all nodes: each is
    /// made and ended once.
    pub fn put(&self, connection: u64, command: Command) {
        let first = {
            let mut commands = self.commands();
            commands.push((connection, command));
            commands.len() == 1
        };
        if first {
            self.ring();
        }
    }

    /// Wakes the thread.
    pub fn ring(&self) {
        if let Some(waker) = self.waker.get() {
            return waker.wake();
        }
        // It fails only if the counter is full, and then the bell is ringing already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// The descriptor on which the thread waits.
    pub fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Takes everything out.
    pub fn take(&self) -> Vec<(u64, Command)> {
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        std::mem::take(&mut self.commands())
    }
}
