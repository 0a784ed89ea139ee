//! The hubs of an agent in order of preference: the state of the hubs that the agent is not connected to, and a thread that
//! probes them while the agent is not at the first hub. A probe connects, waits for the Greeting and closes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use khz_model::Nanos;
use khz_trust::explain_io;
use rustix::event::PollFlags;
use rustix::fd::AsFd;

use crate::driver::bell::Bell;
use crate::driver::counters::Counters;
use crate::driver::dialer::Dialer;
use crate::driver::session::sleep;
use crate::driver::transport::Transport;
use crate::driver::worker::random;
use crate::driver::{Shared, clock};
use crate::failback::Failback;
use crate::frame::{self, Frame};
use crate::limits::{FRAME_MAX, VERSION, VERSION_LOWEST, WELCOME_LATE};
use crate::standing::Standing;

/// Stack of the thread: its deepest call is rustls'.
const STACK_BYTES: usize = 256 << 10;
/// More than the length of a Greeting.
const READ_MAX: usize = 2 << 10;

/// What is known of the hubs.
pub(crate) struct Preference {
    known: Mutex<Known>,
    /// Changes with everything that a Standing contains.
    changes: AtomicU64,
}

struct Known {
    failback: Failback,
    hubs: Vec<Hub>,
    present: usize,
}

#[derive(Clone)]
struct Hub {
    address: String,
    /// Why we are not at this hub, and since when.
    problem: Option<(String, Nanos)>,
}

/// To which hub a session is to move, and the text of its Goodbye.
#[derive(Default)]
pub(crate) struct Moves(Mutex<Option<(usize, String)>>);

impl Moves {
    pub fn take(&self) -> Option<(usize, String)> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    pub fn set(&self, to: usize, text: String) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some((to, text));
    }
}

impl Preference {
    pub fn new(addresses: Vec<String>, after: Nanos) -> Self {
        let failback = Failback::new(addresses.len(), after);
        let hubs = addresses.into_iter().map(|address| Hub { address, problem: None }).collect();
        Preference { known: Mutex::new(Known { failback, hubs, present: 0 }), changes: AtomicU64::new(1) }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A connection to this hub begins.
    pub fn came_to(&self, hub: usize) {
        let mut known = self.lock();
        known.present = hub;
        self.changes.fetch_add(1, Ordering::Release);
        known.failback.came_to(hub, clock::now(), random());
    }

    /// The connection has ended after this time, for this reason.
    pub fn left(&self, hub: usize, lasted: Nanos, problem: &str) {
        let mut known = self.lock();
        known.failback.left(hub, lasted);
        let Some(hub) = known.hubs.get_mut(hub) else { return };
        let now = clock::now();
        match &mut hub.problem {
            // No connection came about, so the time of the first failure stays.
            Some((text, _)) if lasted == Nanos(0) => problem.clone_into(text),
            none => *none = Some((problem.to_owned(), now)),
        }
    }

    /// This hub has refused us for a reason that time does not change.
    pub fn refused(&self, hub: usize, identity: [u8; 16]) {
        self.lock().failback.refused(hub, identity);
    }

    /// This hub has accepted us.
    pub fn accepted(&self, hub: usize) {
        self.lock().failback.accepted(hub);
    }

    /// Passes on why we are not at the first hub, if that is the case and has changed. It never waits: the thread that writes
    /// rows may call it.
    pub fn say(&self, said: &mut u64, now: Nanos, say: impl FnOnce(&Standing<'_>)) {
        let changes = self.changes.load(Ordering::Acquire);
        if *said == changes {
            return;
        }
        let Ok(known) = self.known.try_lock() else { return };
        *said = changes;
        if known.present == 0 {
            return;
        }
        let Some(first) = known.hubs.first() else { return };
        let problem = first.problem.as_ref();
        say(&Standing {
            first: &first.address,
            problem: problem.map_or("", |(text, _)| text),
            since: problem.map(|(_, at)| now.since(*at)),
            back: known.failback.back_at().map(|at| at.since(now)),
        });
    }
}

/// The thread that probes better hubs during one connection. The thread ends when this value is
/// dropped.
pub(crate) struct Prober {
    own: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Prober {
    /// Starts it if there is a better hub. If there is no thread, the agent stays where it is.
    pub fn start(preference: &Arc<Preference>, dialer: &Arc<Dialer>, session: &Arc<Shared>) -> Option<Self> {
        preference.lock().failback.next_probe()?;
        // The prober has its own bell: the session's bell wakes the session.
        let own = Shared::new(Bell::new().ok()?, Counters::default());
        let work = Work {
            preference: preference.clone(),
            dialer: dialer.clone(),
            session: session.clone(),
            own: own.clone(),
        };
        let builder = std::thread::Builder::new().name("failback".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || work.run()).ok()?;
        Some(Prober { own, thread: Some(thread) })
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.own.stop();
        if let Some(thread) = self.thread.take() {
            // The bell wakes the thread wherever it waits.
            let _ = thread.join();
        }
    }
}

struct Work {
    preference: Arc<Preference>,
    dialer: Arc<Dialer>,
    session: Arc<Shared>,
    own: Arc<Shared>,
}

impl Work {
    fn run(self) {
        while !self.own.is_stopped() {
            let now = clock::now();
            let (better, probe, ripe) = {
                let known = self.preference.lock();
                (known.failback.better(now), known.failback.next_probe(), known.failback.next_ripe())
            };
            if let Some(hub) = better {
                let mut known = self.preference.lock();
                known.failback.goes_back(hub);
                let address = self.dialer.address(hub);
                let text = match known.failback.has_refused(hub) {
                    true => format!("tries {address} again, which has refused it"),
                    false => format!("goes back to {address}, which is well again"),
                };
                drop(known);
                self.session.moves.set(hub, text);
                self.session.bell.ring();
                return;
            }
            let Some((hub, at)) = probe else { return };
            if at <= now {
                self.probe(hub);
                continue;
            }
            let until = ripe.map_or(at, |ripe| ripe.min(at));
            sleep(None, &self.own.bell, until.since(now));
        }
    }

    fn probe(&self, hub: usize) {
        let greeted =
            self.dialer.dial(hub, &self.own).and_then(|(transport, _)| greeted(transport, &self.own));
        if self.own.is_stopped() {
            return;
        }
        let mut known = self.preference.lock();
        if let Ok(identity) = greeted {
            known.failback.greeted(hub, identity);
        }
        known.failback.probed(hub, greeted.is_ok(), clock::now(), random());
        self.preference.changes.fetch_add(1, Ordering::Release);
        if let (Err(problem), Some(hub)) = (greeted, known.hubs.get_mut(hub)) {
            let since = hub.problem.as_ref().map_or(clock::now(), |(_, since)| *since);
            hub.problem = Some((problem, since));
        }
        drop(known);
        // The next Standing differs.
        self.session.bell.ring();
    }
}

/// Waits for the Greeting of a hub that knows our version. Returns the hub's identity.
fn greeted(mut transport: Transport, own: &Shared) -> Result<[u8; 16], String> {
    let until = Nanos(clock::now().0 + WELCOME_LATE.0);
    let (mut room, mut bytes) = ([0; READ_MAX], Vec::new());
    loop {
        let left = until.since(clock::now());
        if left == Nanos(0) || own.is_stopped() {
            return Err("it accepts connections and does not greet".into());
        }
        let failed = |error: std::io::Error| explain_io(&error);
        // TLS sends first.
        transport.write(&[]).map_err(failed)?;
        match transport.read(&mut room).map_err(failed)? {
            Some(0) => return Err("it closes connections before it greets".into()),
            Some(read) => bytes.extend_from_slice(&room[..read]),
            None => {
                let waits = transport.wants_write();
                let interest = if waits { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
                sleep(Some((transport.socket().as_fd(), interest)), &own.bell, left);
            }
        }
        let Some(raw) = frame::split(&bytes, FRAME_MAX).map_err(|error| error.to_string())? else { continue };
        return match Frame::decode(raw.kind, raw.body).map_err(|error| error.to_string())? {
            Frame::Greeting(greeting) if greeting.lowest <= VERSION && greeting.highest >= VERSION_LOWEST => {
                Ok(greeting.identity)
            }
            Frame::Greeting(_) => Err("it speaks no version that we speak".into()),
            Frame::Refuse { text, .. } => Err(text.to_owned()),
            other => Err(format!("it greets with {}", other.name())),
        };
    }
}
