//! What readers want from the server's thread: commands for connections, and a bell that wakes it.

use std::sync::{Arc, Mutex, MutexGuard};

use khz_link::texts::ReadFrame;
use khz_link::{Ask, HubEnd};
use khz_model::{Nanos, Rate};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use crate::node::Terms;

/// Something to be said on a connection.
#[derive(Debug)]
pub(crate) enum Command {
    /// Open a lane for this.
    Interest { number: u32, terms: Arc<Terms> },
    /// A row of an on-demand interest is wanted at once.
    Now { number: u32, ask: u32 },
    /// Nobody wants it any more.
    Dismiss { number: u32 },
    /// A kernel text is wanted, or at another pace.
    Read { number: u32, path: String, period: Nanos },
    /// One that is wanted is to be read at once.
    TextNow { number: u32, ask: u32 },
    /// It is not wanted any more.
    Unread { number: u32 },
    /// Rows of a lane are wanted once more.
    Again { lane: u32, from: u64, to: u64 },
    /// A lane is not wanted any more.
    Leave { lane: u32 },
    /// The server ends.
    Stop,
    /// End it, with the reason for both logs.
    Cut { reason: khz_link::Reason, text: String },
}

impl Command {
    /// Says it to the peer; `Err`: the connection ends, for this reason.
    pub fn say(self, end: &mut HubEnd, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Command::Interest { number, terms } => {
                // The nodes are chosen here: an older agent reads no lists of several hosts.
                let patterns: Vec<&str> = terms.patterns.iter().map(khz_model::Pattern::series).collect();
                let (exact, prompt) = (terms.exact, terms.prompt);
                let period = terms.rate.map_or(Nanos(0), Rate::period);
                end.interest(&Ask { number, period, exact, prompt, past: false, patterns: &patterns }, out);
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
            Command::Stop => {}
        }
        Ok(())
    }
}

/// Commands on their way to the server's thread, each with the connection that it is for.
#[derive(Debug)]
pub(crate) struct Mailbox {
    bell: OwnedFd,
    commands: Mutex<Vec<(u64, Command)>>,
}

impl Mailbox {
    pub fn new() -> Result<Self, rustix::io::Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox { bell, commands: Mutex::default() })
    }

    fn commands(&self) -> MutexGuard<'_, Vec<(u64, Command)>> {
        self.commands.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Leaves a command for a connection. Bounded by the interests of all nodes: each is asked for and
    /// dismissed once.
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

    /// Wakes the server's thread.
    pub fn ring(&self) {
        // It can only fail when the counter is full, and then the bell is ringing already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// What the server waits on.
    pub fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Takes everything out.
    pub fn take(&self) -> Vec<(u64, Command)> {
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        std::mem::take(&mut self.commands())
    }
}
