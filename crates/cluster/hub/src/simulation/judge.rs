//! A reader's judgement: every value is its node's and its series' of that moment, and the rows of a lane follow each other
//! without a gap, unless something was cut meanwhile.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use khz_block::{Decoder, SchemaDecoder};
use khz_link::{Accept, HubName, LaneKey, LaneOffer, LaneSink, Told};
use khz_model::{Nanos, Pattern};

use super::reader::{Ear, Interest};
use super::tape::{seed, value};

/// What went wrong, and when: nobody else may lose a row.
#[derive(Debug, Default)]
pub struct Faults {
    pub now: Nanos,
    happened: Vec<Fault>,
}

/// A fault, as seen at a hub or at all of them, of a node or of all of them.
#[derive(Debug)]
struct Fault {
    at: Nanos,
    hub: Option<usize>,
    node: Option<String>,
}

/// Rows that were under way still come.
const MARGIN: Nanos = Nanos::from_millis(500);

/// So long after a fault rows may still be late: who was cut off comes again, and says first what was missed.
const RECOVERY: Nanos = Nanos::from_secs(8);

/// A lane that is flushed sends once a second, or once in one and a half where its turn would come too soon.
const FLUSH_MAX: Nanos = Nanos::from_millis(1_700);

impl Faults {
    /// Something happens.
    pub fn happen(&mut self, hub: Option<usize>, node: Option<&str>) {
        self.happened.push(Fault { at: self.now, hub, node: node.map(str::to_owned) });
    }

    fn excuse(&self, hub: usize, node: &str, since: Nanos) -> bool {
        let concerns = |fault: &Fault| {
            fault.hub.is_none_or(|at| at == hub) && fault.node.as_deref().is_none_or(|whose| whose == node)
        };
        self.happened.iter().any(|fault| fault.at.0 + MARGIN.0 >= since.0 && concerns(fault))
    }
}

/// Everybody's.
pub type SharedFaults = Rc<RefCell<Faults>>;

struct Seen {
    interest: u32,
    period: Nanos,
    schema: SchemaDecoder,
    /// Of each series, see [`seed`].
    seeds: Vec<u64>,
    /// When the first row came: what had been gathered before may have waited for a flush.
    joined: Nanos,
    /// The last row: its number, and when it was gathered.
    last: Option<(u64, Nanos)>,
}

/// The judge of one reader.
pub struct Judge {
    faults: SharedFaults,
    hub: usize,
    lanes: HashMap<LaneKey, Seen>,
    /// Lanes of which rows had come before they were over: what is missed until they come again is lost.
    over: HashSet<LaneKey>,
    standing: Vec<Interest>,
    /// A row of a lane that sends each at once has this long, and one that is flushed a second more.
    late: Nanos,
    pub rows: u64,
    pub gaps: u64,
}

impl Judge {
    pub fn new(faults: &SharedFaults, hub: usize, late: Nanos) -> Self {
        let (lanes, over, standing) = (HashMap::new(), HashSet::new(), Vec::new());
        Judge { faults: faults.clone(), hub, lanes, over, standing, late, rows: 0, gaps: 0 }
    }

    /// The interest that no lane of that node serves whose rows still come, if there is one.
    pub fn unserved(&self, node: &str) -> Option<&Interest> {
        let now = self.faults.borrow().now;
        let concerned = |interest: &&Interest| {
            Pattern::new(&interest.pattern).is_ok_and(|pattern| pattern.matches_node(node))
        };
        self.standing.iter().filter(concerned).find(|interest| {
            let mut lanes =
                self.lanes.iter().filter(|(key, seen)| key.node == node && seen.interest == interest.number);
            let fresh = Nanos(interest.period.0 + FLUSH_MAX.0 + self.late.0 + 300_000_000);
            !lanes.any(|(_, seen)| seen.last.is_some_and(|(_, boot)| now.since(boot) < fresh))
        })
    }

    /// How late a row may be.
    fn allowed(&self, key: &LaneKey) -> Nanos {
        let number = self.lanes.get(key).map_or(0, |seen| seen.interest);
        let Some(interest) = self.standing.iter().find(|known| known.number == number) else {
            return Nanos(u64::MAX);
        };
        Nanos(self.late.0 + if interest.prompt { 0 } else { FLUSH_MAX.0 })
    }
}

impl LaneSink for Judge {
    fn offered(&mut self, key: &LaneKey, offer: &LaneOffer<'_>) -> Option<Accept> {
        let interest = self.standing.iter().find(|known| known.number == offer.interest)?;
        let seen = Seen {
            interest: offer.interest,
            period: offer.period,
            schema: SchemaDecoder::new(),
            seeds: Vec::new(),
            joined: Nanos(0),
            last: None,
        };
        self.lanes.insert(key.clone(), seen);
        Some(Accept { span: Nanos(0), prompt: interest.prompt })
    }

    fn changed(&mut self, key: &LaneKey, offer: &LaneOffer<'_>) {
        if let Some(seen) = self.lanes.get_mut(key) {
            seen.period = offer.period;
        }
    }

    fn schema(&mut self, key: &LaneKey, _: u32, offset: u64, bytes: &[u8]) {
        let Some(seen) = self.lanes.get_mut(key) else { return };
        if offset == 0 {
            (seen.schema, seen.seeds) = (SchemaDecoder::new(), Vec::new());
        }
        assert_eq!(seen.schema.bytes(), offset);
        seen.schema.feed(bytes).expect("a schema");
        let more = seen.schema.series()[seen.seeds.len()..].iter().map(|series| seed(&key.node, series));
        seen.seeds.extend(more);
    }

    fn row(&mut self, key: &LaneKey, number: u64, row: &Decoder) {
        let faults = self.faults.borrow();
        let (now, boot) = (faults.now, row.stamp().boot);
        let allowed = self.allowed(key);
        let Some(seen) = self.lanes.get_mut(key) else { return };
        self.rows += 1;
        let excused = |since| faults.excuse(self.hub, &key.node, since);
        assert_eq!(row.slots(), seen.seeds.len(), "{key:?}: slots and series");
        for (slot, seed) in seen.seeds.iter().enumerate() {
            // A row that was gathered before a series came has none of it.
            let Some(found) = row.reading(slot).and_then(|reading| reading.value()) else { continue };
            assert_eq!(found, value(*seed, boot), "{key:?}: row {number}, slot {slot}");
        }
        let Some((last_number, last)) = seen.last.replace((number, boot)) else {
            seen.joined = Nanos(now.0 + MARGIN.0);
            return;
        };
        assert!(number > last_number, "{key:?}: row {number} came after {last_number}");
        if boot <= last {
            // Where a node comes another way, a reader joins there at its newest row, which it may have had.
            return assert!(excused(last), "twice: {key:?}: row {number} of {boot:?} came after {last:?}");
        }
        // Of rows that are thinned the second may follow the one that was the newest sooner.
        let is_next = boot.0 <= last.0 + seen.period.0;
        let is_late = boot > seen.joined && now.since(boot) > allowed;
        self.gaps += u64::from(!is_next);
        let what = format!("{key:?}: after the row of {last:?} that of {boot:?}, at {now:?}");
        assert!(is_next || excused(last), "lost: {what}");
        assert!(!is_late || excused(now.since(RECOVERY)), "late: {what}");
    }

    fn block(&mut self, _: &LaneKey, _: &[u8]) {}

    fn lost(&mut self, key: &LaneKey, from: u64, to: u64) {
        let Some(seen) = self.lanes.get(key) else { return };
        let faults = self.faults.borrow();
        let is_excused = match seen.last {
            Some((_, last)) => faults.excuse(self.hub, &key.node, last),
            None => self.over.contains(key),
        };
        assert!(is_excused, "{key:?}: rows {from}..{to} are lost at {:?}", faults.now);
    }

    fn answered(&mut self, told: &Told<'_>) {
        // A node that has not come yet is not known; that is said, and it comes.
        let is_silent = told.text.is_empty() || told.text.starts_with("no node is called");
        assert!(told.granted && is_silent, "{told:?}");
    }

    fn closed(&mut self, key: &LaneKey) {
        let had_rows = self.lanes.remove(key).is_some_and(|seen| seen.last.is_some());
        self.over.extend(had_rows.then(|| key.clone()));
    }
}

impl Ear for Judge {
    fn up(&mut self, _: &HubName) {}

    fn down(&mut self) {
        let had_rows = |(key, seen): (LaneKey, Seen)| seen.last.map(|_| key);
        self.over.extend(self.lanes.drain().filter_map(had_rows));
    }

    fn rest(&mut self) {}

    fn standing(&mut self, interests: &[Interest]) {
        self.standing = interests.to_vec();
    }
}
