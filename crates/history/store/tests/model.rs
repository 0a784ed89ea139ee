//! The store beside a map in memory: whatever rows came, in whatever order and files, every question has the same
//! answer, digit for digit; also after merging, and out of roll-ups.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use common::{add, all_series, folder, keys, labels, node, open};
use khz_model::{Absence, Fault, Nanos, Number, Reading, Series, Stamp, ValueFormat, ValueType};
use khz_store::{History, Key, NodeRows, Summary, Total, merge, roll_up, write_rows};
use proptest::prelude::*;

const BEGIN: u64 = 1_763_000_000_000_000_000;
const NODES: usize = 3;

/// A row: its time in half seconds, which series it has, a number that its readings are made of.
#[derive(Clone, Debug)]
struct Row {
    node: usize,
    time: u64,
    has: u8,
    seed: u64,
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    // Most rows have all series.
    let has = prop_oneof![8 => Just(0x7f), 1 => 0u8..0x80];
    let row = (0..NODES, 0u64..400, has, any::<u64>());
    prop::collection::vec(row.prop_map(|(node, time, has, seed)| Row { node, time, has, seed }), 0..120)
}

/// The reading of a series in a row.
fn reading(series: &Series, place: usize, row: &Row) -> Reading {
    let seed = row.seed.rotate_left(place as u32 * 9);
    match seed % 19 {
        // One never changes.
        _ if place == 1 => Reading::Present(7),
        0 => Reading::Absent(Absence::InstanceGone),
        1 => Reading::Absent(Absence::NotYet),
        2 => Reading::Failed(Fault::Stuck),
        _ if series.metric.value_type == ValueType::Labels => labels(seed % 4),
        _ if series.metric.value_type == ValueType::Float => match seed % 23 {
            3 => Reading::Present(f64::NAN.to_bits()),
            4 => Reading::Present((-0.0f64).to_bits()),
            _ => Reading::Present(((seed % 1_000) as f64 / 8.0 - 20.0).to_bits()),
        },
        3 => Reading::Present(seed),
        // A counter that mostly grows; others wander.
        _ if place == 0 => Reading::Present(row.time * 100 + seed % 50),
        _ => Reading::Present((seed % 200).wrapping_sub(100)),
    }
}

/// What was written: the readings of each series of each node by time.
type Model = BTreeMap<(usize, usize), BTreeMap<u64, (i64, Reading)>>;

/// Writes a file of rows, and enters them into the model.
fn write(path: &Path, rows: &[Row], model: &mut Model) {
    let all = all_series();
    let mut nodes: Vec<NodeRows> = (0..NODES).map(|_| NodeRows::new()).collect();
    for row in rows {
        let has: Vec<usize> = (0..all.len()).filter(|place| row.has >> place & 1 == 1).collect();
        let columns: Vec<Series> = has.iter().map(|&place| all[place].clone()).collect();
        nodes[row.node].columns(&Arc::new(columns)).unwrap();
        let time = BEGIN + row.time * 500_000_000;
        let offset = 1_000 + (row.seed % 3) as i64;
        let readings: Vec<Reading> = has.iter().map(|&place| reading(&all[place], place, row)).collect();
        add(&mut nodes[row.node], time, offset, &readings);
        for (&place, &reading) in has.iter().zip(&readings) {
            model.entry((row.node, place)).or_default().insert(time, (offset, reading));
        }
        // The last row of a time has its offset for all series.
        for (_, times) in model.range_mut((row.node, 0)..(row.node + 1, 0)) {
            if let Some((old, _)) = times.get_mut(&time) {
                *old = offset;
            }
        }
    }
    write_rows(path, nodes.into_iter().enumerate().map(|(number, rows)| (node(number), rows))).unwrap();
}

/// The summary of some values, added up by other means than the store's.
fn expected(format: ValueFormat, values: &[(u64, u64)]) -> Option<String> {
    let (first, last) = (values.first()?, values.last()?);
    let number = |bits: u64| format.number(bits).unwrap_or(Number::Double(0.0));
    let is_number = format.value_type != ValueType::Labels;
    let mut sorted: Vec<u64> = values.iter().map(|value| value.1).collect();
    // Stable: of equal numbers the first is the lowest; the highest is the first of the largest ones.
    sorted.sort_by(|one, two| number(*one).by_size(&number(*two)));
    let lowest = sorted[0];
    let highest = sorted.iter().rev().copied().reduce(|highest, next| {
        if number(next).by_size(&number(highest)).is_eq() { next } else { highest }
    })?;
    let falls: Vec<(u64, u64)> = values.windows(2).map(|two| (two[0].1, two[1].1)).collect();
    let is_fall = |(one, two): &&(u64, u64)| is_number && number(*two).by_size(&number(*one)).is_lt();
    let resets: Vec<u64> = falls.iter().filter(is_fall).map(|(before, _)| *before).collect();
    let total = |values: &mut dyn Iterator<Item = u64>| match format.value_type {
        ValueType::Unsigned => Total::Exact(values.map(i128::from).sum()),
        ValueType::Signed => Total::Exact(values.map(|bits| i128::from(bits.cast_signed())).sum()),
        ValueType::Float => Total::Double(values.map(f64::from_bits).fold(0.0, |sum, value| sum + value)),
        _ => Total::Exact(0),
    };
    Some(shown(&Summary {
        count: values.len() as u64,
        first: khz_store::Point { time: Nanos(first.0), bits: first.1 },
        last: khz_store::Point { time: Nanos(last.0), bits: last.1 },
        lowest: if is_number { lowest } else { 0 },
        highest: if is_number { highest } else { 0 },
        sum: total(&mut values.iter().map(|value| value.1)),
        correction: total(&mut resets.iter().copied()),
        resets: resets.len() as u64,
        changes: falls.iter().filter(|(one, two)| one != two).count() as u64,
    }))
}

/// Text, in which NaN equals NaN. A sum of doubles that begins with the first value, not with 0, may be -0.
fn shown(summary: &Summary) -> String {
    format!("{summary:?}").replace("Double(-0.0)", "Double(0.0)")
}

/// Compares every answer about every series.
fn check(history: &History, model: &Model, from: u64, to: u64, width: u64) {
    for number in 0..NODES {
        for (place, key) in keys().iter().enumerate() {
            let nothing = BTreeMap::new();
            let known = model.get(&(number, place)).unwrap_or(&nothing);
            let mut found = Vec::new();
            let damage = history
                .range(&node(number), key, Nanos(from), Nanos(to), |stamp, reading| {
                    found.push((stamp, reading))
                })
                .unwrap();
            assert!(damage.is_empty(), "{damage:?}");
            let stamp = |time: u64, offset: i64| Stamp {
                boot: Nanos(time.strict_add_signed(-offset)),
                real_offset: offset,
            };
            let rows: Vec<(Stamp, Reading)> = known
                .range(from..to.max(from))
                .map(|(&time, &(offset, it))| (stamp(time, offset), it))
                .collect();
            assert_eq!(found, rows, "{key:?}");
            check_buckets(history, known, number, key, from, to, width);
        }
    }
}

fn check_buckets(
    history: &History,
    known: &BTreeMap<u64, (i64, Reading)>,
    number: usize,
    key: &Key,
    from: u64,
    to: u64,
    width: u64,
) {
    let answer = history.buckets(&node(number), key, Nanos(from), Nanos(to), Nanos(width)).unwrap();
    assert!(answer.damage.is_empty());
    let found: Vec<Option<String>> = answer.found.iter().map(|it| it.as_ref().map(shown)).collect();
    let mut begins = (from..to).step_by(width as usize);
    let values = |begin: u64| {
        let rows = known.range(begin..(begin + width).min(to));
        let valued = rows.filter(|(_, (_, it))| matches!(it, Reading::Present(_) | Reading::Labels(_)));
        valued.map(|(&time, (_, it))| (time, it.bits())).collect::<Vec<_>>()
    };
    let rows: Vec<Option<String>> =
        begins.by_ref().map(|begin| expected(key.format, &values(begin))).collect();
    assert_eq!(found, rows, "{key:?} {from}..{to} by {width}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_answer_is_that_of_a_map_in_memory(
        files in prop::collection::vec(rows(), 1..5),
        questions in prop::collection::vec((0u64..1_700, 0u64..1_700, 1u64..500), 1..4),
        case in any::<u32>(),
    ) {
        let folder = folder(&format!("model-{case}"));
        let (mut model, mut paths) = (Model::new(), Vec::new());
        for (number, rows) in files.iter().enumerate() {
            let path = folder.join(format!("{number}.khzc"));
            // Files overlap by half, or not at all.
            let shift = number as u64 * if case % 2 == 0 { 200 } else { 400 };
            let rows: Vec<Row> = rows.iter().map(|row| Row { time: row.time + shift, ..*row }).collect();
            write(&path, &rows, &mut model);
            paths.push(path);
        }
        let all = || paths.iter().map(|path| open(path)).collect::<Vec<_>>();
        let merged = folder.join("merged.khzc");
        prop_assert!(merge(&merged, &all()).unwrap().damage.is_empty());
        prop_assert!(open(&merged).check().is_empty());
        let (minutes, hours) = (folder.join("minutes.khzc"), folder.join("hours.khzc"));
        let minute = Nanos::from_secs(60);
        prop_assert!(roll_up(&minutes, &all(), minute).unwrap().damage.is_empty());
        prop_assert!(roll_up(&hours, &[open(&minutes)], Nanos(minute.0 * 2)).unwrap().damage.is_empty());
        prop_assert!(open(&minutes).check().is_empty() && open(&hours).check().is_empty());
        for history in [all(), vec![open(&merged)]].map(|files| History::of(files).unwrap()) {
            // Everything at once needs summaries only.
            for &(from, to, width) in questions.iter().chain(&[(0, 4_000, 4_000), (0, 4_000, 400)]) {
                let half_seconds = |n: u64| n * 500_000_000;
                check(&history, &model, BEGIN + half_seconds(from), BEGIN + half_seconds(to), half_seconds(width));
            }
        }
        for (path, resolution) in [(&minutes, minute.0), (&hours, minute.0 * 2)] {
            let history = History::of(vec![open(path)]).unwrap();
            let begin = BEGIN - BEGIN % resolution;
            for ((number, place), known) in &model {
                let key = &keys()[*place];
                // Roll-ups add doubles up bucket by bucket, and keep the last labels only.
                if !matches!(key.format.value_type, ValueType::Float | ValueType::Labels) {
                    check_buckets(&history, known, *number, key, begin, begin + 20 * resolution, 2 * resolution);
                }
            }
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
