//! Snapshots of other nodes on this machine. A mirror writes the rows that a hub sends into files with the
//! layout of `docs/shm.md`, so that a program reads any node's latest values in tens of nanoseconds, without
//! a request.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use khz_block::{Decoder, SchemaDecoder};
use khz_link::driver::{Following, FollowingSink};
use khz_link::{FollowSink, HubName, LaneKey, LaneOffer, Told, Wish};
use khz_model::{Absence, Interest, Nanos, NodeName, Pattern, Rate, Reading, Series};
use khz_ring::{SNAPSHOT_FILE, SlotName, SnapshotLabel, SnapshotWriter, random_epoch};

use crate::access::Access;
use crate::client::ClientError;

/// Most nodes that have files: as many as a hub knows. A file of 300 values takes 140 kB of memory.
pub const MIRRORED_NODES_MAX: usize = 4_096;

/// How often a writer checks whether its file was cut short or removed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A node's values come in one lane, so all of them belong to one row.
const GROUP: u8 = 0;

/// A node's file is made again when it has more than this many slots for each series that there still is, and these
/// many more: its slots are never used for something else.
const SLOTS_A_SERIES: usize = 2;
const SLOTS_MORE: usize = 64;

/// What to mirror.
#[derive(Clone, Debug)]
pub struct MirrorWant {
    /// Which series, of which nodes.
    pub patterns: Vec<Pattern>,
    /// The rate; `None`: the rate at which nodes send anyway.
    pub rate: Option<Rate>,
}

/// Snapshots that are kept up to date. Dropping it removes their files; processes that have them mapped then
/// read that they have ended.
pub struct Mirror {
    // Its thread writes the files.
    _following: Following,
}

impl Mirror {
    /// Keeps `DIRECTORY/NODE/snapshot` for every node that the patterns select, from its first row on.
    ///
    /// # Errors
    /// No hub can be reached, or there are too many patterns.
    pub fn start(access: &Access, directory: &Path, want: &MirrorWant) -> Result<Self, ClientError> {
        let scribe = Scribe {
            directory: directory.into(),
            lanes: HashMap::new(),
            nodes: HashMap::new(),
            left_out: 0,
            is_down: false,
        };
        let following = Following::start(access.settings()?, scribe)?;
        let rate = want.rate.or(Rate::from_period(Nanos::SECOND)).expect("BUG: once a second is a rate");
        // A caller that names a rate wants it even where the kernel changes more slowly, and wants every row
        // at once.
        let (exact, prompt) = (want.rate.is_some(), want.rate.is_some());
        following.ask(&Interest { patterns: want.patterns.clone(), rate, exact }, prompt)?;
        Ok(Mirror { _following: following })
    }
}

/// Writes incoming rows, on the link's thread.
struct Scribe {
    directory: PathBuf,
    lanes: HashMap<LaneKey, Lane>,
    nodes: HashMap<String, Kept>,
    left_out: u64,
    is_down: bool,
}

/// A lane of the present connection.
struct Lane {
    schema: SchemaDecoder,
    /// The snapshot's slot for each of its columns.
    slots: Vec<Option<u32>>,
}

/// A node's snapshot.
struct Kept {
    writer: SnapshotWriter,
    /// When its file was last checked.
    looked: Instant,
    slots: HashMap<String, u32>,
    is_full: bool,
}

impl Kept {
    fn create(directory: &Path, node: &str) -> Result<Self, String> {
        // A name from the wire becomes part of a path, so it must be a node name: no separator, no leading
        // dot.
        let node = NodeName::new(node).map_err(|error| error.to_string())?;
        let file = directory.join(node.as_str()).join(SNAPSHOT_FILE);
        let writer = SnapshotWriter::create(&file, &label(&node)).map_err(|error| error.to_string())?;
        Ok(Kept { writer, looked: Instant::now(), slots: HashMap::new(), is_full: false })
    }

    /// Why readers can no longer find its file; `None`: they can. Checked as rows come.
    fn problem(&mut self) -> Option<&'static str> {
        if self.looked.elapsed() < LOOK_EVERY {
            return None;
        }
        self.looked = Instant::now();
        self.writer.problem()
    }

    /// The slots of these series; makes new ones where there are none.
    fn slots(&mut self, series: &[Series]) -> Vec<Option<u32>> {
        let names: Vec<SlotName> = series.iter().map(|one| SlotName::of(one, GROUP)).collect();
        let new: Vec<SlotName> =
            names.iter().filter(|one| !self.slots.contains_key(&one.name)).cloned().collect();
        if !new.is_empty() && !self.is_full {
            match self.writer.append(&new) {
                Ok(first) => self.slots.extend(new.into_iter().map(|one| one.name).zip(first..)),
                Err(error) => {
                    tracing::warn!("further series are left out: {error}");
                    self.is_full = true;
                }
            }
        }
        names.iter().map(|one| self.slots.get(&one.name).copied()).collect()
    }

    /// Writes a row whose columns hold other series than the last row's. Writes every slot; slots that the
    /// row does not have become absent.
    fn write_all(&mut self, slots: &[Option<u32>], row: &Decoder) {
        const GONE: Reading = Reading::Absent(Absence::InstanceGone);
        let mut all: HashMap<u32, Reading> = self.slots.values().map(|&slot| (slot, GONE)).collect();
        all.extend(
            slots.iter().enumerate().filter_map(|(column, slot)| Some(((*slot)?, reading(row, column)))),
        );
        let values = all.into_iter().map(|(slot, reading)| (slot, reading.state(), reading.bits()));
        self.writer.write(GROUP, row.stamp(), values);
    }

    fn write_changed(&mut self, slots: &[Option<u32>], row: &Decoder) {
        let values = row.changed().iter().filter_map(|&column| {
            let reading = reading(row, column as usize);
            Some((slots.get(column as usize).copied().flatten()?, reading.state(), reading.bits()))
        });
        self.writer.write(GROUP, row.stamp(), values);
    }
}

fn reading(row: &Decoder, column: usize) -> Reading {
    row.reading(column).unwrap_or(Reading::Absent(Absence::NotYet))
}

/// The machine and boot IDs of another node are not known here: zeros.
fn label(node: &NodeName) -> SnapshotLabel {
    let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    SnapshotLabel { node: node.to_string(), machine: [0; 16], boot: [0; 16], epoch: random_epoch(), created }
}

impl Scribe {
    /// Makes a node's file again if it is lost.
    fn renew(&mut self, node: &str) {
        let Some(problem) = self.nodes.get_mut(node).and_then(Kept::problem) else { return };
        tracing::warn!("the snapshot of {node} is lost: {problem}; another one is made");
        self.begin_again(node);
    }

    /// Makes a node's file again if most of its slots belong to series that are gone. Its readers see that it has
    /// ended, and open the new one.
    fn give_slots_back(&mut self, node: &str) {
        let lanes = self.lanes.iter().filter(|(key, _)| key.node == *node);
        let series: usize = lanes.map(|(_, lane)| lane.schema.series().len()).sum();
        let slots = self.nodes.get(node).map_or(0, |kept| kept.slots.len());
        if slots > SLOTS_A_SERIES * series + SLOTS_MORE {
            self.begin_again(node);
        }
    }

    fn begin_again(&mut self, node: &str) {
        match Kept::create(&self.directory, node) {
            Ok(kept) => drop(self.nodes.insert(node.to_owned(), kept)),
            Err(problem) => return tracing::warn!("no snapshot of {node}: {problem}"),
        }
        let lanes = self.lanes.iter_mut().filter(|(key, _)| key.node == *node);
        lanes.for_each(|(_, lane)| lane.slots.clear());
    }
}

impl FollowSink for Scribe {
    fn wish(&mut self, lane: &LaneKey, _: &LaneOffer<'_>) -> Option<Wish> {
        if !self.nodes.contains_key(&lane.node) {
            if self.nodes.len() >= MIRRORED_NODES_MAX {
                self.left_out += 1;
                if self.left_out.is_power_of_two() {
                    tracing::warn!(
                        "more than {MIRRORED_NODES_MAX} nodes: {} times one was left out",
                        self.left_out
                    );
                }
                return None;
            }
            match Kept::create(&self.directory, &lane.node) {
                Ok(kept) => drop(self.nodes.insert(lane.node.clone(), kept)),
                Err(problem) => {
                    tracing::warn!("no snapshot of {:?}: {problem}", lane.node);
                    return None;
                }
            }
        }
        self.lanes.insert(lane.clone(), Lane { schema: SchemaDecoder::new(), slots: Vec::new() });
        Some(Wish { span: Nanos(0), prompt: false })
    }

    fn schema(&mut self, key: &LaneKey, _: u32, offset: u64, bytes: &[u8]) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        if offset == 0 {
            *lane = Lane { schema: SchemaDecoder::new(), slots: Vec::new() };
        }
        if let Err(error) = lane.schema.feed(bytes) {
            tracing::warn!("the series of {}: {error}", key.node);
        }
    }

    fn row(&mut self, key: &LaneKey, _: u64, row: &Decoder) {
        self.renew(&key.node);
        if self.lanes.get(key).is_some_and(|lane| lane.slots.len() != lane.schema.series().len()) {
            self.give_slots_back(&key.node);
        }
        let (Some(lane), Some(kept)) = (self.lanes.get_mut(key), self.nodes.get_mut(&key.node)) else {
            return;
        };
        let series = lane.schema.series();
        if lane.slots.len() == series.len() {
            kept.write_changed(&lane.slots, row);
        } else {
            lane.slots = kept.slots(series);
            kept.write_all(&lane.slots, row);
        }
    }

    fn block(&mut self, _: &LaneKey, _: &[u8]) {}

    fn lost(&mut self, _: &LaneKey, _: u64, _: u64) {}

    fn told(&mut self, told: &Told<'_>) {
        if !told.granted {
            tracing::warn!("the hub refuses: {}", told.text);
        } else if !told.text.is_empty() {
            tracing::info!("the hub reports: {}", told.text);
        }
    }

    fn closed(&mut self, lane: &LaneKey) {
        self.lanes.remove(lane);
    }
}

impl FollowingSink for Scribe {
    fn up(&mut self, _: &HubName) {
        self.is_down = false;
    }

    /// Values stay in place; the time of each row tells how old they are.
    fn down(&mut self, problem: &str) {
        self.lanes.clear();
        if !std::mem::replace(&mut self.is_down, true) {
            tracing::warn!("no hub: {problem}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_block::{Encoder, SchemaEncoder};
    use khz_model::Stamp;

    fn key(epoch: u64) -> LaneKey {
        LaneKey { node: "n1".into(), name: "base".into(), epoch }
    }

    fn offer(node: &str) -> LaneOffer<'_> {
        LaneOffer {
            lane: 1,
            node,
            name: "base",
            epoch: 1,
            generation: 1,
            period: Nanos::SECOND,
            interest: 1,
            oldest_row: 0,
            next_row: 0,
            schema_bytes: 0,
            schema_hash: [0; 16],
        }
    }

    /// A lane with these series of the catalogue, and its rows, as the link would deliver them.
    struct Feed {
        key: LaneKey,
        encoder: Encoder,
        decoder: Decoder,
        slots: usize,
        time: u64,
    }

    impl Feed {
        fn open(scribe: &mut Scribe, epoch: u64, series: &[Series]) -> Self {
            let key = key(epoch);
            assert!(scribe.wish(&key, &offer("n1")).is_some());
            let (mut encoder, mut bytes) = (SchemaEncoder::new(), Vec::new());
            series.iter().for_each(|one| encoder.append(one, &mut bytes).unwrap());
            scribe.schema(&key, 1, 0, &bytes);
            let encoder = Encoder::new(0, 1, Nanos::SECOND);
            Feed { key, encoder, decoder: Decoder::new(), slots: series.len(), time: epoch * 1_000 }
        }

        fn row(&mut self, scribe: &mut Scribe, values: &[u64]) {
            self.time += 1;
            let (stamp, mut bytes) = (Stamp { boot: Nanos(self.time), real_offset: 5 }, Vec::new());
            let reading = |slot: usize| (0, values[slot]);
            match self.encoder.rows_open() {
                0 => self.encoder.key_row(stamp, self.slots, reading, &mut bytes),
                _ => self.encoder.delta_row(stamp, 0..self.slots, reading, &mut bytes),
            }
            let mut at = 0;
            while let khz_block::Step::Header(length) | khz_block::Step::Row(length) =
                self.decoder.step(&bytes[at..]).unwrap()
            {
                let is_row = bytes[at] != b'k';
                at += length;
                if is_row {
                    scribe.row(&self.key, 0, &self.decoder);
                }
            }
        }
    }

    fn series(names: &[&str]) -> Vec<Series> {
        let catalogue = metrics(names);
        catalogue.into_iter().map(|metric| Series { metric, instance: None }).collect()
    }

    fn metrics(names: &[&str]) -> Vec<std::sync::Arc<khz_model::Metric>> {
        use std::borrow::Cow;
        let text = |text: &str| Cow::Owned(text.to_owned());
        let metric = |name: &&str| khz_model::Metric {
            name: text(name),
            kind: khz_model::Kind::Gauge,
            unit: khz_model::Unit::Bytes,
            value_type: khz_model::ValueType::Unsigned,
            labels_from: None,
            places: 0,
            max: None,
            refresh: khz_model::Refresh::Event,
            help: text("made up"),
            origin: khz_model::Origin { file: text("/proc/none"), field: text(name) },
            instances: None,
            exposition: khz_model::Exposition {
                name: text("khz_none"),
                help: None,
                labels: Cow::Borrowed(&[]),
                instance_label: None,
                divisor: 1,
                untyped: false,
            },
            flat: text("none"),
        };
        names.iter().map(metric).map(std::sync::Arc::new).collect()
    }

    #[test]
    fn rows_of_a_remote_node_are_in_its_snapshot_even_after_a_reconnect() {
        let directory = std::env::temp_dir().join(format!("khz-mirror-{}", std::process::id()));
        let mut scribe = Scribe {
            directory: directory.clone(),
            lanes: HashMap::new(),
            nodes: HashMap::new(),
            left_out: 0,
            is_down: false,
        };
        let mut feed = Feed::open(&mut scribe, 1, &series(&["mem.free", "mem.total"]));
        feed.row(&mut scribe, &[7, 100]);
        feed.row(&mut scribe, &[8, 100]);
        let mut page = crate::Page::open(&directory.join("n1/snapshot")).unwrap();
        let (free, total) = (page.find("mem.free").unwrap(), page.find("mem.total").unwrap());
        let read = |page: &crate::Page, slot| page.read(slot).unwrap().unwrap();
        assert_eq!(read(&page, free).reading, Reading::Present(8));
        assert_eq!(read(&page, total).reading, Reading::Present(100));
        assert_eq!(read(&page, total).stamp, Stamp { boot: Nanos(1_002), real_offset: 5 });

        // The node comes back with other series: known ones keep their slots, others become absent.
        scribe.down("it was cut off");
        let mut feed = Feed::open(&mut scribe, 2, &series(&["mem.cached", "mem.free"]));
        feed.row(&mut scribe, &[3, 9]);
        assert_eq!(page.find("mem.free"), Some(free));
        assert_eq!(read(&page, free).reading, Reading::Present(9));
        assert_eq!(read(&page, total).reading, Reading::Absent(Absence::InstanceGone));
        let cached = page.find("mem.cached").unwrap();
        assert_eq!(read(&page, cached).reading, Reading::Present(3));
        // Another process removes the file: some rows later a new one is made, with all values.
        std::fs::remove_file(directory.join("n1/snapshot")).unwrap();
        assert_eq!(page.problem(), Some("somebody has removed it"));
        let long_ago = Instant::now().checked_sub(LOOK_EVERY).unwrap();
        scribe.nodes.get_mut("n1").unwrap().looked = long_ago;
        feed.row(&mut scribe, &[3, 10]);
        page.reopen().unwrap();
        let (free, cached) = (page.find("mem.free").unwrap(), page.find("mem.cached").unwrap());
        assert_eq!(read(&page, free).reading, Reading::Present(10));
        assert_eq!(read(&page, cached).reading, Reading::Present(3));
        drop(scribe);
        assert!(page.has_ended() && !directory.join("n1/snapshot").exists());
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn series_that_are_gone_for_good_do_not_fill_a_snapshot() {
        let directory = std::env::temp_dir().join(format!("khz-mirror-churn-{}", std::process::id()));
        let mut scribe = Scribe {
            directory: directory.clone(),
            lanes: HashMap::new(),
            nodes: HashMap::new(),
            left_out: 0,
            is_down: false,
        };
        let mut slots_most = 0;
        for generation in 0..200 {
            let names: Vec<String> = (0..10).map(|n| format!("made.g{generation}.n{n}")).collect();
            let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
            names.push("mem.free");
            // Another generation of the same lane: its schema begins again.
            let mut feed = Feed::open(&mut scribe, 1, &series(&names));
            let values: Vec<u64> = (generation..generation + 11).collect();
            feed.row(&mut scribe, &values);
            let mut page = crate::Page::open(&directory.join("n1/snapshot")).unwrap();
            for (name, &value) in names.iter().zip(&values) {
                let slot = page.find(name).unwrap();
                let latest = page.read(slot).unwrap().unwrap();
                assert_eq!(latest.reading, Reading::Present(value), "{name}");
            }
            slots_most = slots_most.max(page.names().len());
        }
        assert!(slots_most <= SLOTS_A_SERIES * 11 + SLOTS_MORE + 11, "{slots_most} slots");
        drop(scribe);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_name_from_the_wire_never_leaves_the_directory() {
        let directory = std::env::temp_dir().join(format!("khz-mirror-names-{}", std::process::id()));
        for name in ["../x", "..", ".", "", "a/b", "/etc", ".hidden", "a\0b", "n\n1"] {
            assert!(Kept::create(&directory, name).is_err(), "{name:?}");
        }
        assert!(!directory.exists());
    }
}
