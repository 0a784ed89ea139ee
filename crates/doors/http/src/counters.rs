//! The HTTP door's own counts.

pub(crate) use khz_door::Held;
pub(crate) use khz_door::counts::{count, count_n};

khz_door::counters! {
    "http";
    connections: Counter, "Connections that the HTTP door accepted.";
    connections_open: Gauge, "Connections that are open at the HTTP door now.";
    connections_refused: Counter, "Connections closed at once because the limit was reached and none was idle.";
    connections_evicted: Counter, "Idle connections closed to make place for a new one.";
    connections_expired: Counter, "Connections closed because a request head or a reader was too slow.";
    accepts_failed: Counter, "Times that a connection could not be accepted: most likely no file descriptor was left.";
    handshakes_failed: Counter, "Connections that did not come in: TLS failed, or plain text where TLS is spoken.";
    requests: Counter, "Requests that the HTTP door answered, refused ones included.";
    requests_refused: Counter, "Requests refused for Host, Origin, method, size or form.";
    streams_open: Gauge, "Streams that are open at the HTTP door now.";
    stream_rows: Counter, "Rows sent on streams.";
    stream_rows_lost: Counter, "Rows that were overwritten before a stream fetched them.";
    stream_events: Counter, "Events with rows sent on streams.";
    answer_bytes: Gauge, "Bytes that answers hold now, built and not yet taken by their readers.";
    answers_refused: Counter, "Requests answered with 503 because answers already held as much as they may.";
    answers_cut: Counter, "Answers ended before their end: they outgrew what answers may hold, or held much and were taken too slowly.";
    samples_left_out: Counter, "Samples of nodes that /metrics left out because they are named up: a scraper has this name for itself.";
    streams_dropped_slow: Counter, "Streams dropped because their reader did not keep up.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_count_is_seen_through_its_catalogue_entry() {
        let counters = Counters::default();
        count_n(&counters.stream_rows, 7);
        let metrics = counters.metrics();
        let (metric, value) = metrics.iter().find(|(m, _)| m.name == "khz.http.stream_rows").unwrap();
        assert_eq!(metric.exposition.name, "khz_http_stream_rows_total");
        assert_eq!(value.load(Ordering::Relaxed), 7);
        for (metric, _) in &metrics {
            assert!(khz_model::name::is_metric_name(&metric.name), "{}", metric.name);
        }
    }
}
