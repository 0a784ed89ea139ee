//! Tests of damaged column files: bytes that no checksum guards never panic, and never become more than a file may have.
//! `tests/files.rs` shows that checksums notice every flipped byte. These tests show what would happen if one did not.

use khz_model::{Nanos, NodeName, Reading, ValueType};
use proptest::prelude::*;

use crate::bytes::Bytes;
use crate::column::{self, Span};
use crate::directory::{self, Entry, Page, Root, VERSION};
use crate::part::Part;
use crate::rollup::{self, Buckets};
use crate::section::{Columns, Index};
use crate::times::{Beside, Kind, Times};
use crate::track::{NO_READING, Track};

const ROWS: usize = 120;

fn times() -> Times {
    let at = (0..ROWS as u64).map(|row| 1_000_000 + row * 1_000 + row * 7 % 13).collect();
    Times::of(Kind::Rows, at, [Beside::Same(5), Beside::Same(0)])
}

fn track() -> Track<u64> {
    let states: Vec<u16> = (0..ROWS).map(|row| [0, 0, 0, 3, NO_READING, 0][row / 7 % 6]).collect();
    let values: Vec<u64> = (0..ROWS as u64).map(|row| row * row % 700).collect();
    Track::of(&states, &values)
}

/// A column with labels.
fn labels() -> Track<u64> {
    let number = |row: usize| {
        let text = (row % 3).to_string();
        khz_model::Labels::new([("number", &*text)]).map_or(0, |labels| labels.number())
    };
    let values: Vec<u64> = (0..ROWS).map(number).collect();
    Track::of(&[u16::from(Reading::Labels(0).state()); ROWS], &values)
}

/// One of each part that a file has.
fn parts() -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new(); 7];
    let buckets = Buckets::of(&times(), Nanos(10_000));
    let rolled = buckets.roll(&track(), ValueType::Unsigned, &times());
    let name = NodeName::new("node1").unwrap();
    let part = Part::of(b"some bytes", 77);
    column::put(&track(), ValueType::Unsigned, &times(), &mut parts[0]);
    column::put(&labels(), ValueType::Labels, &times(), &mut parts[1]);
    rollup::put(&rolled, ValueType::Unsigned, &buckets.times, &mut parts[2]);
    times().put(&mut parts[3]);
    let span = Span { rows: ROWS, first: 5, last: 9 };
    let mut columns = Columns::from(part.end());
    (1..10).for_each(|place| columns.push(Part { offset: part.end() + place * 100, ..part }));
    Index { layout: part, span, times: part, columns }.put(&mut parts[4]);
    let pages = vec![Page { first: name.clone(), part }; 3];
    Root { resolution: Nanos(60), first: 5, last: 9, layout: part, pages }.put(&mut parts[5]);
    let entry = Entry { node: name, index: part };
    parts[6] = directory::pages(vec![entry; 5])[0].1.clone();
    parts
}

/// Gives the bytes to everything that reads bytes; each must return.
fn read_all(bytes: &[u8]) -> usize {
    let (rows, span) = (times(), Span { rows: ROWS, first: 1_000_000, last: 2_000_000 });
    let buckets = Buckets::of(&rows, Nanos(10_000)).times;
    let mut whole = 0;
    if let Ok(track) = column::take(Bytes(bytes), ROWS) {
        assert!(track.values.len() <= ROWS && track.readings().count() <= ROWS);
        let _ = column::summary_of(&track, ValueType::Signed, &rows);
        whole += 1;
    }
    for value_type in [ValueType::Unsigned, ValueType::Float] {
        let _ = column::summary(Bytes(bytes), value_type, span);
        assert!(rollup::take(Bytes(bytes), value_type, &rows).is_err(), "rows are no buckets");
        if let Ok(track) = rollup::take(Bytes(bytes), value_type, &buckets) {
            assert!(track.values.len() <= buckets.rows());
            let _ = Buckets::of(&buckets, Nanos(50_000)).roll_again(&track, value_type);
            whole += 1;
        }
    }
    for resolution in [Nanos(0), Nanos(60)] {
        whole += usize::from(Times::take(&mut Bytes(bytes), resolution).is_ok());
    }
    let index = |version| Index::take(Bytes(bytes), version).is_ok();
    whole += usize::from(index(1)) + usize::from(index(VERSION));
    whole += usize::from(Root::take(Bytes(bytes)).is_ok());
    whole + usize::from(directory::take_page(bytes).is_ok())
}

#[test]
fn whole_parts_are_read() {
    for (number, part) in parts().iter().enumerate() {
        assert!(read_all(part) > 0, "part {number}");
    }
}

proptest! {
    #[test]
    fn damaged_parts_never_panic(
        part in 0usize..7,
        hits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..5),
        cut in 0usize..6,
    ) {
        let mut bytes = parts().swap_remove(part);
        for (at, byte) in hits {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        read_all(&bytes);
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
    }
}
