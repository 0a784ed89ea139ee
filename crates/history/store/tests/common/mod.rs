//! Made-up nodes, and files of their rows.

#![allow(dead_code, reason = "each test file uses a part")]

pub mod open;
pub mod ranges;
pub mod sender;
pub mod stored;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use khz_model::{Instance, Labels, Metric, Nanos, NodeName, Reading, Series, Stamp, ValueType};
use khz_store::{ColumnFile, Key, NodeRows, write_rows};

/// An empty folder for one test.
pub fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("store-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

pub fn node(number: usize) -> NodeName {
    NodeName::new(&format!("node{number}")).unwrap()
}

/// A metric of the catalogue under another name and with another type.
pub fn metric(name: &str, value_type: ValueType, places: u8) -> Arc<Metric> {
    let some = (*khz_parse::catalogue()[0]).clone();
    Arc::new(Metric { name: name.to_owned().into(), value_type, places, ..some })
}

/// Series of all types, with and without instances.
pub fn all_series() -> Vec<Series> {
    let counter = metric("test.counter", ValueType::Unsigned, 0);
    let labelled = Labels::new([("port", "1")]).unwrap();
    let instances = [
        Some(Instance::from_kernel(b"eth0")),
        Some(Instance::from_kernel(b"lo")),
        Some(Instance::from_kernel(b"mlx5_0").with_labels(&labelled)),
    ];
    let mut series: Vec<Series> =
        instances.into_iter().map(|instance| Series { metric: counter.clone(), instance }).collect();
    let others = [
        metric("test.gauge", ValueType::Unsigned, 2),
        metric("test.signed", ValueType::Signed, 1),
        metric("test.double", ValueType::Float, 0),
        metric("test.labels", ValueType::Labels, 0),
    ];
    series.extend(others.into_iter().map(|metric| Series { metric, instance: None }));
    series
}

pub fn labels(number: u64) -> Reading {
    Reading::Labels(Labels::new([("number", &*number.to_string())]).unwrap().number())
}

/// Adds a row to a node's rows.
pub fn add(rows: &mut NodeRows, time: u64, real_offset: i64, readings: &[Reading]) {
    let stamp = Stamp { boot: Nanos(time.strict_add_signed(-real_offset)), real_offset };
    let states: Vec<u8> = readings.iter().map(|reading| reading.state()).collect();
    let values: Vec<u64> = readings.iter().map(|reading| reading.bits()).collect();
    rows.row(stamp, &states, &values).unwrap();
}

/// A file of two nodes: a busy counter, a gauge, what never changes, and so on, once a second.
pub fn hour(folder: &std::path::Path, seconds: u64) -> PathBuf {
    let columns = Arc::new(all_series());
    let nodes = (1..=2).map(|number| {
        let mut rows = NodeRows::new();
        rows.columns(&columns).unwrap();
        for second in 0..seconds {
            let readings = [
                Reading::Present(second * 1_500 + second * second % 977),
                Reading::Present(7),
                Reading::Absent(khz_model::Absence::InstanceGone),
                Reading::Present((second * 7 % 13) * 4_096),
                Reading::Present((second % 5).wrapping_sub(2)),
                Reading::Present((second as f64 / 4.0).to_bits()),
                labels(second / 200),
            ];
            let time = 1_763_000_000_000_000_000 + second * 1_000_000_000 + second * 7_919 % 50_000;
            add(&mut rows, time + number as u64, 1_000, &readings);
        }
        (node(number), rows)
    });
    let path = folder.join("hour.khzc");
    write_rows(&path, nodes).unwrap();
    path
}

pub fn open(path: &std::path::Path) -> ColumnFile {
    ColumnFile::open(path, &Arc::default()).unwrap()
}

pub fn keys() -> Vec<Key> {
    all_series().iter().map(Key::of).collect()
}
