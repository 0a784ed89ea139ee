//! What is kept of made-up rings, and what is said of it.

use khz_block::{Decoder, Encoder, Step};
use khz_model::Stamp;
use khz_ring::{Label, Reader, Ring, Writer};

use super::*;

const PERIOD: Nanos = Nanos::from_millis(100);

#[derive(Clone)]
struct Made(Reader, &'static str);

impl Lane for Made {
    fn id(&self) -> u64 {
        7
    }
    fn name(&self) -> &str {
        self.1
    }
    fn epoch(&self) -> u64 {
        7
    }
    fn generation(&self) -> u32 {
        self.0.generation()
    }
    fn period(&self) -> Nanos {
        PERIOD
    }
    fn head(&self) -> u64 {
        self.0.head()
    }
    fn oldest(&self) -> u64 {
        self.0.oldest()
    }
    fn newest(&self) -> u64 {
        self.0.newest()
    }
    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        self.0.copy(from, most, out).map_err(|_| Overtaken)
    }
    fn schema_bytes(&self, generation: u32) -> Option<u64> {
        self.0.schema_bytes(generation)
    }
    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        self.0.schema(generation, from, most, out)
    }
}

/// A lane at 10 Hz from second 0 on, whose blocks have 20 rows of these slots. Every value is the number of its row.
struct Gatherer {
    writer: Writer,
    encoder: Encoder,
    slots: usize,
    lane: Made,
    /// So much later than its number says each row is gathered.
    late: Nanos,
}

impl Gatherer {
    /// One that begins at this second.
    fn begins(second: u64, ring: u64, slots: usize) -> Self {
        Gatherer { late: Nanos::from_secs(second), ..Gatherer::new(ring, slots) }
    }

    fn new(ring: u64, slots: usize) -> Self {
        let label = Label {
            node: "n1".into(),
            lane: "local".into(),
            number: 1,
            machine: [1; 16],
            boot: [2; 16],
            epoch: 7,
            created: 0,
        };
        let Ring { mut writer, reader, .. } = Ring::anonymous(ring, label).expect("memory");
        writer.extend_schema(&[5; 100]).expect("room");
        let encoder = Encoder::new(1, writer.generation(), PERIOD);
        Gatherer { writer, encoder, slots, lane: Made(reader, "local"), late: Nanos(0) }
    }

    /// Rows up to this second.
    fn gather(&mut self, second: u64) {
        while self.encoder.rows() < second * 10 {
            let row = self.encoder.rows();
            let boot = Nanos(at(row).0 + self.late.0);
            let (stamp, mut bytes) = (Stamp { boot, real_offset: 0 }, Vec::new());
            if self.encoder.rows_open() == 20 {
                let header = self.encoder.close().expect("rows");
                self.writer.close(&header);
            }
            if self.encoder.rows_open() == 0 {
                self.encoder.key_row(stamp, self.slots, |_| (0, row), &mut bytes);
                assert!(self.writer.begin(&bytes));
            } else {
                self.encoder.delta_row(stamp, 0..self.slots, |_| (0, row), &mut bytes);
                assert!(self.writer.append(&bytes));
            }
        }
    }
}

fn at(row: u64) -> Nanos {
    Nanos(row * PERIOD.0)
}

fn order(number: u64, from: u64, to: u64) -> Order {
    Order { number, from: Nanos::from_secs(from), to: Nanos::from_secs(to) }
}

/// The numbers and the values of the rows that a frozen lane has.
fn rows(ring: &FrozenRing) -> Vec<(u64, u64)> {
    let mut bytes = Vec::new();
    ring.copy(0, usize::MAX, &mut bytes).expect("it never changes");
    let (mut decoder, mut rest, mut rows) = (Decoder::new(), bytes.as_slice(), Vec::new());
    while let Ok(step @ (Step::Header(length) | Step::Row(length))) = decoder.step(rest) {
        rest = &rest[length..];
        if matches!(step, Step::Row(_)) {
            rows.push((decoder.next_row() - 1, decoder.values()[0]));
        }
    }
    assert!(rest.is_empty());
    rows
}

fn answers(freezes: &mut Freezes<Made>) -> Vec<(u64, FrozenState, usize)> {
    let all = std::iter::from_fn(|| freezes.answer());
    all.map(|frozen| (frozen.number, frozen.state, frozen.lanes.len())).collect()
}

#[test]
fn the_rows_of_a_time_are_kept_whole_whatever_the_ring_does_then() {
    let (mut gatherer, mut freezes) = (Gatherer::new(64 << 10, 3), Freezes::default());
    gatherer.gather(30);
    freezes.freeze(order(9, 21, 33), vec![gatherer.lane.clone()], Nanos::from_secs(30));
    assert_eq!(answers(&mut freezes), [(9, FrozenState::Marked, 1)]);
    assert_eq!(freezes.next_due(), Some(Nanos::from_secs(31)));
    for second in 31..=33 {
        gatherer.gather(second);
        freezes.copy(Nanos::from_secs(second));
    }
    gatherer.gather(3_000);
    let frozen = freezes.answer().expect("it is over");
    assert_eq!((frozen.state, frozen.text.as_str(), freezes.next_due()), (FrozenState::Kept, "", None));
    // From the start of the first block on, up to the row before the end.
    assert_eq!((frozen.lanes[0].rows, frozen.lanes[0].missing), ((200, 330), Nanos(0)));
    let ring = freezes.offered().next().expect("a lane");
    assert_eq!(ring.name(), name(9, "local"));
    assert_eq!(rows(&ring), (200..330).map(|row| (row, row)).collect::<Vec<_>>());
    let mut schema = Vec::new();
    assert_eq!(ring.schema(ring.generation(), 0, 1_000, &mut schema), Some(100));
    // Once more: it is only said again.
    freezes.freeze(order(9, 21, 33), vec![gatherer.lane.clone()], Nanos::from_secs(40));
    assert_eq!(answers(&mut freezes), [(9, FrozenState::Kept, 1)]);
    let changes = freezes.changes();
    freezes.thaw(9);
    assert!(freezes.offered().next().is_none() && freezes.changes() > changes && freezes.bytes() == 0);
}

#[test]
fn a_time_that_is_over_is_kept_at_once_and_a_ring_that_is_too_short_says_by_how_much() {
    let (mut gatherer, mut freezes) = (Gatherer::new(64 << 10, 100), Freezes::default());
    gatherer.gather(600);
    freezes.freeze(order(1, 100, 590), vec![gatherer.lane.clone()], Nanos::from_secs(600));
    let frozen = freezes.answer().expect("an answer");
    assert_eq!((frozen.state, freezes.answer()), (FrozenState::Kept, None));
    let lane = &frozen.lanes[0];
    let first = at(lane.rows.0);
    assert!(lane.missing > Nanos::from_secs(100) && first == Nanos(Nanos::from_secs(100).0 + lane.missing.0));
    let ring = freezes.offered().next().expect("a lane");
    assert_eq!(rows(&ring).first().map(|row| row.0), Some(lane.rows.0));
    assert!(lane.rows.1 > 5_900 && lane.rows.1 <= 5_920, "{lane:?}");
    // A node that has only begun has nothing.
    let empty = Gatherer::new(64 << 10, 3);
    freezes.freeze(order(2, 0, 1), vec![empty.lane], Nanos::from_secs(600));
    assert_eq!(answers(&mut freezes), [(2, FrozenState::Refused, 0)]);
}

#[test]
fn newer_freezes_take_the_room_of_older_ones_and_that_is_said_and_counted() {
    let mut gatherer = Gatherer::new(1 << 20, 100);
    gatherer.gather(60);
    let mut freezes = Freezes::default();
    for number in 0..FREEZES_MAX as u64 + 1 {
        freezes.freeze(order(number, 50, 55), vec![gatherer.lane.clone()], Nanos::from_secs(60));
    }
    let said = answers(&mut freezes);
    assert!(said.contains(&(0, FrozenState::Refused, 0)), "{said:?}");
    assert_eq!((freezes.evicted(), freezes.offered().count()), (1, FREEZES_MAX));
    // The same for bytes.
    let mut freezes = Freezes::within(30_000);
    freezes.freeze(order(1, 50, 55), vec![gatherer.lane.clone()], Nanos::from_secs(60));
    let first = freezes.bytes();
    assert!(first > 10_000 && first < 30_000, "{first}");
    freezes.freeze(order(2, 40, 55), vec![gatherer.lane.clone()], Nanos::from_secs(60));
    assert_eq!(freezes.evicted(), 1);
    assert!(freezes.bytes() <= 30_000 + 100, "{}", freezes.bytes());
    freezes.freeze(order(3, 1, 60), vec![gatherer.lane.clone()], Nanos::from_secs(61));
    let last = std::iter::from_fn(|| freezes.answer()).last().expect("an answer");
    assert!(last.text.contains("full") && last.state == FrozenState::Kept, "{last:?}");
    let ring = freezes.offered().next().expect("a lane");
    assert_eq!(rows(&ring).len() as u64, last.lanes[0].rows.1 - last.lanes[0].rows.0, "whole blocks");
    assert!(freezes.bytes() <= 30_000 + 100, "{}", freezes.bytes());
    // A hub that does not come back for a day.
    let tomorrow = Nanos(Nanos::from_secs(61).0 + FROZEN_KEPT_FOR.0);
    freezes.freeze(order(4, 59, 60), vec![gatherer.lane.clone()], tomorrow);
    assert_eq!(freezes.offered().count(), 1);
}

/// What the last answer says, once the time is over.
fn last_text(freezes: &mut Freezes<Made>) -> String {
    let last = std::iter::from_fn(|| freezes.answer()).last().expect("an answer");
    assert_eq!(last.state, FrozenState::Kept);
    last.text
}

#[test]
fn rows_that_a_node_did_not_gather_or_that_were_overwritten_before_they_were_copied_are_named() {
    // Nobody copies for longer than the ring lasts.
    let (mut gatherer, mut freezes) = (Gatherer::new(64 << 10, 100), Freezes::default());
    gatherer.gather(60);
    freezes.freeze(order(1, 50, 80), vec![gatherer.lane.clone()], Nanos::from_secs(60));
    gatherer.gather(3_000);
    freezes.copy(Nanos::from_secs(3_000));
    assert!(last_text(&mut freezes).starts_with("it has no rows of "));
    // It stands still for seven seconds, within the time and at its end.
    for (still_at, from, to, expected) in
        [(60, 50, 80, Some("7.0")), (76, 50, 80, Some("4.0")), (60, 20, 50, None), (60, 80, 90, None)]
    {
        let (mut gatherer, mut freezes) = (Gatherer::new(1 << 20, 3), Freezes::default());
        gatherer.gather(still_at);
        gatherer.late = Nanos::from_secs(7);
        gatherer.gather(100);
        freezes.freeze(order(1, from, to), vec![gatherer.lane.clone()], Nanos::from_secs(107));
        let (text, begin) = (last_text(&mut freezes), "it has no rows of ");
        let seconds = text.strip_prefix(begin).and_then(|rest| rest.split(' ').next());
        assert_eq!(seconds, expected, "{still_at} {from} {to}: {text}");
    }
}

#[test]
fn a_lane_that_began_later_lacks_nothing_if_another_one_has_the_time_before() {
    let (mut local, mut fast) = (Gatherer::new(1 << 20, 3), Gatherer::begins(55, 1 << 20, 3));
    local.gather(60);
    fast.gather(5);
    let missing = |lanes: Vec<Made>| {
        let mut freezes = Freezes::default();
        freezes.freeze(order(1, 40, 60), lanes, Nanos::from_secs(60));
        let frozen = freezes.answer().expect("an answer");
        frozen.lanes.iter().map(|lane| lane.missing.0 / Nanos::SECOND.0).collect::<Vec<_>>()
    };
    assert_eq!(missing(vec![local.lane.clone(), fast.lane.clone()]), [0, 0]);
    assert_eq!(missing(vec![fast.lane.clone()]), [15], "nothing has these rows");
}

#[test]
fn names_of_frozen_lanes_say_of_which_freeze_and_lane_they_are() {
    assert_eq!(name(0x2a, "fixed-100Hz"), "frozen.000000000000002a.fixed-100Hz");
    assert_eq!(of_name(&name(u64::MAX, "local")), Some((u64::MAX, "local")));
    for other in ["base", "frozen", "frozen.2a.local", "frozen.000000000000002g.local", "channel.frozen"] {
        assert_eq!(of_name(other), None, "{other}");
    }
}
