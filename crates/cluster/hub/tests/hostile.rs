//! Nodes that are welcomed and then send what no agent sends: they harm only themselves, and counters stay true.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "other tests need more of it")]
mod fake;

use std::collections::BTreeMap;

use fake::{Hub, Node};
use khz_block::{Encoder, ROW_MAX};
use khz_link::{End, LaneOffer, put};
use khz_model::{Nanos, NodeName, NodeStatus, Pattern, Query, Stamp};

fn status(hub: &Hub, name: &str) -> NodeStatus {
    hub.query.status().into_iter().find(|status| status.node.as_str() == name).unwrap()
}

fn of_nodes(hub: &Hub, name: &str) -> BTreeMap<String, u64> {
    let samples = hub.query.own().unwrap();
    let of = samples.iter().filter(|sample| sample.series.metric.name == name);
    of.map(|s| (s.series.instance.as_ref().unwrap().name().to_owned(), s.reading.value().unwrap())).collect()
}

fn offer(lane: u32, name: &str, epoch: u64) -> LaneOffer<'_> {
    LaneOffer {
        lane,
        node: "",
        name,
        epoch,
        generation: 1,
        period: Nanos::SECOND,
        interest: 0,
        oldest_row: 0,
        next_row: 0,
        schema_bytes: 0,
        schema_hash: [0; 16],
        stands_in: false,
    }
}

#[test]
fn one_lane_offered_under_ever_new_numbers_has_the_last_of_them_only() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).beat();
    for number in 2..1_000 {
        offer(number, "base", 1).put(&mut a.out);
    }
    a.lane = 999;
    let acks = a.row(2, [2; 4]).beat();
    assert_eq!(acks.len(), 1, "one lane, one number");
    assert_eq!((acks[0].lane, acks[0].received), (999, 2));
    // Epochs that come and go leave no numbers either.
    for number in 1_000..2_000 {
        offer(number, "base", u64::from(number)).put(&mut a.out);
    }
    assert!(a.beat().len() <= 1);
    assert!(status(&hub, "a").up);
}

#[test]
fn rows_that_are_lost_and_then_come_damaged_are_not_counted_below_nothing() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).end();
    put::lost(&mut a.out, 1, 1, 11);
    for second in 2..12 {
        a.row(second, [second; 4]);
    }
    let (rows, bytes, crc) = a.encoder.close().unwrap().closed.unwrap();
    End { lane: 1, rows, bytes, crc: crc ^ 1 }.put(&mut a.out);
    a.send();
    assert!(a.refusal().1.contains("checksum"));
    assert!(status(&hub, "a").lanes.iter().all(|lane| lane.rows <= 11));
    assert!(of_nodes(&hub, "khz.node.rows")["a"] <= 11);
}

#[test]
fn two_lanes_that_have_lost_all_numbers_can_still_be_summed() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]);
    put::lost(&mut a.out, 1, 1, ROW_MAX);
    a.beat();
    offer(2, "base", 2).put(&mut a.out);
    a.lane = 2;
    a.encoder = Encoder::new(0, 1, Nanos::SECOND);
    a.offer(2, 0);
    a.row(1, [1; 4]);
    put::lost(&mut a.out, 2, 1, ROW_MAX);
    a.beat();
    assert!(of_nodes(&hub, "khz.node.rows_lost")["a"] > ROW_MAX);
}

#[test]
fn a_nodes_counters_never_fall_when_a_lane_ends() {
    let hub = Hub::with(0, |_| {});
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).row(2, [2; 4]).beat();
    let reader = hub.subscribe(&["mem.free"], 100);
    let number = a.await_frame(|frame| match frame {
        khz_link::Frame::Interest(interest) => Some(interest.number),
        _ => None,
    });
    a.encoder = Encoder::new(1, 1, Nanos::from_millis(10));
    a.lane = 2;
    a.offer_lane("boost1", 9, 0, number);
    for second in 3..13 {
        a.row(second, [second; 4]);
    }
    put::lost(&mut a.out, 2, 10, 12);
    a.beat();
    let before = (of_nodes(&hub, "khz.node.rows")["a"], of_nodes(&hub, "khz.node.rows_lost")["a"]);
    assert_eq!(before, (12, 2));
    drop(reader);
    put::closed(&mut a.out, 2);
    a.beat();
    let after = (of_nodes(&hub, "khz.node.rows")["a"], of_nodes(&hub, "khz.node.rows_lost")["a"]);
    assert_eq!(after, before);
}

#[test]
fn a_lane_that_has_ended_is_not_shown_as_one_that_runs() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).beat();
    let reader = hub.subscribe(&["mem.free"], 100);
    let number = a.await_frame(|frame| match frame {
        khz_link::Frame::Interest(interest) => Some(interest.number),
        _ => None,
    });
    a.encoder = Encoder::new(1, 1, Nanos::from_millis(10));
    a.lane = 2;
    a.offer_lane("boost1", 9, 0, number);
    a.row(2, [2; 4]).end().row(3, [3; 4]).beat();
    assert_eq!(status(&hub, "a").lanes.len(), 2);
    drop(reader);
    put::closed(&mut a.out, 2);
    a.beat();
    assert_eq!(status(&hub, "a").lanes.len(), 1, "only its past is left");
}

#[test]
fn what_a_node_recorded_before_its_reboot_is_as_old_as_its_wall_clock_says() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    let row = |a: &mut Node, boot: u64, real: i64| {
        let stamp = Stamp {
            boot: Nanos::from_secs(boot),
            real_offset: (real - i64::try_from(boot).unwrap()) * 1_000_000_000,
        };
        let mut bytes = Vec::new();
        a.encoder.key_row(stamp, 4, |_| (0, boot), &mut bytes);
        let frame = put::open_lane(&mut a.out, khz_link::frame::kind::BLOCK, a.lane);
        a.out.extend_from_slice(&bytes);
        frame.close(&mut a.out);
        a.end();
    };
    // Two rows ten days into the machine's life, an hour apart; then it boots.
    row(&mut a, 864_000, 1_700_000_000);
    row(&mut a, 867_600, 1_700_003_600);
    a.beat();
    a.encoder = Encoder::new(0, 1, Nanos::SECOND);
    a.offer(2, 0);
    row(&mut a, 20, 1_700_003_650);
    row(&mut a, 21, 1_700_003_651);
    a.beat();
    let patterns = [Pattern::new("mem.free").unwrap()];
    let history = hub.query.history(&patterns, Nanos::from_secs(600), 100).unwrap();
    let values: Vec<u64> = history[0].rows.iter().map(|row| row.readings[0].value().unwrap()).collect();
    assert_eq!(values, [867_600, 20, 21]);
}

#[test]
fn a_large_schema_that_grows_in_crumbs_is_cut_before_others_feel_it() {
    let hub = Hub::new();
    let mut a = Node::connect(hub.address(), "a");
    a.hello(None);
    offer(1, "base", 1).put(&mut a.out);
    let (mut schema, mut encoder) = (Vec::new(), khz_block::SchemaEncoder::new());
    let metric = fake::series()[0].metric.clone();
    let mut at = 0;
    let mut say = |a: &mut Node, encoder: &mut khz_block::SchemaEncoder, slots: std::ops::Range<u32>| {
        for slot in slots {
            let instance = Some(khz_model::Instance::from_kernel(format!("{slot}").as_bytes()));
            encoder.append(&khz_model::Series { metric: metric.clone(), instance }, &mut schema).unwrap();
        }
        for piece in schema.chunks(32 << 10) {
            let frame = put::open_schema(&mut a.out, 1, 1, at);
            a.out.extend_from_slice(piece);
            frame.close(&mut a.out);
            at += piece.len() as u64;
        }
        schema.clear();
    };
    say(&mut a, &mut encoder, 0..40_000);
    // A schema that a block has is copied when it grows.
    let stamp = Stamp { boot: Nanos::from_secs(1), real_offset: 1_700_000_000_000_000_000 };
    let mut row = Vec::new();
    a.encoder.key_row(stamp, 40_000, |_| (0, 1), &mut row);
    let frame = put::open_lane(&mut a.out, khz_link::frame::kind::BLOCK, 1);
    a.out.extend_from_slice(&row);
    frame.close(&mut a.out);
    a.beat();
    // One slot a row is what a busy machine may do.
    (40_000..40_100).for_each(|slot| say(&mut a, &mut encoder, slot..slot + 1));
    a.beat();
    (40_100..42_000).for_each(|slot| say(&mut a, &mut encoder, slot..slot + 1));
    a.send();
    assert_eq!(a.refusal().1, "a schema in too many small pieces");
}

#[test]
fn readers_that_want_something_else_all_the_time_do_not_flood_the_node() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).beat();
    let mut notices = 0;
    for hz in 2..1_000 {
        notices += hub.subscribe(&["mem.free"], hz).notices().len();
    }
    assert!(notices > 500, "most were refused: {notices}");
    a.row(2, [2; 4]).beat();
    assert!(status(&hub, "a").up);
    // On a link it is the reader that goes.
    let mut reader = hub.reader();
    for number in 1..1_000 {
        let patterns = &["mem.free"];
        let period = Nanos::from_millis(20);
        khz_link::Ask { number, period, patterns, ..khz_link::Ask::default() }.put(&mut reader.out);
    }
    reader.send();
    assert!(reader.refusal().1.contains("interests"));
}

#[test]
fn a_node_that_begins_everywhere_and_ends_nothing_is_cut() {
    let hub = Hub::new();
    let mut a = Node::connect(hub.address(), "a");
    a.hello(None);
    let names: Vec<String> = (1..=16).map(|number| format!("lane{number}")).collect();
    for (number, name) in (1..).zip(&names) {
        offer(number, name, 1).put(&mut a.out);
    }
    a.beat();
    let piece = vec![7; 200 << 10];
    let mut sent = 0;
    let mut say = |lane: u32| {
        let frame = put::open_past(&mut a.out, lane, false);
        a.out.extend_from_slice(&piece);
        frame.close(&mut a.out);
        sent += piece.len() as u64;
        a.offers()
    };
    let refused = (1..=16).flat_map(|lane| [lane; 60]).find_map(|lane| say(lane).err());
    assert!(refused.unwrap().contains("holds more memory of the hub than one node may"));
    assert!(sent < khz_hub::limits::NODE_BYTES_MAX, "{sent} bytes");
}

/// The bytes of a schema of one metric: of its first slot, and of this number of others.
fn schema_of(first: &str, others: u32) -> (Vec<u8>, Vec<u8>) {
    let metric = fake::series()[0].metric.clone();
    let mut encoder = khz_block::SchemaEncoder::new();
    let mut append = |instance: &str, out: &mut Vec<u8>| {
        let instance = Some(khz_model::Instance::from_kernel(instance.as_bytes()));
        encoder.append(&khz_model::Series { metric: metric.clone(), instance }, out).unwrap();
    };
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    append(first, &mut head);
    (0..others).for_each(|slot| append(&slot.to_string(), &mut tail));
    (head, tail)
}

/// Says a schema, piece by piece.
fn say_schema(node: &mut Node, lane: u32, schema: &[u8]) -> Result<(), String> {
    let mut at = 0;
    for piece in schema.chunks(250 << 10) {
        let frame = put::open_schema(&mut node.out, lane, 1, at);
        node.out.extend_from_slice(piece);
        frame.close(&mut node.out);
        at += piece.len() as u64;
        node.offers()?;
    }
    Ok(())
}

#[test]
fn a_schema_of_as_many_bytes_as_the_format_allows_is_taken() {
    let (mut schema, mut encoder) = (Vec::new(), khz_block::SchemaEncoder::new());
    let metric = fake::series()[0].metric.clone();
    let mut slots = 0;
    while schema.len() < khz_block::schema::SCHEMA_BYTES_MAX - 512 {
        let instance = Some(khz_model::Instance::from_kernel(format!("{slots:0200}").as_bytes()));
        encoder.append(&khz_model::Series { metric: metric.clone(), instance }, &mut schema).unwrap();
        slots += 1;
    }
    let hub = Hub::new();
    let mut a = Node::connect(hub.address(), "a");
    a.hello(None);
    let hash = ring::digest::digest(&ring::digest::SHA256, &schema);
    let schema_hash = *hash.as_ref().first_chunk().unwrap();
    LaneOffer { schema_bytes: schema.len() as u64, schema_hash, ..offer(1, "base", 1) }.put(&mut a.out);
    // As agents say it, in their pieces.
    let mut at = 0;
    for piece in schema.chunks(khz_link::limits::PIECE) {
        let frame = put::open_schema(&mut a.out, 1, 1, at);
        a.out.extend_from_slice(piece);
        frame.close(&mut a.out);
        at += piece.len() as u64;
        a.send();
    }
    a.beat();
    assert!(hub.own("khz.hub.schema_bytes") > schema.len() as u64);
    assert_eq!(hub.query.series(&NodeName::new("a").unwrap()).unwrap().series().len(), slots);
}

#[test]
fn a_node_of_many_large_lanes_is_cut_at_what_it_makes_the_hub_hold_and_not_at_what_it_says() {
    let hub = Hub::new();
    // Made before anybody waits for it: all but the first slot are the same, and still the hub has to hold each.
    let (_, tail) = schema_of("lane", 200_000);
    let mut a = Node::connect(hub.address(), "a");
    a.hello(None);
    let names: Vec<String> = (1..=16).map(|number| format!("lane{number}")).collect();
    let (mut said, mut refused) = (0, String::new());
    for (number, name) in (1..).zip(&names) {
        offer(number, name, 1).put(&mut a.out);
        let schema = [schema_of(name, 0).0, tail.clone()].concat();
        if let Err(text) = say_schema(&mut a, number, &schema) {
            refused = text;
            break;
        }
        said += 1;
    }
    assert!(
        refused.contains("holds more memory of the hub than one node may"),
        "after {said} lanes: {refused}"
    );
    let most = khz_hub::limits::NODE_BYTES_MAX;
    let held = hub.own("khz.hub.schema_bytes");
    assert!((2..16).contains(&said) && held <= most + (20 << 20), "{said} lanes, {held} bytes");
}

#[test]
fn a_node_whose_row_numbers_leap_to_and_fro_does_not_end_its_readers() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).end().beat();
    let mut reader = hub.reader();
    let (patterns, period) = (&["mem.free"], Nanos::SECOND);
    khz_link::Ask { number: 1, period, patterns, ..khz_link::Ask::default() }.put(&mut reader.out);
    reader.send();
    let mut second = 1;
    let lane = loop {
        second += 1;
        a.row(second, [second; 4]).end().beat();
        let mut lane = None;
        reader.next(|frame| {
            if let khz_link::Frame::Lane(offer) = frame {
                lane = Some(offer.lane);
            }
        });
        if let Some(lane) = lane {
            break lane;
        }
    };
    let want = khz_link::Want {
        epoch: 0,
        from_row: 0,
        span: Nanos(0),
        schema_bytes: 0,
        prompt: false,
        have: Vec::new(),
    };
    want.put(lane, &mut reader.out);
    reader.beat();
    for leap in [1 << 61, 1_000, (1 << 61) + 10, 2_000, (1 << 61) + 20] {
        let sent = hub.own("khz.hub.reader_rows");
        second += 1;
        a.encoder.resume(leap, 1);
        a.row(second, [second; 4]).end().beat();
        fake::until("the row has gone on", || {
            reader.beat();
            hub.own("khz.hub.reader_rows") > sent
        });
    }
    a.beat();
    reader.beat();
}
