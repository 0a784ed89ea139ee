//! A row of a channel, or an event, as a line: a JSON object. Values are exact texts, as in files of values.

use khz_model::{NodeName, Reading, Series};
use serde_json::{Map, Value, json};

use super::lanes::{ChannelLane, Missing};
use crate::upstream::ChannelRow;

/// A row: `{"node":"n1","time":"1763690000.5","values":{"load.1m":"0.50"}}`.
pub(super) fn row(lane: &ChannelLane, row: &ChannelRow<'_>) -> Vec<u8> {
    let values: Map<String, Value> = lane
        .series
        .iter()
        .zip(row.readings)
        .map(|(series, &reading)| (series.to_string(), value(series, reading)))
        .collect();
    let time = row.stamp.real().seconds_text();
    line(&json!({ "node": lane.name.as_str(), "time": time, "values": values }))
}

fn value(series: &Series, reading: Reading) -> Value {
    match series.metric.format().value_or_why(reading) {
        Ok(value) => json!(value.to_string()),
        Err(why) if why.is_failure() => json!({ "failed": why.to_string() }),
        Err(why) => json!({ "absent": why.to_string() }),
    }
}

/// Rows of a node that are missing before the next one; `null`: nobody knows how many.
pub(super) fn missing(node: &NodeName, missing: Missing) -> Vec<u8> {
    line(&json!({ "event": "lost", "node": node.as_str(), "rows": missing.rows() }))
}

/// Lines that this reader has not got, because it has read too slowly.
pub(super) fn dropped(lines: u64) -> Vec<u8> {
    line(&json!({ "event": "dropped", "lines": lines }))
}

/// Something else that has happened.
pub(super) fn event(members: &[(&str, &str)]) -> Vec<u8> {
    let members: Map<String, Value> =
        members.iter().map(|&(name, text)| (name.to_owned(), json!(text))).collect();
    line(&Value::Object(members))
}

fn line(object: &Value) -> Vec<u8> {
    let mut line = object.to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::NodeId;
    use crate::sample::series;
    use khz_model::{Absence, Nanos, Stamp};
    use std::sync::Arc;

    #[test]
    fn a_row_has_its_values_as_texts_and_says_why_there_is_none() {
        let series = vec![series("mem.free", None), series("net.rx", Some("eth0"))];
        let name = NodeName::new("n1").unwrap();
        let lane = ChannelLane { node: NodeId(1), name, series: Arc::new(series) };
        let stamp = Stamp { boot: Nanos::from_secs(7), real_offset: 0 };
        let readings = [Reading::Present(5), Reading::Absent(Absence::InstanceGone)];
        let line = row(&lane, &ChannelRow { lane: 1, epoch: 1, number: 1, stamp, readings: &readings });
        let line: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&line["node"], &line["time"]), (&json!("n1"), &json!("7.000000000")));
        assert_eq!(line["values"]["mem.free"], "5");
        assert!(line["values"]["net.rx[eth0]"]["absent"].is_string(), "{line}");
    }

    #[test]
    fn what_is_missing_is_a_number_or_null() {
        let name = NodeName::new("n1").unwrap();
        let text = |line: Vec<u8>| String::from_utf8(line).unwrap();
        let lost = |missing_rows| text(missing(&name, missing_rows));
        assert_eq!(lost(Missing::Rows(3)), "{\"event\":\"lost\",\"node\":\"n1\",\"rows\":3}\n");
        assert_eq!(lost(Missing::Unknown), "{\"event\":\"lost\",\"node\":\"n1\",\"rows\":null}\n");
        assert_eq!(text(event(&[("event", "notice"), ("text", "a\n\"b")])).matches('\n').count(), 1);
    }
}
