//! The samples of a store, handed to others: the same that our own queries see.

use khz_past::PastSource;
use khz_promql::{LabelSet, Matcher, QueryError, Selection, SeriesId, Sink, Source, Summaries, is_stale};
use khz_remote::message::{Label, Sample, TimeSeries, WriteRequest};

use crate::error::BenchError;
use crate::program::failed;
use crate::query::peers::Peer;

/// Samples of a request.
const BATCH: usize = 10_000;
/// Samples come in the order of time, an hour after the other: a server takes nothing that is much older than its newest.
const SPAN_MS: i64 = 600_000;

/// Takes the samples of some minutes.
#[derive(Default)]
struct Taken {
    series: Vec<TimeSeries>,
}

impl Sink for Taken {
    fn series(&mut self, labels: LabelSet) -> Result<SeriesId, QueryError> {
        let labels =
            labels.iter().map(|(name, value)| Label { name: name.to_string(), value: value.to_string() });
        self.series.push(TimeSeries { labels: labels.collect(), samples: Vec::new() });
        Ok(SeriesId(self.series.len() - 1))
    }

    fn samples(&mut self, series: SeriesId, times: &[i64], values: &[f64]) -> Result<(), QueryError> {
        // Where a part ends, a series does not.
        let samples = times.iter().zip(values).filter(|(_, value)| !is_stale(**value));
        let samples = samples.map(|(&timestamp, &value)| Sample::new(value, timestamp));
        self.series[series.0].samples.extend(samples);
        Ok(())
    }
}

/// Hands the samples of a metric to others. Times are in ms. Returns how many they are.
pub fn feed(
    source: &PastSource,
    matchers: &[Matcher],
    (from, to): (i64, i64),
    peers: &[Peer],
    mut told: impl FnMut(i64),
) -> Result<u64, BenchError> {
    let (mut after, mut count) = (from - 1, 0);
    while after < to {
        told(after);
        let until = (after + SPAN_MS).min(to);
        let wanted = Selection {
            matchers: matchers.to_vec(),
            after,
            to: until,
            step: 0,
            window: until - after,
            last_only: false,
            summaries: Summaries::Nowhere,
        };
        let mut taken = Taken::default();
        source.select(&wanted, &mut taken).map_err(|error| failed("the samples", error))?;
        let mut request = WriteRequest::default();
        let mut held = 0;
        for series in taken.series {
            held += series.samples.len();
            count += series.samples.len() as u64;
            request.timeseries.push(series);
            if held >= BATCH {
                send(&std::mem::take(&mut request), peers)?;
                held = 0;
            }
        }
        if held > 0 {
            send(&request, peers)?;
        }
        after = until;
    }
    Ok(count)
}

fn send(request: &WriteRequest, peers: &[Peer]) -> Result<(), BenchError> {
    let body = request.pack().map_err(|error| failed("remote write", error))?;
    peers.iter().try_for_each(|peer| peer.write(&body))
}
