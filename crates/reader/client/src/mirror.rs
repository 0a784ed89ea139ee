//! Snapshots of other nodes on this machine. A mirror writes the rows that a hub sends into files with the
//! layout of `docs/shm.md`, so that a program reads any node's latest values in tens of nanoseconds, without
//! a request.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use khz_follow::{Lane, Reader, Row, Subscriber};
use khz_link::LaneOffer;
use khz_model::{Absence, Interest, Nanos, NodeName, Pattern, Rate, Reading, Series};
use khz_ring::{RingError, SNAPSHOT_FILE, SlotName, SnapshotLabel, SnapshotWriter, random_epoch};

use crate::access::Access;
use crate::client::ClientError;

/// Most nodes that have files: as many as a hub knows. A file of 300 values takes 140 kB of memory.
pub const MIRRORED_NODES_MAX: usize = 4_096;

/// How often a writer checks whether its file was cut short or removed.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// A node's values come in one lane, so all of them belong to one row.
const GROUP: u8 = 0;

/// A node's file is made again when it has more than this many slots for each series that there still is, and these
/// many more: its slots are never used for something else.
const SLOTS_A_SERIES: usize = 2;
const SLOTS_MORE: usize = 64;

/// What to mirror.
#[derive(Clone, Debug)]
pub struct MirrorSettings {
    /// Which series, of which nodes.
    pub patterns: Vec<Pattern>,
    /// The rate; `None`: the rate at which nodes send anyway.
    pub rate: Option<Rate>,
}

/// Snapshots that are kept up to date. Dropping it removes their files; processes that have them mapped then
/// read that they have ended.
pub struct Mirror {
    // Its thread writes the files.
    _subscriber: Subscriber<()>,
}

impl Mirror {
    /// Keeps `DIRECTORY/NODE/snapshot` for every node that the patterns select, from its first row on.
    ///
    /// # Errors
    /// No hub can be reached, or there are too many patterns.
    pub fn start(access: &Access, directory: &Path, settings: &MirrorSettings) -> Result<Self, ClientError> {
        let subscriber = Subscriber::start(access.settings()?, Scribe::new(directory))?;
        let rate = settings.rate.or(Rate::from_period(Nanos::SECOND)).expect("BUG: once a second is a rate");
        // A caller that names a rate gets it even where the kernel changes more slowly, and
        // every row at once.
        let (exact, prompt) = (settings.rate.is_some(), settings.rate.is_some());
        subscriber.subscribe(&Interest::new(settings.patterns.clone(), rate, exact), prompt, ())?;
        Ok(Mirror { _subscriber: subscriber })
    }
}

/// Writes incoming rows, on the link's thread.
struct Scribe {
    directory: PathBuf,
    nodes: HashMap<NodeName, Kept>,
    /// Files that were made until now.
    made: u64,
    left_out: u64,
}

/// What is kept of a lane.
#[derive(Default)]
struct Columns {
    /// The number of the file that the slots are of.
    file: u64,
    /// The snapshot's slot for each column.
    slots: Vec<Option<u32>>,
}

/// A node's snapshot.
struct Kept {
    writer: SnapshotWriter,
    /// Tells its file from all others of this process.
    file: u64,
    /// When its file was last checked.
    checked: Instant,
    slots: HashMap<String, u32>,
    is_full: bool,
}

impl Kept {
    /// A name from the wire becomes part of a path. A node name has no separator and no leading dot.
    fn create(directory: &Path, node: &NodeName, file: u64) -> Result<Self, RingError> {
        let path = directory.join(node.as_str()).join(SNAPSHOT_FILE);
        let writer = SnapshotWriter::create(&path, &label(node))?;
        Ok(Kept { writer, file, checked: Instant::now(), slots: HashMap::new(), is_full: false })
    }

    /// Why readers can no longer find its file; `None`: they can. Checked as rows come.
    fn problem(&mut self) -> Option<&'static str> {
        if self.checked.elapsed() < CHECK_EVERY {
            return None;
        }
        self.checked = Instant::now();
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
    fn write_all(&mut self, slots: &[Option<u32>], row: &Row<'_>) {
        const GONE: Reading = Reading::Absent(Absence::InstanceGone);
        let mut all: HashMap<u32, Reading> = self.slots.values().map(|&slot| (slot, GONE)).collect();
        all.extend(
            slots.iter().enumerate().filter_map(|(column, slot)| Some(((*slot)?, row.reading(column)))),
        );
        let values = all.into_iter().map(|(slot, reading)| (slot, reading.state(), reading.bits()));
        self.writer.write(GROUP, row.stamp(), values);
    }

    fn write_changed(&mut self, slots: &[Option<u32>], row: &Row<'_>) {
        let values = row.changed().filter_map(|(column, reading)| {
            Some((slots.get(column).copied().flatten()?, reading.state(), reading.bits()))
        });
        self.writer.write(GROUP, row.stamp(), values);
    }
}

/// The machine and boot IDs of another node are not known here: zeros.
fn label(node: &NodeName) -> SnapshotLabel {
    let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    SnapshotLabel { node: node.to_string(), machine: [0; 16], boot: [0; 16], epoch: random_epoch(), created }
}

impl Scribe {
    fn new(directory: &Path) -> Self {
        Scribe { directory: directory.into(), nodes: HashMap::new(), made: 0, left_out: 0 }
    }

    /// Makes a node's file.
    fn create(&mut self, node: &NodeName) -> Option<()> {
        self.made += 1;
        match Kept::create(&self.directory, node, self.made) {
            Ok(kept) => drop(self.nodes.insert(node.clone(), kept)),
            Err(error) => {
                tracing::warn!("no snapshot of {node}: {error}");
                return None;
            }
        }
        Some(())
    }

    /// Makes a node's file again if most of its slots belong to series that are gone. Its readers see that it has
    /// ended, and open the new one.
    fn give_slots_back(&mut self, node: &NodeName, series: usize) {
        let slots = self.nodes.get(node).map_or(0, |kept| kept.slots.len());
        if slots > SLOTS_A_SERIES * series + SLOTS_MORE {
            self.create(node);
        }
    }

    /// Makes a node's file again if it is lost.
    fn renew(&mut self, node: &NodeName) {
        if let Some(problem) = self.nodes.get_mut(node).and_then(Kept::problem) {
            tracing::warn!("the snapshot of {node} is lost: {problem}; another one is made");
            self.create(node);
        }
    }
}

impl Reader for Scribe {
    type Subscription = ();
    type Lane = Columns;

    fn offered(&mut self, node: &NodeName, _: &LaneOffer<'_>, (): &()) -> Option<Columns> {
        if self.nodes.contains_key(node) {
            return Some(Columns::default());
        }
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
        self.create(node).map(|()| Columns::default())
    }

    fn columns(&mut self, lane: &mut Lane<Self>, known: usize) {
        lane.data.slots.truncate(known);
    }

    fn row(&mut self, lane: &mut Lane<Self>, row: &Row<'_>) {
        self.renew(lane.node());
        if lane.data.slots.len() != lane.series().len() {
            self.give_slots_back(lane.node(), lane.series().len());
        }
        let Some(kept) = self.nodes.get_mut(lane.node()) else { return };
        let (series, columns) = lane.parts();
        if (columns.file, columns.slots.len()) == (kept.file, series.len()) {
            kept.write_changed(&columns.slots, row);
        } else {
            *columns = Columns { file: kept.file, slots: kept.slots(series) };
            kept.write_all(&columns.slots, row);
        }
    }

    fn notice(&mut self, (): &(), granted: bool, text: &str) {
        match granted {
            true => tracing::info!("the hub reports: {text}"),
            false => tracing::warn!("the hub refuses: {text}"),
        }
    }

    // Values stay in place; the time of each row tells how old they are.
    fn down(&mut self, problem: &str) {
        tracing::warn!("no hub: {problem}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_block::{Decoder, Encoder, SchemaEncoder};
    use khz_follow::{Follower, Subscriptions};
    use khz_link::{LaneKey, LaneSink};
    use khz_model::Stamp;

    fn follower(directory: &Path) -> Follower<Scribe> {
        Follower::new(Scribe::new(directory), Subscriptions::from_iter([(1, ())]))
    }

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
            stands_in: false,
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
        fn open(follower: &mut Follower<Scribe>, epoch: u64, series: &[Series]) -> Self {
            let key = key(epoch);
            assert!(follower.offered(&key, &offer("n1")).is_some());
            let (mut encoder, mut bytes) = (SchemaEncoder::new(), Vec::new());
            series.iter().for_each(|one| encoder.append(one, &mut bytes).unwrap());
            follower.schema(&key, 1, 0, &bytes);
            let encoder = Encoder::new(0, 1, Nanos::SECOND);
            Feed { key, encoder, decoder: Decoder::new(), slots: series.len(), time: epoch * 1_000 }
        }

        fn row(&mut self, follower: &mut Follower<Scribe>, values: &[u64]) {
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
                    follower.row(&self.key, 0, &self.decoder);
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
        let mut follower = follower(&directory);
        let mut feed = Feed::open(&mut follower, 1, &series(&["mem.free", "mem.total"]));
        feed.row(&mut follower, &[7, 100]);
        feed.row(&mut follower, &[8, 100]);
        let mut page = crate::Page::open(&directory.join("n1/snapshot")).unwrap();
        let (free, total) = (page.find("mem.free").unwrap(), page.find("mem.total").unwrap());
        let read = |page: &crate::Page, slot| page.read(slot).unwrap().unwrap();
        assert_eq!(read(&page, free).reading, Reading::Present(8));
        assert_eq!(read(&page, total).reading, Reading::Present(100));
        assert_eq!(read(&page, total).stamp, Stamp { boot: Nanos(1_002), real_offset: 5 });

        // The node comes back with other series: known ones keep their slots, others become absent.
        follower.down("it was cut off");
        let mut feed = Feed::open(&mut follower, 2, &series(&["mem.cached", "mem.free"]));
        feed.row(&mut follower, &[3, 9]);
        assert_eq!(page.find("mem.free"), Some(free));
        assert_eq!(read(&page, free).reading, Reading::Present(9));
        assert_eq!(read(&page, total).reading, Reading::Absent(Absence::InstanceGone));
        let cached = page.find("mem.cached").unwrap();
        assert_eq!(read(&page, cached).reading, Reading::Present(3));
        // Another process removes the file: some rows later a new one is made, with all values.
        std::fs::remove_file(directory.join("n1/snapshot")).unwrap();
        assert_eq!(page.problem(), Some("somebody has removed it"));
        let long_ago = Instant::now().checked_sub(CHECK_EVERY).unwrap();
        follower.reader_mut().nodes.values_mut().for_each(|kept| kept.checked = long_ago);
        feed.row(&mut follower, &[3, 10]);
        page.reopen().unwrap();
        let (free, cached) = (page.find("mem.free").unwrap(), page.find("mem.cached").unwrap());
        assert_eq!(read(&page, free).reading, Reading::Present(10));
        assert_eq!(read(&page, cached).reading, Reading::Present(3));
        drop(follower);
        assert!(page.has_ended() && !directory.join("n1/snapshot").exists());
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn series_that_are_gone_for_good_do_not_fill_a_snapshot() {
        let directory = std::env::temp_dir().join(format!("khz-mirror-churn-{}", std::process::id()));
        let mut follower = follower(&directory);
        let mut slots_most = 0;
        for generation in 0..200 {
            let names: Vec<String> = (0..10).map(|n| format!("made.g{generation}.n{n}")).collect();
            let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
            names.push("mem.free");
            // Another generation of the same lane: its schema begins again.
            let mut feed = Feed::open(&mut follower, 1, &series(&names));
            let values: Vec<u64> = (generation..generation + 11).collect();
            feed.row(&mut follower, &values);
            let mut page = crate::Page::open(&directory.join("n1/snapshot")).unwrap();
            for (name, &value) in names.iter().zip(&values) {
                let slot = page.find(name).unwrap();
                let latest = page.read(slot).unwrap().unwrap();
                assert_eq!(latest.reading, Reading::Present(value), "{name}");
            }
            slots_most = slots_most.max(page.names().len());
        }
        assert!(slots_most <= SLOTS_A_SERIES * 11 + SLOTS_MORE + 11, "{slots_most} slots");
        drop(follower);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_name_from_the_wire_never_leaves_the_directory() {
        let directory = std::env::temp_dir().join(format!("khz-mirror-names-{}", std::process::id()));
        let mut follower = follower(&directory);
        for name in ["../x", "..", ".", "", "a/b", "/etc", ".hidden", "a\0b", "n\n1"] {
            let key = LaneKey { node: name.into(), ..key(1) };
            assert!(follower.offered(&key, &offer(name)).is_none(), "{name:?}");
        }
        assert!(!directory.exists());
    }
}
