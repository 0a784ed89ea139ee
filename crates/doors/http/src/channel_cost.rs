//! What a channel costs the nodes that execute it, out of their own numbers (`khz.handler.*`). Gathers nothing.

use khz_model::{Nanos, NodeName, Pattern, QueryError, Sample, Snapshot};

use crate::json;
use crate::refusal::Refusal;
use crate::routes::App;
use crate::turns::Queue;

/// What the nodes have told of a channel since each began with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChannelCost {
    nodes: u64,
    all: NodeCost,
    /// The node whose handler takes the most time for a row, with its numbers.
    dearest: Option<(NodeName, NodeCost)>,
    /// The node that leaves out the most series, because the memory of its channels is full, and how many.
    shortest: Option<(NodeName, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NodeCost {
    rows_in: u64,
    rows_out: u64,
    bytes_out: u64,
    time: Nanos,
}

impl ChannelCost {
    /// That of this channel, by the newest rows that are here.
    pub async fn of(app: &App, channel: &str) -> Result<ChannelCost, Refusal> {
        app.turns.next(Queue::Answers).await;
        let pattern = Pattern::new(&format!("khz.handler.*[{channel}]"))?;
        match app.query.latest(&[pattern], Nanos(u64::MAX)).await {
            Ok(snapshot) => Ok(ChannelCost::told(&snapshot)),
            // No node executes it, or none is there.
            Err(QueryError::Stopped) => Err(QueryError::Stopped.into()),
            Err(_) => Ok(ChannelCost::default()),
        }
    }

    fn told(snapshot: &Snapshot) -> ChannelCost {
        let mut cost = ChannelCost::default();
        for (node, samples) in &snapshot.nodes {
            if let Some(one) = NodeCost::told(samples) {
                cost.add(node, one);
                cost.lacks(node, value_of(samples, "khz.handler.series_left_out").unwrap_or(0));
            }
        }
        cost
    }

    fn add(&mut self, node: &NodeName, one: NodeCost) {
        self.nodes += 1;
        self.all.add(one);
        if self.dearest.as_ref().is_none_or(|(_, most)| one.is_dearer(most)) {
            self.dearest = Some((node.clone(), one));
        }
    }

    fn lacks(&mut self, node: &NodeName, series: u64) {
        if series > self.shortest.as_ref().map_or(0, |(_, most)| *most) {
            self.shortest = Some((node.clone(), series));
        }
    }

    /// Writes it as an object.
    pub fn put(&self, out: &mut String) {
        out.push_str("{\"nodes\":");
        json::number(out, self.nodes);
        self.all.put(out);
        if let Some((node, most)) = &self.dearest {
            out.push_str(",\"dearest\":{\"node\":");
            json::text(out, node.as_str());
            most.put(out);
            out.push('}');
        }
        if let Some((node, series)) = &self.shortest {
            out.push_str(",\"left_out\":{\"node\":");
            json::text(out, node.as_str());
            out.push_str(",\"series\":");
            json::number(out, *series);
            out.push('}');
        }
        out.push('}');
    }
}

/// A number that a node tells of a channel.
fn value_of(samples: &[Sample], name: &str) -> Option<u64> {
    samples.iter().find(|sample| sample.series.metric.name == name)?.reading.value()
}

impl NodeCost {
    /// `None`: the node does not execute the channel now.
    fn told(samples: &[Sample]) -> Option<NodeCost> {
        let value = |name: &str| value_of(samples, name);
        Some(NodeCost {
            rows_in: value("khz.handler.rows_in")?,
            rows_out: value("khz.handler.rows_out")?,
            bytes_out: value("khz.handler.bytes_out")?,
            time: Nanos(value("khz.handler.time")?),
        })
    }

    fn add(&mut self, other: NodeCost) {
        let NodeCost { rows_in, rows_out, bytes_out, time } = other;
        self.rows_in = self.rows_in.saturating_add(rows_in);
        self.rows_out = self.rows_out.saturating_add(rows_out);
        self.bytes_out = self.bytes_out.saturating_add(bytes_out);
        self.time = Nanos(self.time.0.saturating_add(time.0));
    }

    /// Compares the times of a row.
    fn is_dearer(&self, other: &NodeCost) -> bool {
        let product = |one: &NodeCost, two: &NodeCost| u128::from(one.time.0) * u128::from(two.rows_in);
        product(self, other) > product(other, self)
    }

    fn put(&self, out: &mut String) {
        for (member, number) in [
            (",\"rows_in\":", self.rows_in),
            (",\"rows_out\":", self.rows_out),
            (",\"bytes_out\":", self.bytes_out),
            (",\"time_ns\":", self.time.0),
        ] {
            out.push_str(member);
            json::number(out, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::{Instance, Kind, Metric, Reading, Series, Stamp, Unit};
    use std::sync::Arc;

    fn sample(name: &str, reading: Reading) -> Sample {
        let metric = Metric::plain(name.to_owned(), name.replace('.', "_"), Kind::Counter, Unit::Count);
        let series = Series { metric: Arc::new(metric), instance: Some(Instance::from_kernel(b"hot")) };
        Sample { series, reading, stamp: Stamp::default() }
    }

    fn node(name: &str, numbers: [u64; 4]) -> (NodeName, Vec<Sample>) {
        let names = ["rows_in", "rows_out", "bytes_out", "time"];
        let named = names.iter().zip(numbers);
        let samples = named
            .map(|(name, number)| sample(&format!("khz.handler.{name}"), Reading::Present(number)))
            .collect();
        (NodeName::new(name).unwrap(), samples)
    }

    #[test]
    fn nodes_are_added_up_and_the_one_with_the_dearest_row_is_named() {
        let gone = sample("khz.handler.rows_in", Reading::Absent(khz_model::Absence::InstanceGone));
        let snapshot = Snapshot {
            nodes: vec![
                node("n1", [1_000, 10, 200, 90_000]),
                node("n2", [10, 0, 0, 1_000]),
                (NodeName::new("n3").unwrap(), vec![gone]),
            ],
            ..Snapshot::default()
        };
        let mut out = String::new();
        ChannelCost::told(&snapshot).put(&mut out);
        assert_eq!(
            out,
            "{\"nodes\":2,\"rows_in\":1010,\"rows_out\":10,\"bytes_out\":200,\"time_ns\":91000,\
             \"dearest\":{\"node\":\"n2\",\"rows_in\":10,\"rows_out\":0,\"bytes_out\":0,\"time_ns\":1000}}"
        );
    }
}
