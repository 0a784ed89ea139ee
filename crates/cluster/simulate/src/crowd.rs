//! All nodes of a simulation in one thread: one loop with one `epoll_wait`. It wakes at most a thousand times
//! a second, except for rows on demand, and does the work that is due.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use khz_link::{Identity, Role, Vouch};
use khz_model::{Nanos, NodeName, Stamp};
use khz_trust::{ClusterKey, RunKeyFile};
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;

use crate::error::SimulateError;
use crate::faults::{Fault, Faults, Symptoms};
use crate::job::Job;
use crate::lanes::{NodeLanes, Part};
use crate::library::Library;
use crate::node::{Desk, Ended, Node};
use crate::report::Report;
use crate::wire::{Tls, Wire, WireError};
use crate::{chance, clock, files};

/// Most nodes of one simulation: with more connections from one address to one hub, ports become scarce.
pub const NODES_MAX: usize = 16_384;

/// The loop turns at most this often, so that one turn serves many nodes.
const TURN: Nanos = Nanos::from_millis(1);
/// For this long after a row on demand, the loop does not pause between turns.
const HURRY: Nanos = Nanos::from_millis(50);
/// The first connections are spread over this time.
const ARRIVAL: Nanos = Nanos::SECOND;
/// How long to wait for the hub's last acknowledgements at the end.
const DRAIN: Nanos = Nanos::from_secs(5);
const STATUS: Nanos = Nanos::SECOND;
/// Nodes without a hub execute their channels this often. The loop turns at least as often.
const ALONE: Nanos = Nanos::from_millis(100);
const EVENTS: usize = 1_024;
const ROOM: usize = 64 << 10;
/// Broken connections that are logged each second; the others are only counted.
const LOGGED: u32 = 5;
/// Reasons that are logged once only; all others are logged again.
const SAID_MAX: usize = 64;

/// The settings of a simulation.
#[derive(Debug)]
pub struct Settings {
    /// The hub.
    pub hub: SocketAddr,
    /// The local address of all connections; `None`: the kernel chooses.
    pub from: Option<IpAddr>,
    /// TLS to the hub.
    pub tls: Option<Tls>,
    /// Makes each node's token.
    pub key: Option<ClusterKey>,
    /// Directories that may hold the run key of a hub on this machine.
    pub run_dirs: Vec<PathBuf>,
    /// How many nodes.
    pub nodes: usize,
    /// The prefix of their names.
    pub prefix: String,
    /// Time between two rows.
    pub period: Nanos,
    /// All differences between nodes are derived from it.
    pub seed: u64,
    /// How long to play; `None`: until it is stopped.
    pub length: Option<Nanos>,
    /// How long blocks stay in the nodes' rings.
    pub held: Nanos,
    /// They play that they judge rules, and that none gives anything.
    pub quiet_rules: bool,
    /// What is wrong with which nodes.
    pub faults: Faults,
    /// Which nodes do the same work; the others play what the seed decides.
    pub jobs: Vec<Job>,
}

/// A running simulation.
pub struct Crowd {
    settings: Settings,
    nodes: Vec<Node>,
    epoll: OwnedFd,
    /// Whether epoll waits until a node's socket has room.
    waits: Vec<bool>,
    timetable: BinaryHeap<Reverse<(Nanos, u32)>>,
    desk: Desk,
    real_offset: i64,
    start: Nanos,
    cpu_start: Nanos,
    up: usize,
    /// When a row on demand was last wanted.
    asked: Nanos,
    all_up_at: Option<Nanos>,
    broken: u64,
    logged: u32,
    /// Why connections ended, as it was logged, without the node's name.
    said: HashSet<String>,
}

impl Crowd {
    /// Creates the nodes; none is connected yet.
    pub fn new(settings: Settings, library: Library) -> Result<Self, SimulateError> {
        if !(1..=NODES_MAX).contains(&settings.nodes) {
            return Err(SimulateError::Nodes { asked: settings.nodes, limit: NODES_MAX });
        }
        // Checked once here: with an address that no interface has, every connection would fail.
        let bound = khz_link::driver::socket_to(&settings.hub, settings.from);
        drop(bound.map_err(|source| SimulateError::Bind { hub: settings.hub, source })?);
        files::make_room(settings.nodes as u64)?;
        let (start, real_offset) = (clock::boot(), clock::real_offset());
        check(&settings, &library)?;
        let library = Rc::new(RefCell::new(library));
        let nodes: Result<Vec<Node>, _> =
            (0..settings.nodes).map(|number| node(&settings, number, &library, start, real_offset)).collect();
        let nodes = nodes?;
        Ok(Crowd {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).map_err(std::io::Error::from)?,
            waits: vec![false; nodes.len()],
            timetable: nodes.iter().zip(0..).map(|(node, number)| Reverse((node.due, number))).collect(),
            desk: Desk { room: vec![0; ROOM], ..Desk::default() },
            real_offset,
            start,
            cpu_start: clock::cpu(),
            up: 0,
            asked: Nanos(0),
            all_up_at: None,
            broken: 0,
            logged: 0,
            said: HashSet::new(),
            settings,
            nodes,
        })
    }

    /// Plays until the end or until `stop`; passes a report to `status` once a second. Then waits for the hub
    /// to acknowledge what was sent.
    pub fn run(mut self, stop: &AtomicBool, mut status: impl FnMut(&Report)) -> Report {
        let mut end = self.settings.length.map_or(Nanos(u64::MAX), |length| Nanos(self.start.0 + length.0));
        let mut events = Vec::with_capacity(EVENTS);
        let (mut told, mut executed) = (self.start, self.start);
        loop {
            let turn = clock::boot();
            if stop.load(Ordering::Relaxed) {
                end = end.min(turn);
            }
            let now = Stamp { boot: turn.min(end), real_offset: self.real_offset };
            self.desk.is_over = turn >= end;
            self.serve_due(now, turn);
            if turn.since(executed) >= ALONE {
                executed = turn;
                self.nodes.iter_mut().for_each(|node| node.execute_alone(now));
            }
            self.wait(turn, end, &mut events);
            let now = Stamp { boot: clock::boot().min(end), ..now };
            for &(number, flags) in &events {
                self.serve_event(number, flags, now);
            }
            if turn.since(told) >= STATUS {
                told = turn;
                self.logged = 0;
                let report = self.report();
                status(&report);
                if turn >= end && (report.unacknowledged == 0 || turn.0 >= end.0 + DRAIN.0) {
                    return report;
                }
            }
        }
    }

    /// Serves every node whose time has come.
    fn serve_due(&mut self, now: Stamp, turn: Nanos) {
        while let Some(&Reverse((due, number))) = self.timetable.peek().filter(|first| first.0.0 <= turn) {
            self.timetable.pop();
            let node = &mut self.nodes[number as usize];
            if node.due != due {
                // The node was queued again, for another time.
                continue;
            }
            let was_up = node.is_up();
            if node.is_silent(turn) {
                self.settle(number, was_up, Ok(()));
                self.timetable.push(Reverse((self.nodes[number as usize].due, number)));
                continue;
            }
            let result = if node.is_down() { self.dial(number, turn) } else { node.act(now, &mut self.desk) };
            self.settle(number, was_up, result);
            self.timetable.push(Reverse((self.nodes[number as usize].due, number)));
        }
    }

    fn dial(&mut self, number: u32, now: Nanos) -> Result<(), Ended> {
        let wire = Wire::connect(self.settings.hub, self.settings.from, self.settings.tls.as_ref())?;
        let data = epoll::EventData::new_u64(u64::from(number));
        epoll::add(&self.epoll, wire.socket(), data, epoll::EventFlags::IN | epoll::EventFlags::OUT)
            .map_err(|errno| WireError::Io(errno.into()))?;
        self.waits[number as usize] = true;
        let vouch = self.vouch(self.nodes[number as usize].name());
        self.nodes[number as usize].dial(wire, vouch, now);
        Ok(())
    }

    /// Vouches for each node with the run key of our own user's hub on this machine, if there is one; a
    /// restarted hub has a new key.
    fn vouch(&self, name: &str) -> Option<Vouch> {
        let key = RunKeyFile::find(&self.settings.run_dirs, self.settings.hub)?.key;
        let token = key.token(khz_trust::Role::Node, &NodeName::new(name).ok()?);
        Some(Vouch { prove: Box::new(move |nonce| token.proof(nonce)), role: None })
    }

    fn serve_event(&mut self, number: u32, flags: epoll::EventFlags, now: Stamp) {
        let node = &mut self.nodes[number as usize];
        let (was_up, due) = (node.is_up(), node.due);
        let mut result = Ok(());
        if flags.contains(epoll::EventFlags::OUT) {
            result = node.on_room(now, &mut self.desk);
        }
        let come = epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        if result.is_ok() && flags.intersects(come) {
            result = node.on_bytes(now, &mut self.desk);
        }
        self.settle(number, was_up, result);
        self.asked = self.asked.max(self.nodes[number as usize].lanes.asked);
        let now_due = self.nodes[number as usize].due;
        if now_due != due {
            self.timetable.push(Reverse((now_due, number)));
        }
    }

    /// Records the state of a node: whether it is connected, and whether it waits for room.
    fn settle(&mut self, number: u32, was_up: bool, result: Result<(), Ended>) {
        let at = number as usize;
        let node = &mut self.nodes[at];
        let result = result.and_then(|()| match node.socket() {
            Some((socket, waits)) if waits != self.waits[at] => {
                self.waits[at] = waits;
                let room = if waits { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
                let data = epoll::EventData::new_u64(u64::from(number));
                let known = epoll::modify(&self.epoll, socket, data, epoll::EventFlags::IN | room);
                known.map_err(|errno| WireError::Io(errno.into()).into())
            }
            _ => Ok(()),
        });
        if let Err(ended) = result {
            self.broken += 1;
            // Nodes that try again and again, and that are alike, say the same.
            let text = ended.to_string();
            let alike = text.replace(node.name(), "NODE");
            let is_news = !self.said.contains(&alike);
            self.logged += u32::from(is_news);
            if is_news && self.logged <= LOGGED {
                tracing::warn!("{}: {text}", node.name());
                if self.said.len() < SAID_MAX {
                    self.said.insert(alike);
                }
            }
            node.hang_up(&ended, clock::boot());
        }
        match (was_up, node.is_up()) {
            (false, true) => {
                self.up += 1;
                if self.up == self.nodes.len() {
                    self.all_up_at = Some(clock::boot());
                }
            }
            (true, false) => self.up -= 1,
            _ => {}
        }
    }

    /// Sleeps until work is due or bytes come.
    fn wait(&self, turn: Nanos, end: Nanos, events: &mut Vec<(u32, epoll::EventFlags)>) {
        let next = self.timetable.peek().map_or(Nanos(u64::MAX), |first| first.0.0);
        let next =
            next.min(Nanos(turn.0 + STATUS.0 / 10)).min(if end > turn { end } else { Nanos(u64::MAX) });
        // While rows on demand are wanted, events are handled as they come.
        if turn.since(self.asked) < HURRY {
            // No pause: epoll wakes the loop.
        } else if next.0 > turn.0 + TURN.0 {
            clock::sleep_until(Nanos(turn.0 + TURN.0));
        } else {
            clock::sleep_until(next);
        }
        let rest = next.since(clock::boot());
        let timeout = Timespec { tv_sec: 0, tv_nsec: rest.0.min(999_999_999) as i64 };
        let mut found = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        events.clear();
        if let Ok((found, _)) = epoll::wait(&self.epoll, &mut found[..], Some(&timeout)) {
            events.extend(found.iter().map(|event| (event.data.u64() as u32, event.flags)));
        }
    }

    /// The counts up to now.
    pub fn report(&self) -> Report {
        let mut report = Report {
            nodes: self.nodes.len() as u64,
            connected: self.up as u64,
            late: self.desk.late,
            latest: self.desk.latest,
            bytes: self.desk.written,
            writes: self.desk.writes,
            welcomes: self.desk.welcomes,
            broken: self.broken,
            all_up_at: self.all_up_at,
            elapsed: clock::boot().since(self.start),
            cpu: clock::cpu().since(self.cpu_start),
            ..Report::default()
        };
        for node in &self.nodes {
            let (rows, unacknowledged, lost) = node.counts();
            report.rows += rows;
            report.unacknowledged += unacknowledged;
            report.lost += lost;
        }
        report
    }
}

/// Derives everything about one node from its number.
fn node(
    settings: &Settings,
    number: usize,
    library: &Rc<RefCell<Library>>,
    start: Nanos,
    real_offset: i64,
) -> Result<Node, SimulateError> {
    let name = name_of(settings, number)?;
    let seed = chance::number(settings.seed, number as u64);
    let token = settings.key.as_ref().map(|key| key.token(khz_trust::Role::Node, &name));
    let identity = Identity {
        role: Role::Node,
        name: name.as_str().to_owned(),
        machine: chance::bytes(seed, 4),
        boot: chance::bytes(seed, 5),
        started: start.0 as i64,
        start_nonce: chance::number(seed, start.0),
        program: format!("{} simulated", env!("CARGO_PKG_VERSION")),
        prove: token.map(|token| -> khz_link::Prove { Box::new(move |nonce| token.proof(nonce)) }),
    };
    let job = settings.jobs.iter().find(|job| job.nodes.matches_node(name.as_str()));
    let any = (chance::number(seed, 6) % library.borrow().recordings().len() as u64) as usize;
    let part = Part {
        faults: settings.faults.of(&name),
        node: name,
        seed,
        workload: job.map_or(any, |job| job.workload),
        period: job.map_or(settings.period, |job| job.period),
        is_in_step: job.is_some(),
        held: settings.held,
        epoch: start.0 ^ real_offset as u64,
        quiet_rules: settings.quiet_rules,
        zero: start,
    };
    let silences = part.faults.iter().filter_map(Fault::silence);
    let silences = silences.map(|(from, until)| (later(start, from), later(start, until))).collect();
    let due = Nanos(start.0 + chance::number(seed, 7) % ARRIVAL.0);
    let lanes = NodeLanes::new(library.clone(), part);
    Ok(Node::new(Arc::new(identity), lanes, seed, due).silent_at(silences))
}

fn later(start: Nanos, span: Nanos) -> Nanos {
    Nanos(start.0.saturating_add(span.0))
}

/// The name of a node by its number, from 0.
fn name_of(settings: &Settings, number: usize) -> Result<NodeName, SimulateError> {
    let digits = settings.nodes.to_string().len();
    let name = format!("{}{:0digits$}", settings.prefix, number + 1);
    NodeName::new(&name).map_err(|error| SimulateError::Prefix {
        prefix: settings.prefix.clone(),
        problem: error.problem.to_string(),
    })
}

/// Refuses faults that nobody would see.
fn check(settings: &Settings, library: &Library) -> Result<(), SimulateError> {
    let names: Result<Vec<NodeName>, _> =
        (0..settings.nodes).map(|number| name_of(settings, number)).collect();
    let names = names?;
    for (place, fault) in settings.faults.placed() {
        let of = |problem: String| SimulateError::NoSymptom {
            place: place.map_or_else(String::new, |place| format!("{place}: ")),
            kind: fault.kind.as_str(),
            nodes: fault.nodes.to_string().trim_end_matches(":*").to_owned(),
            problem,
        };
        if !names.iter().any(|name| fault.nodes.matches_node(name.as_str())) {
            let (first, last) = (&names[0], &names[names.len() - 1]);
            return Err(of(format!("no node has such a name; they are {first} to {last}")));
        }
        for recording in library.recordings() {
            if !Symptoms::new(std::slice::from_ref(fault), &recording.series).show() {
                return Err(of(format!("the recording {} has none of its metrics", recording.name)));
            }
        }
    }
    Ok(())
}
