//! A pass over all nodes: the new samples of each become requests. It reads the store as a query does, so neither the hub nor the
//! commits wait for it, and it holds one node and one request at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use khz_model::{Nanos, NodeName, Pattern, QueryError};
use khz_store::StoreError;
use khz_store::log::KnownBlock;
use khz_store::range::{NodeReader, NodeRowsRead, RangeReader};

use super::counts::Counts;
use super::cursors::{CursorError, Cursors};
use super::node::{NodeState, Writing};
use super::recorded::OwnerState;
use super::request::Request;
use super::rules::Rules;
use super::seconds::{SECOND, last_begin};
use crate::limits::CURSORS_MAX;

/// Rows come to the hub this long after they were gathered, or sooner, unless something is wrong.
const SETTLE: u64 = 3 * SECOND;
/// How much time one pass takes of a node that is far behind. Columns are unpacked by the hour, so a pass must not be short.
const CATCH_UP: u64 = 600 * SECOND;
/// How much time before its cursor is read of a node after a start, until that shows how often it sends: the shortest first, since as a
/// rule it sends each second.
const RECALLED_SPANS: [u64; 3] = [10 * SECOND, 200 * SECOND, RECALLED];
/// How far back a node without new rows is searched for in columns: no ring of a node holds more.
const SEARCHED: u64 = 25 * 3_600 * SECOND;
/// A node that was sent longer ago than this before a start is not read again: queries have forgotten its series.
const RECALLED: u64 = 3_600 * SECOND;
/// Between two passes there is a second, or the pause of a receiver that takes nothing. After a longer time the hub stood still, and
/// rows of that time are on their way.
const STANDSTILL: u64 = 5 * SECOND;
/// A node that has sent nothing since a start is left alone for this long: receivers forget a series after five minutes by themselves.
const UNHEARD: u64 = 300 * SECOND;
/// Problems of one pass that are logged.
const PROBLEMS_MAX: usize = 8;
/// A first start that is more than this in the future was written with a wrong clock.
const AHEAD: u64 = 60 * SECOND;

/// What is sent, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which series.
    pub patterns: Vec<Pattern>,
    /// The label `job`.
    pub job: Arc<str>,
    /// Labels and rules.
    pub rules: Rules,
    /// Seconds between two samples of a series; a part of an hour.
    pub every: u64,
    /// Seconds of samples that a series has in a request; some `every`s.
    pub batch: u64,
    /// How long rows wait for earlier rows that are missing, in ns.
    pub delay: u64,
    /// Samples of a request.
    pub samples_max: usize,
}

/// Whether a node has gone to another hub.
pub type HasMoved = Box<dyn Fn(&NodeName) -> bool + Send>;

/// Reads the store for one receiver.
pub struct Feed {
    settings: Settings,
    has_moved: HasMoved,
    /// When the last pass was; 0: never.
    last_pass: u64,
    reader: NodeReader,
    cursors: Cursors,
    nodes: BTreeMap<NodeName, NodeState>,
    /// Groups of rules.
    owners: BTreeMap<NodeName, OwnerState>,
    /// The number of the column files at the last pass; `None`: before the first.
    version: Option<u64>,
    /// The time up to which the last pass has sent what there was.
    passed: u64,
    /// Rows of some node wait for others.
    is_held: bool,
    /// Column files have come or gone since nodes were forgotten last.
    may_forget: bool,
    counts: Arc<Counts>,
    /// The memory of a request, kept from pass to pass.
    request: Request,
}

/// What a pass has come to.
#[derive(Debug, Default)]
pub struct Pass {
    /// Some node has more that could be sent now.
    pub is_behind: bool,
    /// Parts that could not be read, and so are missing.
    pub problems: Vec<String>,
}

impl Feed {
    /// The feed of all rows of this store that the receiver has not got yet.
    pub fn new(reader: &RangeReader, cursors: Cursors, settings: Settings, counts: Arc<Counts>) -> Self {
        let reader = reader.nodes_reader();
        let newest = cursors.nodes.values().copied().max().unwrap_or(cursors.since);
        Counts::set(&counts.front, newest);
        let (owners, nodes): (Vec<_>, Vec<_>) = cursors.nodes.iter().partition(|(node, _)| node.is_owner());
        let nodes =
            nodes.into_iter().map(|(node, cursor)| (node.clone(), NodeState::from_before(*cursor))).collect();
        let owners =
            owners.into_iter().map(|(owner, cursor)| (owner.clone(), OwnerState::new(*cursor))).collect();
        Feed {
            owners,
            settings,
            has_moved: Box::new(|_| false),
            last_pass: 0,
            reader,
            cursors,
            nodes,
            version: None,
            passed: 0,
            is_held: false,
            may_forget: true,
            counts,
            request: Request::default(),
        }
    }

    /// Asks this of a node that is silent. The series of one that has moved go on from another hub, and have no end here.
    pub fn asking(mut self, has_moved: HasMoved) -> Self {
        self.has_moved = has_moved;
        self
    }

    /// Requests have no more samples than this from now on.
    pub fn limit_samples(&mut self, samples_max: usize) {
        self.settings.samples_max = self.settings.samples_max.min(samples_max);
    }

    /// Takes the time of the first start back if it is still to come: the clock was ahead then. Otherwise nothing would be sent until
    /// that time. Returns what people should know.
    fn check_begin(&mut self, now: u64) -> Option<String> {
        let since = self.cursors.since;
        if since <= now.saturating_add(AHEAD) {
            return None;
        }
        let unsent = self.nodes.values_mut().map(|state| &mut state.cursor);
        let unsent = unsent.chain(self.owners.values_mut().map(|state| &mut state.cursor));
        unsent.filter(|cursor| **cursor == since).for_each(|cursor| *cursor = now);
        self.cursors.nodes.values_mut().filter(|cursor| **cursor == since).for_each(|cursor| *cursor = now);
        self.cursors.since = now;
        Counts::set(&self.counts.front, now);
        let seconds = (since - now) / SECOND;
        Some(format!(
            "the clock was {seconds} s ahead at the first start: sending begins with the rows of now"
        ))
    }

    /// Makes requests from the samples that are new at `now`, and calls `send` with each. `send` returns false to stop the feed.
    /// Afterwards, [`Feed::save`] notes that all of them were accepted.
    pub fn pass(&mut self, now: Nanos, send: &mut dyn FnMut(&Request) -> bool) -> Pass {
        let until = last_begin(now.0.saturating_sub(SETTLE), self.settings.batch);
        self.note_standstill(now.0);
        let was_ahead = self.check_begin(now.0);
        let version = self.reader.version();
        let has_changed = self.version != Some(version);
        if until == self.passed && !has_changed && !self.is_held {
            self.counts.measure(now.0);
            return Pass { problems: was_ahead.into_iter().collect(), ..Pass::default() };
        }
        let (mut pass, mut damage) = (Pass::default(), Vec::new());
        pass.problems.extend(was_ahead);
        let nodes = self.nodes(until, has_changed, &mut damage);
        let begin = self.reader.begin();
        self.may_forget |= has_changed;
        let mut request = std::mem::take(&mut self.request);
        request.clear();
        let mut full = |request: &mut Request| {
            let goes_on = send(request);
            request.clear();
            goes_on
        };
        let (mut oldest, mut is_held) = (until, false);
        for node in nodes {
            if node.is_owner() {
                let state =
                    self.owners.entry(node.clone()).or_insert_with(|| OwnerState::new(self.cursors.since));
                state.has_columns |= has_changed;
                let mut writing = Writing {
                    settings: &self.settings,
                    request: &mut request,
                    full: &mut full,
                    is_over: false,
                };
                let span = (until, CATCH_UP);
                let is_behind = state.take(&node, &mut self.reader, span, &mut writing, &mut damage);
                let is_behind = is_behind.unwrap_or_else(|error| {
                    pass.problems.push(format!("results of rules cannot be read: {error}"));
                    is_held = true;
                    false
                });
                pass.is_behind |= is_behind;
                if is_behind {
                    oldest = oldest.min(state.cursor);
                }
                if writing.is_over {
                    return pass;
                }
                continue;
            }
            let is_new = !self.nodes.contains_key(&node);
            let state = self.nodes.entry(node.clone()).or_insert_with(|| NodeState::new(self.cursors.since));
            state.has_columns |= has_changed;
            let mut writing =
                Writing { settings: &self.settings, request: &mut request, full: &mut full, is_over: false };
            let searched = self.passed.saturating_sub(SEARCHED);
            let reader = &mut self.reader;
            let has_moved = &self.has_moved;
            let mut turn = Turn { node: &node, state, reader, now: now.0, until, searched, begin, has_moved };
            let done = turn.take(is_new, &mut writing, &mut damage).unwrap_or_else(|error| {
                // Its rows wait for the next pass, and those of the other nodes do not.
                pass.problems.push(format!("rows of {node} cannot be read: {error}"));
                Done { late: 0, removed: 0, is_behind: false, is_held: true }
            });
            Counts::add(&self.counts.late, done.late);
            Counts::add(&self.counts.removed, done.removed / SECOND / self.settings.every);
            pass.is_behind |= done.is_behind;
            is_held |= done.is_held;
            if done.is_behind || done.is_held {
                oldest = oldest.min(state.cursor);
            }
            if writing.is_over {
                return pass;
            }
        }
        if !request.is_empty() && !full(&mut request) {
            return pass;
        }
        self.request = request;
        (self.version, self.is_held) = (Some(version), is_held);
        if !pass.is_behind {
            self.passed = until;
            if std::mem::take(&mut self.may_forget) {
                self.forget(begin);
            }
        }
        Counts::set(&self.counts.front, oldest);
        self.counts.measure(now.0);
        self.reader.close_before(Nanos(oldest.saturating_sub(SEARCHED)));
        pass.problems.extend(damage.iter().map(ToString::to_string));
        pass.problems.truncate(PROBLEMS_MAX);
        pass
    }

    /// After the hub stood still, nodes are not silent while their rows may still be on their way.
    fn note_standstill(&mut self, now: u64) {
        let before = std::mem::replace(&mut self.last_pass, now);
        if before > 0 && now.saturating_sub(before) > STANDSTILL {
            let from = now.saturating_add(self.settings.delay);
            self.nodes.values_mut().for_each(|state| state.heard_from = state.heard_from.max(from));
        }
    }

    /// The nodes that may have something new.
    fn nodes(&mut self, until: u64, has_changed: bool, damage: &mut Vec<StoreError>) -> BTreeSet<NodeName> {
        let mut nodes = self.reader.nodes();
        if has_changed {
            // Nodes that came and went since the last pass, or while nothing was sent.
            let from = self.cursors.since.max(self.passed.saturating_sub(SEARCHED));
            nodes.extend(self.reader.stored_nodes(Nanos(from), Nanos(until), damage));
        }
        nodes.extend(self.nodes.keys().chain(self.owners.keys()).cloned());
        nodes
    }

    /// Forgets nodes without any row left in the store, and the oldest ones if there are too many.
    fn forget(&mut self, begin: Option<Nanos>) {
        let begin = begin.map_or(0, |begin| begin.0);
        let logged = self.reader.nodes();
        self.nodes.retain(|node, state| state.cursor >= begin || !state.is_ended() || logged.contains(node));
        self.owners.retain(|owner, state| state.cursor >= begin || logged.contains(owner));
        let beyond = self.nodes.len().saturating_sub(CURSORS_MAX);
        if beyond > 0 {
            let mut cursors: Vec<u64> = self.nodes.values().map(|state| state.cursor).collect();
            let (_, &mut newest, _) = cursors.select_nth_unstable(beyond - 1);
            self.nodes.retain(|_, state| state.cursor > newest);
        }
    }

    /// Everything that was given to `send` was taken: writes how far each node is.
    pub fn save(&mut self) -> Result<(), CursorError> {
        let mut has_changed =
            self.cursors.retain(|node| self.nodes.contains_key(node) || self.owners.contains_key(node));
        let nodes = self.nodes.iter().map(|(node, state)| (node, state.cursor));
        for (node, cursor) in nodes.chain(self.owners.iter().map(|(owner, state)| (owner, state.cursor))) {
            if self.cursors.nodes.get(node) != Some(&cursor) {
                self.cursors.set(node, cursor);
                has_changed = true;
            }
        }
        if has_changed { self.cursors.save() } else { Ok(()) }
    }
}

/// A node's turn in a pass.
struct Turn<'a> {
    node: &'a NodeName,
    state: &'a mut NodeState,
    reader: &'a mut NodeReader,
    now: u64,
    until: u64,
    /// Columns before this time were searched before, unless the node is new.
    searched: u64,
    /// The oldest rows that the store has as columns.
    begin: Option<Nanos>,
    has_moved: &'a HasMoved,
}

/// What has come of a turn.
struct Done {
    /// Rows that came too late.
    late: u64,
    /// For how long rows were removed before they were sent, in ns.
    removed: u64,
    /// There is more to send now.
    is_behind: bool,
    /// Rows wait for others.
    is_held: bool,
}

impl Turn<'_> {
    fn take(
        &mut self,
        is_new: bool,
        writing: &mut Writing<'_>,
        damage: &mut Vec<StoreError>,
    ) -> Result<Done, QueryError> {
        let known = self.reader.known(self.node);
        self.recall(&known, writing.settings, damage)?;
        let late = self.count_late(&known, is_new);
        let held = self.state.holes.limit(&known, self.state.cursor, self.now, writing.settings.delay);
        let to = self.until.min(held.unwrap_or(u64::MAX));
        let (mut is_behind, mut removed) = (false, 0);
        if self.is_behind(&known, to) {
            let from = match is_new || known.iter().any(|block| block.span.1.0 >= self.state.cursor) {
                true => self.state.cursor,
                false => self.state.cursor.max(self.searched),
            };
            let range = (Nanos(from), Nanos(to));
            let rows = self.reader.first(self.node, &known, range, &writing.settings.patterns, damage)?;
            match rows {
                Some(rows) => {
                    removed = if is_new { 0 } else { self.removed_before(&rows) };
                    self.write(rows, to, &known, writing, damage);
                    is_behind = self.is_behind(&known, to);
                }
                None => self.state.has_columns = false,
            }
        }
        self.note_done(&known);
        if !is_behind && self.now >= self.state.heard_from && self.state.is_silent(to, writing.settings) {
            match self.state.is_unheard || (self.has_moved)(self.node) {
                true => self.state.forget_rows(),
                false => self.state.end(self.node, writing),
            }
        }
        Ok(Done { late, removed, is_behind, is_held: held.is_some_and(|held| held <= self.until) })
    }

    /// After a start: finds out which series the receiver believes to be alive, from the rows that were sent last. Nothing is
    /// sent. Rows may be on their way to the hub, or the node is at another one, so it is not silent before it is heard.
    fn recall(
        &mut self,
        known: &[KnownBlock],
        settings: &Settings,
        damage: &mut Vec<StoreError>,
    ) -> Result<(), QueryError> {
        let cursor = self.state.cursor;
        if !std::mem::take(&mut self.state.is_from_before) || self.now.saturating_sub(cursor) > RECALLED {
            return Ok(());
        }
        self.state.heard_from = self.now.saturating_add(settings.delay.max(UNHEARD));
        self.state.is_unheard = true;
        let (mut nothing, mut full) = (Request::default(), |request: &mut Request| {
            request.clear();
            true
        });
        let mut writing = Writing { settings, request: &mut nothing, full: &mut full, is_over: false };
        // A receiver has a sample every some seconds, however often the node sends.
        let spans = RECALLED_SPANS.map(|span| span.max(3 * settings.every * SECOND));
        for span in spans {
            self.state.forget_rows();
            let mut from = cursor.saturating_sub(span);
            while from < cursor {
                let range = (Nanos(from), Nanos(cursor));
                let rows = self.reader.first(self.node, known, range, &settings.patterns, damage)?;
                let Some(rows) = rows else { break };
                from = rows.times().last().map_or(cursor, |last| last.saturating_add(1));
                self.state.write(self.node, rows, &epochs(known), &mut writing);
            }
            if !self.state.has_unknown_pace() {
                break;
            }
        }
        Ok(())
    }

    /// The time between what was sent last and the first row that is there, if the store has removed what was between.
    fn removed_before(&self, rows: &NodeRowsRead) -> u64 {
        let first = rows.times().first().copied().unwrap_or(0);
        let begin = self.begin.map_or(0, |begin| begin.0.min(first));
        begin.saturating_sub(self.state.cursor)
    }

    /// True if there may be rows that can be sent.
    fn is_behind(&self, known: &[KnownBlock], to: u64) -> bool {
        let cursor = self.state.cursor;
        let is_in = |block: &KnownBlock| block.span.1.0 >= cursor && block.span.0.0 < to;
        cursor < to && (self.state.has_columns || known.iter().any(is_in))
    }

    fn write(
        &mut self,
        mut rows: NodeRowsRead,
        to: u64,
        known: &[KnownBlock],
        writing: &mut Writing<'_>,
        damage: &mut Vec<StoreError>,
    ) {
        // A node that is far behind comes in parts.
        let first = rows.times().first().copied().unwrap_or(to);
        rows.cut(Nanos(first.saturating_add(CATCH_UP).min(to)));
        let last = rows.times().last().copied().unwrap_or(first);
        damage.append(&mut rows.damage());
        self.state.write(self.node, rows, &epochs(known), writing);
        if std::mem::take(&mut self.state.is_unheard) {
            self.state.heard_from = self.now.saturating_add(writing.settings.delay);
        }
        self.state.read_until = self.state.read_until.max(last.saturating_add(1));
    }

    /// Counts rows that have come behind the cursor since the last turn.
    fn count_late(&mut self, known: &[KnownBlock], is_new: bool) -> u64 {
        let before = self.state.cursor.min(if is_new { u64::MAX } else { self.state.read_until });
        let behind = known.iter().filter(|block| block.span.1.0 < before);
        let late = behind.map(|block| self.state.done.add(block)).sum();
        self.state.done.forget(known);
        if is_new { 0 } else { late }
    }

    /// The blocks before the cursor are done.
    fn note_done(&mut self, known: &[KnownBlock]) {
        for block in known.iter().filter(|block| block.span.1.0 < self.state.cursor) {
            self.state.done.add(block);
        }
    }
}

/// When epochs begin: the first row of each that the log knows from its begin.
fn epochs(known: &[KnownBlock]) -> Vec<Nanos> {
    let first = known.iter().filter(|block| block.first_row == 0);
    first.map(|block| block.span.0).collect()
}
