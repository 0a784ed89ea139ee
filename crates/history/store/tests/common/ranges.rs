//! What range queries should answer, added up by other means than the store's, and a comparison of what they answer.

use std::collections::BTreeMap;

use khz_model::{
    Nanos, Number, Pattern, RangeContent, RangePoint, RangeRequest, RangeShape, RangeTotal, Ranges, Reading,
    ValueFormat, ValueType,
};
use khz_store::Key;

use super::stored::{NODES, Readings, all_keys, told};

pub fn points_of(content: &RangeContent) -> &[RangePoint] {
    match content {
        RangeContent::Points(points) => points,
        _ => panic!("points were asked for"),
    }
}

/// What some values did, added up by other means than the store's.
pub fn bucket(format: ValueFormat, origin: u64, width: u64, values: &[(u64, u64)]) -> RangePoint {
    let number = |bits: u64| format.number(bits).unwrap_or(Number::Double(0.0));
    let is_number = format.value_type != ValueType::Labels;
    let total = |values: Vec<u64>| match format.value_type {
        ValueType::Unsigned => RangeTotal::Exact(values.iter().map(|bits| i128::from(*bits)).sum()),
        ValueType::Signed => {
            RangeTotal::Exact(values.iter().map(|bits| i128::from(bits.cast_signed())).sum())
        }
        ValueType::Float => RangeTotal::Double(values.iter().map(|bits| f64::from_bits(*bits)).sum()),
        _ => RangeTotal::Exact(0),
    };
    let mut sorted: Vec<u64> = values.iter().map(|value| value.1).collect();
    sorted.sort_by(|one, two| number(*one).by_size(&number(*two)));
    let falls =
        values.windows(2).filter(|two| is_number && number(two[1].1).by_size(&number(two[0].1)).is_lt());
    let resets: Vec<u64> = falls.map(|two| two[0].1).collect();
    let begin = values[0].0 - (values[0].0 - origin) % width;
    RangePoint {
        begin: Nanos(begin),
        count: values.len() as u64,
        first: (Nanos(values[0].0), values[0].1),
        last: values.last().map(|&(time, bits)| (Nanos(time), bits)).unwrap(),
        lowest: if is_number { sorted[0] } else { 0 },
        highest: if is_number { sorted[sorted.len() - 1] } else { 0 },
        sum: total(values.iter().map(|value| value.1).collect()),
        resets: resets.len() as u64,
        changes: values.windows(2).filter(|two| two[0].1 != two[1].1).count() as u64,
        correction: total(resets),
    }
}

pub fn shown(point: &RangePoint) -> String {
    format!("{point:?}").replace("Double(-0.0)", "Double(0.0)")
}

/// Compares every reading with a map, and buckets with those readings. `from` and `to` are any times.
pub fn check_ranges(reader: &dyn Ranges, known: &Readings, from: u64, to: u64, points: u32) {
    let ask = |shape| {
        let patterns = vec![Pattern::everything()];
        reader.range(RangeRequest { patterns, from: Nanos(from), to: Nanos(to), shape }).unwrap()
    };
    let keys = all_keys();
    let place = |node: &str, key: &Key| {
        let number = (0..NODES).find(|number| super::node(*number).as_str() == node).unwrap();
        (number, keys.iter().position(|known| known == key).unwrap())
    };
    let (mut found, mut values) = (Readings::new(), BTreeMap::new());
    let mut answer = ask(RangeShape::Rows);
    while let Some(part) = answer.next().unwrap() {
        let place = place(part.node.as_str(), &Key::of(&part.series));
        let RangeContent::Readings(readings) = part.content else { panic!("rows were asked for") };
        for (stamp, reading) in readings {
            let time = stamp.real().0;
            let before = found.entry(place).or_default().insert(time, told(reading));
            assert!(before.is_none(), "a row comes twice");
            if let Reading::Present(bits) = reading {
                values.entry(place).or_insert_with(Vec::new).push((time, bits));
            }
        }
    }
    assert_eq!(answer.damage(), [""; 0]);
    let within = known.iter().map(|(place, times)| {
        (*place, times.range(from..to).map(|(time, told)| (*time, told.clone())).collect::<BTreeMap<_, _>>())
    });
    let within: Readings = within.filter(|(_, times)| !times.is_empty()).collect();
    assert_eq!(found, within);
    let mut answer = ask(RangeShape::Points(points));
    let width = answer.width().unwrap().0;
    let mut rolled = BTreeMap::new();
    while let Some(part) = answer.next().unwrap() {
        let (key, points) = (Key::of(&part.series), points_of(&part.content).to_vec());
        if key.format.value_type != ValueType::Labels {
            assert!(rolled.insert(place(part.node.as_str(), &key), points).is_none(), "{key:?} comes twice");
        }
    }
    assert_eq!(answer.damage(), [""; 0]);
    let Some(first) = rolled.values().flatten().map(|point| point.begin.0).min() else {
        return assert!(values.is_empty());
    };
    let origin = first % width;
    for (place, values) in &values {
        let buckets = values.chunk_by(|one, two| (one.0 - origin) / width == (two.0 - origin) / width);
        let expected = buckets.map(|values| shown(&bucket(keys[place.1].format, origin, width, values)));
        let found: Vec<String> = rolled.remove(place).unwrap_or_default().iter().map(shown).collect();
        assert_eq!(found, expected.collect::<Vec<_>>(), "{place:?} {from}..{to} by {points}");
    }
    assert!(rolled.is_empty(), "{rolled:?}");
}
