//! The programs of a node, for the gatherer: which run, and who may run. A thread of its own (`keeper.rs`) has the child process.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use khz_gather::{OutsideLane, ProgramCounts, ProgramWish, Programs};
use khz_model::{Instance, QueryError};
use khz_program::ProgramHash;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use crate::counts::{Counts, add};
use crate::entry::{Entry, refused};
use crate::keeper;
use crate::limits::PROGRAMS_MAX;
pub use crate::process::ChildCommand;

/// What is a setting.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How the child is started.
    pub child: ChildCommand,
    /// The modules that may run; `None`: all that operators send.
    pub allowed: Option<Vec<ProgramHash>>,
}

/// The programs of a node.
#[derive(Clone)]
pub struct Sandbox(Arc<Inner>);

pub(crate) struct Inner {
    pub settings: Settings,
    pub state: Mutex<State>,
    /// What the agent's own numbers show. The gather thread looks here, and never waits.
    counts: Mutex<Vec<Arc<Counts>>>,
    /// Wakes the keeper.
    pub bell: OwnedFd,
}

/// The programs, and what the child does not know yet.
#[derive(Default)]
pub(crate) struct State {
    pub entries: Vec<Entry>,
    /// Programs that the child is to end.
    pub ends: VecDeque<u32>,
    /// The keeper runs.
    pub is_kept: bool,
    next: u32,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Starts nothing before the first program comes.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn new(settings: Settings) -> Result<Self, rustix::io::Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (state, counts) = Default::default();
        Ok(Sandbox(Arc::new(Inner { settings, state, counts, bell })))
    }
}

impl Inner {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list of counts follows that of the programs.
    pub fn note_counts(&self, state: &State) {
        let counts = state.entries.iter().map(|entry| entry.counts.clone()).collect();
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }

    fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

impl State {
    /// Ends a program.
    pub fn end(&mut self, at: usize) {
        let entry = self.entries.remove(at);
        entry.end();
        if entry.has_begun {
            self.ends.push_back(entry.number);
        }
    }
}

impl Programs for Sandbox {
    fn follow(&self, wish: ProgramWish) -> Result<OutsideLane, QueryError> {
        let name = wish.terms.name.clone();
        let hash = ProgramHash::from(wish.program.hash);
        if let Some(allowed) = &self.0.settings.allowed
            && !allowed.contains(&hash)
        {
            let why = format!(
                "the configuration of this node (programs_allowed) does not allow the program {hash}"
            );
            return Err(refused(&name, &why));
        }
        let mut state = self.0.state();
        if let Some(known) = state.entries.iter().find(|entry| entry.is_of(&wish)) {
            let lane = known.lane();
            lane.enter();
            return Ok(lane);
        }
        if let Some(other) = state.entries.iter_mut().find(|entry| entry.is_other_of(&wish)) {
            let lane = other.lane();
            lane.enter();
            other.replace(wish);
            drop(state);
            self.0.ring();
            return Ok(lane);
        }
        if state.entries.len() >= PROGRAMS_MAX {
            return Err(refused(&name, &format!("this node executes {PROGRAMS_MAX} programs already")));
        }
        state.next = state.next.wrapping_add(1);
        let entry = Entry::new(state.next, wish)?;
        let lane = entry.lane();
        lane.enter();
        state.entries.push(entry);
        self.0.note_counts(&state);
        if !state.is_kept {
            keeper::start(self.0.clone()).map_err(|why| refused(&name, &why))?;
            state.is_kept = true;
        }
        drop(state);
        self.0.ring();
        Ok(lane)
    }

    fn counts(&self, each: &mut dyn FnMut(&Instance, ProgramCounts)) {
        let counts = match self.0.counts.try_lock() {
            Ok(counts) => counts,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The numbers of the tick before stay.
            Err(TryLockError::WouldBlock) => return,
        };
        for (at, one) in counts.iter().enumerate() {
            let is_same = |other: &&Arc<Counts>| other.channel == one.channel;
            if counts[..at].iter().any(|other| is_same(&other)) {
                continue;
            }
            let mut all = one.all();
            counts[at + 1..].iter().filter(is_same).for_each(|other| add(&mut all, other.all()));
            each(&one.channel, all);
        }
    }
}
