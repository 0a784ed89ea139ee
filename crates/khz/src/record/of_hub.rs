//! Nodes as a hub has them: an interest on the link for the time of the recording, whose blocks go into the file as they
//! come. Connections that break are made again; what was missed meanwhile comes late, as far as somebody has it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_block::SchemaDecoder;
use khz_block::trace::LaneHead;
use khz_client::Access;
use khz_link::LaneKey;
use khz_link::driver::{Event, Events, Following};
use khz_model::{Interest, Nanos, Pattern};
use khz_record::{RecordError, Recorder};
use khz_trust::ClientFiles;

use khz_model::fold::fold;

use super::LOOK_PERIOD;
use super::flags::RecordFlags;
use super::progress::some;
use crate::config::{Plan, plan::hub_address};
use crate::outcome::{Failure, sentence};
use crate::table::printable;

/// Bytes that wait for the disk: some seconds of 128 nodes at 1,000 Hz.
const QUEUE_BYTES: usize = 256 << 20;
/// A hub answers so soon, or it is not there.
const ANSWER: Duration = Duration::from_secs(5);
/// Once rows have begun to come and so long no further node has, all are there.
const LAST_NODE: Duration = Duration::from_millis(300);
/// Nodes send what they have gathered after ten rows or a tenth of a second, whichever is later, and within a second; the hub
/// passes it on soon.
const FLUSH: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
const PASSED_ON: Duration = Duration::from_millis(50);
/// The rows that are on their way at the end have come by then.
const LAST_ROWS: Duration = Duration::from_secs(5);
/// At the end so long is waited for a hub that has just gone, and for rows that were missed: an agent is back 4 s after its hub, and
/// then sends what its ring has.
const MISSED_ROWS: Duration = Duration::from_secs(15);

/// A hub, and what it sends.
pub struct OfHub {
    following: Following,
    events: Events,
    interest: u32,
    /// What was gathered has come after so long.
    flush: Duration,
    /// The number of each lane in the recording.
    lanes: HashMap<Arc<LaneKey>, u32>,
    /// Lanes that have not been closed.
    open: HashSet<Arc<LaneKey>>,
    nodes: HashSet<String>,
    /// Nodes and interests whose lane was open when the connection broke, and has not been offered since.
    out_of_sight: HashSet<(String, String)>,
    /// The first row of each lane's block that is not complete yet.
    began: HashMap<u32, u64>,
    /// Events that came before there was a recorder.
    early: Vec<Event>,
    /// The interest was refused.
    refused: Option<String>,
    /// Nodes that the hub knows, once it has told all of them.
    known: Option<HashSet<String>>,
    telling: HashSet<String>,
    /// Patterns that nothing has matched so far.
    unmatched: Vec<Pattern>,
    /// What was said last, of each node and of the connection: what a text begins with.
    said: HashMap<String, String>,
}

/// The hub that is meant: the one that was named, else one that runs here; `None`: this node is recorded without.
pub fn find(flags: &RecordFlags, plan: &Plan) -> Result<Option<Access>, Failure> {
    let access = match &flags.hub {
        Some(text) => {
            let address = hub_address(text).map_err(Failure::usage)?;
            Access::hub(address.host, address.port)
        }
        None if flags.direct => return Ok(None),
        None => match Access::local_in(plan.run_dir.as_deref()) {
            Ok(access) => access,
            Err(_) => return Ok(None),
        },
    };
    let trust = &plan.trust;
    let files = trust.ca.as_ref().map(|ca| match &trust.pair {
        Some((certificate, key)) => ClientFiles::new(ca).with_pair(certificate, key),
        None => ClientFiles::new(ca),
    });
    let token = trust.token.as_ref().map(|place| place.read()).transpose();
    let token = token.map_err(|error| Failure::usage(sentence(&error)))?;
    let run_dir = plan.run_dir.clone();
    let from = plan.bind;
    Ok(Some(Access { files, token, insecure: flags.insecure, run_dir, from, ..access }))
}

impl OfHub {
    /// Says the interest, and waits until rows come.
    pub fn start(access: &Access, interest: &Interest) -> Result<Self, Failure> {
        OfHub::begin(access, interest, None)
    }

    /// The same for what the hub has of the base lanes, so far back; the rate is theirs.
    pub fn start_past(access: &Access, interest: &Interest, span: Nanos) -> Result<Self, Failure> {
        OfHub::begin(access, interest, Some(span))
    }

    fn begin(access: &Access, interest: &Interest, past: Option<Nanos>) -> Result<Self, Failure> {
        let settings = access.settings().map_err(|error| Failure::usage(sentence(&error)))?;
        let broken = |error: std::io::Error| Failure::work(format!("cannot start a link: {error}"));
        let (sink, events) = Events::with_past(QUEUE_BYTES, past.unwrap_or(Nanos(0))).map_err(broken)?;
        let following = Following::start(settings, sink).map_err(broken)?;
        let number = match past {
            Some(_) => following.subscribe_past(interest),
            None => following.subscribe(interest, false),
        };
        let number = number.map_err(Failure::usage)?;
        following.roster(true);
        let mut hub = OfHub {
            following,
            events,
            interest: number,
            flush: (10 * Duration::from(interest.rate.period())).clamp(FLUSH.0, FLUSH.1) + PASSED_ON,
            lanes: HashMap::new(),
            open: HashSet::new(),
            nodes: HashSet::new(),
            out_of_sight: HashSet::new(),
            began: HashMap::new(),
            early: Vec::new(),
            refused: None,
            known: None,
            telling: HashSet::new(),
            unmatched: interest.patterns.clone(),
            said: HashMap::new(),
        };
        hub.wait_for_rows(Duration::from(interest.rate.period()))?;
        Ok(hub)
    }

    /// A schema comes before the first row of its lane.
    fn wait_for_rows(&mut self, period: Duration) -> Result<(), Failure> {
        let (mut until, mut problem) = (Instant::now() + ANSWER + 2 * period, None);
        let mut has_rows = false;
        let mut remarks = Vec::new();
        while let Some(event) = self.events.next_within(until.saturating_duration_since(Instant::now())) {
            match &event {
                Event::Schema { .. } => {
                    has_rows = true;
                    until = Instant::now() + LAST_NODE;
                }
                Event::Down { problem: text } => problem = Some(text.clone()),
                Event::Told { granted: false, text, .. } => return Err(Failure::work(text.clone())),
                Event::Told { text, .. } if !text.is_empty() => remarks.push(text.clone()),
                _ => {}
            }
            self.early.push(event);
            if until <= Instant::now() {
                break;
            }
        }
        match (has_rows, problem) {
            (true, _) => Ok(()),
            (false, Some(problem)) => Err(Failure::work(problem)),
            (false, None) if remarks.is_empty() => Err(Failure::work(
                "no node of the hub has rows for these patterns: `khz nodes` says which are up, `khz catalog` what there is",
            )),
            (false, None) => Err(Failure::Work(remarks.join("; "))),
        }
    }

    /// What has come since.
    pub fn copy(&mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        for event in std::mem::take(&mut self.early) {
            self.take(event, recorder)?;
        }
        while let Some(event) = self.events.try_next() {
            self.take(event, recorder)?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event, recorder: &mut Recorder) -> Result<(), RecordError> {
        match event {
            Event::Lane { lane, period, .. } => self.lane(lane, period, recorder),
            Event::Schema { lane, generation, offset, bytes } => {
                self.match_patterns(&lane, offset, &bytes);
                match self.lanes.get(&lane) {
                    Some(&number) => recorder.schema(number, generation, offset, &bytes),
                    None => Ok(()),
                }
            }
            Event::Node { node } => {
                self.telling.insert(node);
                Ok(())
            }
            Event::Nodes => {
                // Once is enough: who comes later is recorded, and then known.
                self.known = Some(std::mem::take(&mut self.telling));
                self.following.roster(false);
                Ok(())
            }
            Event::Block { lane, bytes } => match self.lanes.get(&lane) {
                Some(&number) => recorder.block(number, &bytes),
                None => Ok(()),
            },
            Event::Began { lane, row } => {
                if let Some(&number) = self.lanes.get(&lane) {
                    self.began.insert(number, row);
                }
                Ok(())
            }
            Event::Lost { lane, from, to } => match self.lanes.get(&lane) {
                Some(&number) => recorder.lost(number, from, to),
                None => Ok(()),
            },
            Event::Closed { lane } => {
                self.open.remove(&lane);
                Ok(())
            }
            Event::Told { granted, text, .. } => {
                if !granted {
                    self.refused = Some(text);
                } else if !text.is_empty() {
                    self.say(text);
                }
                Ok(())
            }
            Event::Down { problem } => {
                let name = |lane: Arc<LaneKey>| (lane.node.clone(), lane.name.clone());
                self.out_of_sight.extend(self.open.drain().map(name));
                self.began.clear();
                self.say(problem);
                Ok(())
            }
            Event::Up { .. } => {
                self.said.clear();
                Ok(())
            }
        }
    }

    fn lane(
        &mut self,
        lane: Arc<LaneKey>,
        period: Nanos,
        recorder: &mut Recorder,
    ) -> Result<(), RecordError> {
        let next = self.lanes.len() as u32 + 1;
        let number = *self.lanes.entry(lane.clone()).or_insert(next);
        self.nodes.insert(lane.node.clone());
        self.out_of_sight.remove(&(lane.node.clone(), lane.name.clone()));
        let LaneKey { node, name, epoch } = &*lane;
        let head = LaneHead { lane: number, node, name, epoch: *epoch, period: period.0 };
        recorder.lane(&head)?;
        self.open.insert(lane);
        Ok(())
    }

    /// Each thing once, until something else was said of the same.
    fn say(&mut self, text: String) {
        let of = text.split_once(": ").map_or(text.as_str(), |(of, _)| of).to_owned();
        if self.said.get(&of) != Some(&text) {
            crate::table::remark!("{text}");
            self.said.insert(of, text);
        }
    }

    /// Why nothing more will come, if nothing will.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Rows that the disk was too slow for.
    pub fn dropped(&self) -> u64 {
        self.events.dropped()
    }

    /// Patterns that the lane's schema matches are not unmatched any more.
    fn match_patterns(&mut self, lane: &LaneKey, offset: u64, bytes: &[u8]) {
        if offset > 0 || self.unmatched.is_empty() {
            return;
        }
        let mut schema = SchemaDecoder::new();
        // What is damaged the recorder says.
        if schema.feed(bytes).is_ok() {
            self.unmatched.retain(|pattern| {
                let alone = std::slice::from_ref(pattern);
                !pattern.matches_node(&lane.node) || !schema.series().iter().any(|s| s.is_selected(alone))
            });
        }
    }

    /// Nodes that patterns name and that never came: those that the hub knows, and those that nobody knows.
    pub fn missing(&self, patterns: &[Pattern]) -> (Vec<String>, Vec<String>) {
        let named = khz_model::pattern::named_nodes(patterns).into_iter();
        let mut missing: Vec<String> = named.filter(|node| !self.nodes.contains(node)).collect();
        missing.sort();
        missing.dedup();
        let is_known = |node: &String| self.known.as_ref().is_none_or(|known| known.contains(node));
        missing.into_iter().partition(is_known)
    }

    /// Patterns that nothing of the nodes that came has matched. The hub has said so, where it is no older one.
    pub fn unmatched(&self) -> Vec<String> {
        let speaks = |pattern: &&Pattern| self.nodes.iter().any(|node| pattern.matches_node(node));
        self.unmatched.iter().filter(speaks).map(ToString::to_string).collect()
    }

    /// True where the hub has said that itself.
    pub fn has_said(&self, beginning: &str) -> bool {
        self.said.values().any(|text| text.starts_with(beginning))
    }

    /// Everything that comes until the hub has closed all lanes, which are of the past.
    pub fn copy_past(&mut self, recorder: &mut Recorder) -> Result<Result<(), Failure>, RecordError> {
        self.copy(recorder)?;
        while !self.open.is_empty() {
            match self.events.next_within(ANSWER) {
                Some(Event::Down { problem }) => return Ok(Err(Failure::work(problem))),
                Some(event) => self.take(event, recorder)?,
                None => {
                    return Ok(Err(Failure::work(
                        "the hub has stopped answering; the file has the rows that came before. Check the hub, and record again",
                    )));
                }
            }
        }
        Ok(Ok(()))
    }

    /// Waits for what was gathered until now and for what was missed, takes the interest back, and the rows that are still
    /// on their way; not where somebody wants it to end with what there is.
    pub fn finish(&mut self, recorder: &mut Recorder, ending: &mut Ending<'_>) -> Result<(), RecordError> {
        self.copy(recorder)?;
        self.copy_missed(recorder, ending)?;
        self.following.unsubscribe(self.interest);
        let until = Instant::now() + LAST_ROWS;
        while !self.open.is_empty() && Instant::now() < until && !(ending.is_wanted)() {
            let left = until.saturating_duration_since(Instant::now());
            if let Some(event) = self.events.next_within(left.min(LOOK_PERIOD)) {
                self.take(event, recorder)?;
            }
        }
        Ok(())
    }

    fn copy_missed(&mut self, recorder: &mut Recorder, ending: &mut Ending<'_>) -> Result<(), RecordError> {
        let end = Instant::now() + MISSED_ROWS;
        // What was gathered until now has come by then.
        let mut until = Instant::now() + self.flush;
        let mut is_said = false;
        loop {
            let now = Instant::now();
            let awaited = self.awaited(recorder);
            let wait = match &awaited {
                Some(_) => end.saturating_duration_since(now),
                None => until.min(end).saturating_duration_since(now),
            };
            if wait.is_zero() || self.refused.is_some() || (ending.is_wanted)() {
                return Ok(());
            }
            if let Some(awaited) = awaited.filter(|_| !is_said && now >= until) {
                is_said = true;
                let seconds = wait.as_secs_f64().ceil();
                (ending.say)(&format!(
                    "waiting up to {seconds} s for {awaited}; Ctrl-C ends it with what there is"
                ));
            }
            let Some(event) = self.events.next_within(wait.min(LOOK_PERIOD)) else { continue };
            if matches!(event, Event::Lane { .. }) {
                until = Instant::now() + self.flush;
            }
            self.take(event, recorder)?;
        }
    }

    /// What may still come, in words.
    fn awaited(&self, recorder: &Recorder) -> Option<String> {
        let owed = recorder.awaited(&self.began);
        let mut words = Vec::new();
        if !owed.is_empty() {
            let rows = owed.values().fold(0u64, |sum, rows| sum.saturating_add(*rows));
            let (rows, owe) = (some(rows, "row", "rows"), if owed.len() == 1 { "owes" } else { "owe" });
            words.push(format!("{rows} that {} still {owe}", printable(&fold(owed.keys()))));
        }
        let away: BTreeSet<&str> = self.out_of_sight.iter().map(|(node, _)| node.as_str()).collect();
        if !away.is_empty() {
            words.push(format!("{}, unheard since the connection broke", printable(&fold(away))));
        }
        (!words.is_empty()).then(|| words.join(", and for "))
    }
}

/// How the end of a recording goes.
pub struct Ending<'a> {
    /// Somebody does not want to wait.
    pub is_wanted: &'a dyn Fn() -> bool,
    /// Says what is waited for.
    pub say: &'a mut dyn FnMut(&str),
}
