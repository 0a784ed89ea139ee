//! The thread `link`: keeps one connection to one of the hubs, however often they fail. A hub that is slow, frozen or
//! hostile can only keep this thread busy.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use khz_model::Nanos;

use crate::dial::Vouch;
use crate::driver::dialer::Dialer;
use crate::driver::preference::{Preference, Prober};
use crate::driver::seat::Seat;
use crate::driver::session::{Buffers, End, Ended, Session, sleep};
use crate::driver::{Shared, clock, counters};
use crate::error::LinkError;
use crate::hub_list::{HubList, Outcome};
use crate::message::Reason;

/// Stack of the thread: its deepest call is rustls'.
const STACK_BYTES: usize = 256 << 10;

/// An agent or a reader, across connections.
pub(crate) trait Caller: Send + 'static {
    /// Its end of the protocol on one connection.
    type End<'a>: End
    where
        Self: 'a;
    /// A connection to this hub begins; the vouch is a proof of who we are.
    fn begin(&mut self, hub: usize, vouch: Option<Vouch>) -> Self::End<'_>;
    /// The seat of the next connection. Other threads that may drive the connection know the seat.
    fn seat<'a>(&self) -> Arc<Seat<Self::End<'a>>>
    where
        Self: 'a,
    {
        Arc::new(Seat::of_one())
    }
    /// A connection has ended, for this reason.
    fn end(end: Self::End<'_>, problem: &str);
    /// Called while there is no connection: does what is due. Returns when to call it again.
    fn tend(&mut self, now: Nanos) -> Option<Nanos> {
        let _ = now;
        None
    }
    /// No connection came about, for this reason.
    fn failed(&mut self, problem: &str) {
        let _ = problem;
    }
}

/// The running thread. Dropping it ends the connection and the thread.
pub(crate) struct Running {
    pub shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts the thread.
    pub fn start<C: Caller>(
        dialer: Arc<Dialer>,
        shared: Arc<Shared>,
        caller: C,
        preference: Option<Arc<Preference>>,
    ) -> std::io::Result<Self> {
        let worker = Worker {
            hub_list: HubList::new(dialer.hubs()),
            dialer,
            preference,
            caller,
            shared: shared.clone(),
            buffers: Buffers::new(),
            last_problems: HashMap::new(),
        };
        let builder = std::thread::Builder::new().name("link".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || worker.run())?;
        Ok(Running { shared, thread: Some(thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the panic is already printed.
            let _ = thread.join();
        }
    }
}

struct Worker<C> {
    dialer: Arc<Dialer>,
    /// Only an agent has it: it goes back to better hubs.
    preference: Option<Arc<Preference>>,
    hub_list: HubList,
    caller: C,
    shared: Arc<Shared>,
    buffers: Buffers,
    /// The last log line of each hub. A hub that is away for a week, or that refuses us, causes
    /// only one line.
    last_problems: HashMap<usize, String>,
}

impl<C: Caller> Worker<C> {
    fn run(mut self) {
        while !self.shared.is_stopped() && self.dialer.hubs() > 0 {
            let (hub, at) = self.hub_list.next(clock::now());
            let wait = at.since(clock::now());
            if wait > Nanos(0) {
                let due = self.caller.tend(clock::now()).map(|due| due.since(clock::now()));
                sleep(None, &self.shared.bell, due.map_or(wait, |due| wait.min(due)));
                continue;
            }
            let (outcome, problem) = self.attempt(hub);
            self.shared.counters.forget();
            self.hub_list.ended(hub, outcome, clock::now(), random());
            if let Outcome::Moved { .. } = outcome {
                tracing::info!("hub {}: {problem}", self.dialer.address(hub));
            } else if !self.shared.is_stopped() {
                counters::add(&self.shared.counters.failures, 1);
                self.log(hub, outcome, &problem);
            }
        }
    }

    fn log(&mut self, hub: usize, outcome: Outcome, problem: &str) {
        let line = format!("hub {}: {problem}", self.dialer.address(hub));
        let has_lasted =
            matches!(outcome, Outcome::Broke { lasted } | Outcome::Closed { lasted } if lasted > Nanos(0));
        let is_news = has_lasted || self.last_problems.get(&hub) != Some(&line);
        if is_news && !self.shared.is_muted() {
            tracing::warn!("{line}");
        }
        self.last_problems.insert(hub, line);
    }

    /// One attempt with one hub, from the name lookup to the end of the connection.
    fn attempt(&mut self, hub: usize) -> (Outcome, String) {
        let (transport, vouch) = match self.dialer.dial(hub, &self.shared) {
            Ok(dialled) => dialled,
            Err(problem) => {
                self.caller.failed(&format!("{}: {problem}", self.dialer.address(hub)));
                if let Some(preference) = &self.preference {
                    preference.left(hub, Nanos(0), &problem);
                }
                return (Outcome::Broke { lasted: Nanos(0) }, problem);
            }
        };
        let seat = self.caller.seat();
        let buffers = std::mem::take(&mut self.buffers);
        let counters = self.shared.counters.clone();
        let session =
            Session::new(self.caller.begin(hub, vouch), transport, buffers, counters, hub as u64 + 1);
        if let Some(preference) = &self.preference {
            preference.came_to(hub);
        }
        // An order to leave may remain from another connection.
        let _ = self.shared.moves.take();
        let prober = self.preference.as_ref().and_then(|all| Prober::start(all, &self.dialer, &self.shared));
        let (session, ended) = seat.talk(session, &self.shared);
        drop(prober);
        let welcome = session.welcome;
        let (end, ended, buffers) = session.finish(ended);
        self.buffers = buffers;
        let lasted = welcome.map_or(Nanos(0), |since| clock::now().since(since));
        if let Some(preference) = &self.preference {
            match &ended {
                Ended::Link(LinkError::Refused { reason: Reason::Proof | Reason::NotAllowed, .. }) => {
                    preference.refused(hub, end.hub_identity());
                }
                _ if welcome.is_some() => preference.accepted(hub),
                _ => {}
            }
        }
        let (outcome, problem) = match ended {
            Ended::Stopped => (Outcome::Broke { lasted }, String::new()),
            Ended::Moves(to, text) => (Outcome::Moved { to }, text),
            Ended::Socket(problem) => (Outcome::Closed { lasted }, problem),
            Ended::Link(error @ LinkError::Refused { .. }) => {
                counters::add(&self.shared.counters.refusals, 1);
                (Outcome::Refused, error.to_string())
            }
            Ended::Link(error) => (Outcome::Broke { lasted }, error.to_string()),
        };
        C::end(end, &format!("{}: {problem}", self.dialer.address(hub)));
        if let Some(preference) = &self.preference {
            preference.left(hub, lasted, &problem);
        }
        (outcome, problem)
    }
}

/// A random number.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK) {
        Ok(8) => u64::from_le_bytes(bytes),
        _ => clock::wall() as u64 ^ u64::from(std::process::id()) << 32,
    }
}
