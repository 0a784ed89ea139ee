//! Column files from outside: their bytes, their damage, and what a reader finds in them.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::{add, all_series, folder, hour, keys, metric, node, open};
use khz_model::{Nanos, Reading, Series, ValueType};
use khz_store::{ColumnFile, History, Key, NodeRows, StoreError, merge, write_rows};

/// Everything that a history says of a node, as text.
fn told(history: &History, number: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for key in keys() {
        let all = (Nanos(0), Nanos(u64::MAX));
        let damage = history.range(&node(number), &key, all.0, all.1, |stamp, reading| {
            // The numbers of labels are this process's own.
            let reading =
                reading.labels().map_or_else(|| format!("{reading:?}"), |labels| labels.to_string());
            lines.push(format!("{} {} {reading}", key.metric, stamp.real_text()));
        });
        assert!(damage.is_ok());
    }
    lines
}

#[test]
fn the_bytes_of_a_file_do_not_change_and_an_old_file_is_still_read() {
    let folder = folder("golden");
    let all = all_series();
    let columns = Arc::new(vec![all[0].clone(), all[4].clone()]);
    let mut rows = NodeRows::new();
    rows.columns(&columns).unwrap();
    for second in 0..20u64 {
        let readings = [Reading::Present(100 + second * second), Reading::Present(5)];
        add(&mut rows, 1_000_000_000 * second, 0, &readings);
    }
    let path = folder.join("golden.khzc");
    write_rows(&path, [(node(1), rows)]).unwrap();
    let bytes = fs::read(&path).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    // The layout is packed by zstd, whose bytes are its own affair: of it only header and columns are compared.
    assert_eq!(hex(&bytes[..8]), "6b687a4802000000");
    // Times: 20 rows of order 2 from 0 in steps of a second, without a difference; offsets of 0, shifts of 0. The counter: its summary, then a
    // stream of order 2. The gauge: a constant.
    let times = "1405008094ebdc030200000000000100".to_owned() + "0100" + "0100";
    let columns =
        "0564e90200e9020000f622001300".to_owned() + "0564010200030d00000005fb9a0200000000000101" + "05";
    let written = hex(&bytes);
    assert!(written.contains(&(columns + &times)), "{written}");
    assert_eq!(hex(&bytes[bytes.len() - 4..]), hex(b"khzH"));
    // Of version 1, where columns follow their times, and of version 2.
    let kept = [&include_bytes!("golden.khzc")[..], include_bytes!("golden2.khzc")];
    for (at, kept) in kept.into_iter().enumerate() {
        assert_eq!(usize::from(kept[4]), at + 1);
        let kept = History::of(vec![ColumnFile::from_bytes(kept.to_vec()).unwrap()]).unwrap();
        assert_eq!(told(&kept, 1), told(&History::of(vec![open(&path)]).unwrap(), 1));
        assert_eq!(told(&kept, 1).len(), 40);
    }
}

/// A file with these nodes, which have the series `all` of [`all_series`] at 20 seconds: a counter of its own each.
fn file_of(path: &Path, nodes: std::ops::Range<usize>, all: &[usize]) -> khz_store::Written {
    let series = all_series();
    let columns = Arc::new(all.iter().map(|at| series[*at].clone()).collect::<Vec<_>>());
    let rows = nodes.map(|number| {
        let mut rows = NodeRows::new();
        rows.columns(&columns).unwrap();
        for second in 0..20u64 {
            let readings: Vec<Reading> =
                (0..all.len() as u64).map(|at| Reading::Present(number as u64 * (second + at))).collect();
            add(&mut rows, 1_000_000_000 * second, 0, &readings);
        }
        (node(number), rows)
    });
    write_rows(path, rows).unwrap()
}

#[test]
fn nodes_in_groups_are_found_with_their_own_columns() {
    let folder = folder("groups");
    let path = folder.join("groups.khzc");
    // More than a group may have, then others with another layout between them.
    file_of(&path, 0..200, &[0, 4]);
    let of_one = |number: usize, all: &[usize]| {
        let path = folder.join("one.khzc");
        file_of(&path, number..number + 1, all);
        told(&History::of(vec![open(&path)]).unwrap(), number)
    };
    let whole = History::of(vec![open(&path)]).unwrap();
    for number in 0..200 {
        assert_eq!(told(&whole, number), of_one(number, &[0, 4]), "node {number}");
    }
    // Merged with a file of other nodes and another layout, each has its own still.
    let other = folder.join("other.khzc");
    file_of(&other, 150..260, &[4]);
    let merged = folder.join("merged.khzc");
    let written = merge(&merged, &[open(&path), open(&other)]).unwrap();
    assert!(written.damage.is_empty());
    let merged = History::of(vec![open(&merged)]).unwrap();
    for number in 0..150 {
        assert_eq!(told(&merged, number), of_one(number, &[0, 4]), "node {number}");
    }
    for number in 200..260 {
        assert_eq!(told(&merged, number), of_one(number, &[4]), "node {number}");
    }
}

#[test]
fn any_flipped_byte_is_noticed_and_what_is_told_is_true() {
    let path = hour(&folder("flipped"), 40);
    let whole = fs::read(&path).unwrap();
    let truth = told(&History::of(vec![open(&path)]).unwrap(), 1);
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        let file = match ColumnFile::from_bytes(bytes) {
            Err(StoreError::Damaged { .. } | StoreError::Version { .. }) => continue,
            Err(error) => panic!("byte {at}: {error}"),
            Ok(file) => file,
        };
        let is_noticed = !file.check().is_empty();
        // Three bytes after the version are reserved.
        assert!(is_noticed || (5..8).contains(&at), "byte {at}");
        let history = History::of(vec![file]).unwrap();
        let mut expected = truth.iter();
        for line in told(&history, 1) {
            assert!(expected.any(|truth| *truth == line), "byte {at}: {line}");
        }
    }
}

#[test]
fn a_file_that_was_cut_off_anywhere_is_refused_with_its_name() {
    let path = hour(&folder("cut"), 100);
    let whole = fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(37).chain([whole.len() - 1]) {
        let error = ColumnFile::from_bytes(whole[..length].to_vec()).err().map(|error| error.to_string());
        let error = error.unwrap_or_else(|| panic!("{length} bytes of {} are a file", whole.len()));
        assert!(error.starts_with("memory, byte "), "{error}");
    }
}

#[test]
fn a_damaged_column_is_named_and_the_others_are_read() {
    let folder = folder("column");
    let path = hour(&folder, 600);
    let whole = fs::read(&path).unwrap();
    let of_node =
        |path: &std::path::Path, number| told(&History::of(vec![open(path)]).unwrap(), number).len();
    let (first, second) = (of_node(&path, 1), of_node(&path, 2));
    // Some byte of a column of the first node.
    let damaged = (0..whole.len()).step_by(16).find(|&at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        ColumnFile::open(&path, &Arc::default()).is_ok() && of_node(&path, 1) + 600 == first
    });
    assert!(damaged.is_some());
    let damage: Vec<String> = open(&path).check().iter().map(ToString::to_string).collect();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert!(damage[0].contains("hour.khzc, byte ") && damage[0].contains("checksum"), "{damage:?}");
    assert_eq!(of_node(&path, 2), second);
    let merged = merge(&folder.join("merged.khzc"), &[open(&path)]).unwrap();
    assert_eq!(merged.damage.len(), 1);
    assert_eq!(merged.written.sections, 2);
}

#[test]
fn a_metric_that_changes_its_type_is_two_series() {
    let folder = folder("type");
    let columns = |value_type| {
        Arc::new(vec![Series { metric: metric("test.temperature", value_type, 1), instance: None }])
    };
    let mut paths = Vec::new();
    for (number, value_type) in [ValueType::Unsigned, ValueType::Signed].into_iter().enumerate() {
        let mut rows = NodeRows::new();
        rows.columns(&columns(value_type)).unwrap();
        add(&mut rows, 1_000 + number as u64, 0, &[Reading::Present(u64::MAX)]);
        if value_type == ValueType::Unsigned {
            let changed = rows.columns(&columns(ValueType::Signed));
            assert!(matches!(changed, Err(StoreError::FormatChanged { .. })));
        }
        paths.push(folder.join(format!("{number}.khzc")));
        write_rows(&paths[number], [(node(1), rows)]).unwrap();
    }
    let merged = folder.join("merged.khzc");
    let files: Vec<ColumnFile> = paths.iter().map(|path| open(path)).collect();
    assert_eq!(merge(&merged, &files).unwrap().written.sections, 2);
    let history = History::of(vec![open(&merged)]).unwrap();
    let keys = history.keys(&node(1), "test.temperature").found;
    assert_eq!(keys.len(), 2);
    for (key, text) in keys.iter().zip(["1844674407370955161.5", "-0.1"]) {
        let mut found = Vec::new();
        history
            .range(&node(1), key, Nanos(0), Nanos(9_999), |_, reading| found.push(key.format.value(reading)))
            .unwrap();
        let found: Vec<String> = found.into_iter().flatten().map(|value| value.to_string()).collect();
        assert_eq!(found, [text]);
    }
}

#[test]
fn many_nodes_have_the_texts_of_their_metrics_once_and_each_is_found() {
    let folder = folder("nodes");
    let catalogue = khz_parse::catalogue();
    let columns: Vec<Series> =
        catalogue.into_iter().map(|metric| Series { metric, instance: None }).collect();
    let help: usize = columns.iter().map(|series| series.metric.help.len()).sum();
    let columns = Arc::new(columns);
    let rows = |number: usize| {
        let mut rows = NodeRows::new();
        rows.columns(&columns).unwrap();
        for second in 0..3 {
            let readings = vec![Reading::Present(number as u64 + second); columns.len()];
            add(&mut rows, second * 1_000, 0, &readings);
        }
        (node(number), rows)
    };
    let path = folder.join("nodes.khzc");
    let written = write_rows(&path, (0..300).map(rows)).unwrap();
    assert_eq!(written.sections, 300);
    let each = written.bytes as usize / 300 / columns.len();
    assert!(each < 40, "{each} bytes a column, {help} bytes of help");
    let file = open(&path);
    assert_eq!(file.nodes().0.len(), 300);
    for number in [0, 1, 63, 64, 128, 299] {
        let sections = file.sections(&node(number)).unwrap();
        assert_eq!((sections.len(), sections[0].rows(), sections[0].series().len()), (1, 3, columns.len()));
    }
    assert!(file.sections(&node(300)).unwrap().is_empty());
    let history = History::of(vec![file]).unwrap();
    let totals = history.totals(&node(64), &Key::of(&columns[0]), Nanos(0), Nanos(3_000)).unwrap();
    assert_eq!(totals.found.map(|found| (found.count, found.lowest, found.highest)), Some((3, 64, 66)));
}

#[test]
fn a_coarse_question_is_answered_though_the_values_are_damaged() {
    // Only the summary is read, so only a damaged file shows that the values were not.
    let path = hour(&folder("coarse"), 600);
    let history = History::of(vec![open(&path)]).unwrap();
    let key = &keys()[0];
    let all = history.totals(&node(1), key, Nanos(0), Nanos(u64::MAX)).unwrap();
    let mut summary: Option<khz_store::Summary> = None;
    let half = Nanos(1_763_000_300_000_000_000);
    for (from, to) in [(Nanos(0), half), (half, Nanos(u64::MAX))] {
        let part = history.totals(&node(1), key, from, to).unwrap().found.unwrap();
        match &mut summary {
            Some(summary) => summary.join(ValueType::Unsigned, &part),
            None => summary = Some(part),
        }
    }
    assert_eq!(all.found, summary, "the summary of the column, and the values of its halves");
}

#[test]
fn more_buckets_than_an_answer_may_have_are_refused() {
    let history = History::of(Vec::<ColumnFile>::new()).unwrap();
    let asked = history.buckets(&node(1), &keys()[0], Nanos(0), Nanos(u64::MAX), Nanos(1));
    assert_eq!(
        asked.err().map(|error| error.to_string()),
        Some("more than 1048576 buckets in one answer".into())
    );
    let columns = Arc::new(all_series());
    assert!(NodeRows::new().columns(&columns).is_ok());
}

#[test]
fn a_section_that_is_too_large_for_a_group_stands_between_groups() {
    let path = folder("large").join("large.khzc");
    // Doubles without a pattern take eight bytes each: four columns of them are more than a group may have.
    let of = |name: &str| Series { metric: metric(name, ValueType::Float, 0), instance: None };
    let columns: Vec<Series> = ["test.a", "test.b", "test.c", "test.d"].into_iter().map(of).collect();
    let value = |node: u64, row: u64, at: u64| {
        let mixed = (node << 40 ^ row << 8 ^ at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        1.0f64.to_bits() | mixed >> 12
    };
    let of_node = |number: usize, count: u64| {
        let mut rows = NodeRows::new();
        rows.columns(&Arc::new(columns.clone())).unwrap();
        for row in 0..count {
            let reading = |at| Reading::Present(value(number as u64, row, at));
            add(&mut rows, 1_000_000 * row, 0, &[0, 1, 2, 3].map(reading));
        }
        (node(number), rows)
    };
    let counts = [(1, 20), (2, 20), (3, 110_000), (4, 20)];
    let written = write_rows(&path, counts.map(|(number, count)| of_node(number, count))).unwrap();
    assert!(written.bytes > khz_store::limits::GROUP_BYTES as u64 && written.sections == 4, "{written:?}");
    assert!(open(&path).check().is_empty());
    let history = History::of(vec![open(&path)]).unwrap();
    for (number, count) in counts {
        for (at, series) in columns.iter().enumerate() {
            let mut row = 0;
            let all = (Nanos(0), Nanos(u64::MAX));
            let damage = history.range(&node(number), &Key::of(series), all.0, all.1, |_, reading| {
                assert_eq!(reading, Reading::Present(value(number as u64, row, at as u64)), "node {number}");
                row += 1;
            });
            assert!(damage.is_ok());
            assert_eq!(row, count, "node {number}");
        }
    }
}
