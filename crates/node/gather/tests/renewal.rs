//! An agent on a made-up host whose interfaces go away: it gives their slots back while it runs, and its readers
//! go on.

#![allow(clippy::unwrap_used)]

mod made_up;

use khz_block::{SchemaDecoder, schema::SCHEMA_BYTES_MAX};
use khz_gather::{Agent, LaneHandle, Plan};
use khz_model::{Delivery, Interest, Nanos, NodeName, Pattern, Rate, Reading, Series, Subscription};
use khz_ring::{Cursor, Event, SNAPSHOT_FILE, Snapshot};
use made_up::{Place, wait_for};

/// The received bytes of interface `n`, whenever it is there.
fn bytes_of(n: u64) -> u64 {
    1_000_000 + n
}

/// The host has these interfaces now.
fn show(place: &Place, interfaces: impl Iterator<Item = u64>) {
    place.show(interfaces.map(|n| (format!("veth{n}"), bytes_of(n))));
}

/// The number of interface `vethN`.
fn number(instance: &str) -> u64 {
    instance.strip_prefix("veth").unwrap().parse().unwrap()
}

/// Checks every row in a lane's ring against the names of its generation; returns the generations, and the number
/// of rows.
fn judge(lane: &LaneHandle) -> (Vec<u32>, u64) {
    let mut cursor = Cursor::new(lane.reader().clone(), lane.reader().oldest());
    let (mut generations, mut slots, mut rows) = (Vec::new(), Vec::new(), 0);
    loop {
        match cursor.advance() {
            Event::UpToDate => return (generations, rows),
            Event::Block => {
                let generation = cursor.decoder().header().unwrap().generation;
                let (mut bytes, mut schema) = (Vec::new(), SchemaDecoder::new());
                lane.reader().schema(generation, 0, SCHEMA_BYTES_MAX, &mut bytes).unwrap();
                schema.feed(&bytes).unwrap();
                let received = schema.series().iter().enumerate();
                let received = received.filter(|(_, series)| series.metric.name == "net.rx_bytes");
                slots = received
                    .map(|(slot, series)| (slot, number(series.instance.as_ref().unwrap().name())))
                    .collect();
                generations.push(generation);
                generations.dedup();
            }
            Event::Row => {
                assert_eq!(cursor.decoder().next_row(), rows + 1, "{}: once, and in order", lane.name());
                rows += 1;
                for &(slot, n) in &slots {
                    let value = cursor.decoder().reading(slot).and_then(|reading| reading.value());
                    assert!(value.is_none_or(|value| value == bytes_of(n)), "{}: veth{n}", lane.name());
                }
            }
        }
    }
}

/// What a reader that follows was given.
#[derive(Default)]
struct Followed {
    rows: u64,
    last: Option<Nanos>,
    columns: Vec<u64>,
}

impl Followed {
    /// Each value stands under its name, and no row is lost.
    fn take(&mut self, deliveries: Vec<Delivery>) {
        for delivery in deliveries {
            assert_eq!(delivery.lost, 0);
            self.columns = delivery
                .columns
                .iter()
                .map(|series| number(series.instance.as_ref().unwrap().name()))
                .collect();
            for row in delivery.rows {
                assert!(self.last < Some(row.stamp.boot), "rows come once, in order");
                assert_eq!(row.readings.len(), self.columns.len());
                (self.last, self.rows) = (Some(row.stamp.boot), self.rows + 1);
                let readings = row.readings.iter().zip(&self.columns);
                assert!(readings.into_iter().all(|(r, &n)| r.value().is_none_or(|v| v == bytes_of(n))));
            }
        }
    }
}

fn subscribe(agent: &Agent) -> Box<dyn Subscription> {
    let patterns = vec![Pattern::new("net.rx_bytes[*]").unwrap()];
    let rate = Rate::from_hz(100).unwrap();
    agent.query().subscribe(Interest::new(patterns, rate, true)).unwrap()
}

#[test]
fn slots_are_given_back_while_readers_follow_and_history_keeps_what_was() {
    let place = Place::new("live");
    show(&place, 0..40);
    let rate = "20ms".parse().unwrap();
    let plan = Plan {
        base_rate: rate,
        local_rate: "10ms".parse().unwrap(),
        ring_folder: Some(place.0.join("rings")),
        ..Plan::new(place.0.join("host"), NodeName::new("n1").unwrap())
    };
    let agent = Agent::start_with(plan, Nanos::from_millis(300)).unwrap();
    let mut lanes = agent.lanes();
    lanes.push(agent.follow(&[Pattern::new("net.*").unwrap()], Rate::from_hz(250).unwrap(), true).unwrap());
    let (mut subscription, mut followed) = (subscribe(&agent), Followed::default());
    let (mut idle, mut idle_followed) = (subscribe(&agent), Followed::default());
    idle_followed.take(idle.poll());
    wait_for("rows with all interfaces", || {
        followed.take(subscription.poll());
        (followed.rows > 20 && followed.columns.len() == 40).then_some(())
    });
    let path = place.0.join("rings").join(SNAPSHOT_FILE);
    let snapshot = Snapshot::open(&path).unwrap();
    let interfaces = |lane: &LaneHandle| {
        let series = lane.series();
        let of_file = khz_parse::net_dev::FILE.metrics();
        let is_of_file = |series: &&Series| of_file.iter().any(|metric| metric.name == series.metric.name);
        series.iter().filter(is_of_file).count()
    };
    assert_eq!(lanes.iter().map(|lane| lane.generation()).max(), Some(1));

    show(&place, 0..3);
    for lane in &lanes {
        wait_for("another generation", || (lane.generation() == 2).then_some(()));
    }
    let metrics = khz_parse::net_dev::FILE.metrics().len();
    assert!(lanes.iter().all(|lane| interfaces(lane) == 3 * metrics));
    wait_for("rows with three columns", || {
        followed.take(subscription.poll());
        (followed.columns == [0, 1, 2]).then_some(())
    });
    // A reader that was busy meanwhile finds every row, too.
    wait_for("the same rows", || {
        idle_followed.take(idle.poll());
        (idle_followed.last >= followed.last).then_some(())
    });
    wait_for("the old snapshot's end", || snapshot.has_ended().then_some(()));
    let snapshot = wait_for("another snapshot", || Snapshot::open(&path).ok());
    let names = wait_for("its names", || Some(snapshot.names()).filter(|names| !names.is_empty()));
    assert!(names.iter().any(|slot| slot.name == "net.rx_bytes[veth2]"));
    assert!(!names.iter().any(|slot| slot.name.contains("veth3")));

    // One that comes back has a slot again, and its past is the same series.
    show(&place, 0..4);
    wait_for("veth3", || {
        followed.take(subscription.poll());
        (followed.columns == [0, 1, 2, 3]).then_some(())
    });
    for lane in &lanes {
        let (generations, rows) = wait_for("rows", || Some(judge(lane)).filter(|(all, _)| all == &[1, 2]));
        assert!(rows > 0, "{}: {generations:?}", lane.name());
    }
    for (pattern, is_here) in [("net.rx_bytes[veth3]", true), ("net.rx_bytes[veth30]", false)] {
        let patterns = [Pattern::new(pattern).unwrap()];
        let values = |reading: &Reading| reading.value();
        let past = wait_for("its past", || {
            let past = agent.query().history(&patterns, Nanos::from_secs(600), 100_000).unwrap().remove(0);
            let last = past.rows.last()?.readings.first().and_then(values);
            (last.is_some() == is_here).then_some(past)
        });
        let number = number(past.columns[0].instance.as_ref().unwrap().name());
        let readings: Vec<Option<u64>> = past.rows.iter().map(|row| values(&row.readings[0])).collect();
        assert_eq!(readings[0], Some(bytes_of(number)), "{pattern}");
        assert!(readings.contains(&None), "{pattern} was gone for a while");
    }
    agent.stop();
}
