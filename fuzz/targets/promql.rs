//! Queries in PromQL: answered or refused, within the limits, whatever the samples are.

#![no_main]

use khz_promql::{Engine, LabelSet, Limits, Matcher, QueryError, Selection, Sink, Source};

/// Two series, whose values are the bytes of a text.
struct Bytes<'a>(&'a [u8]);

impl Source for Bytes<'_> {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        for name in ["x_total", "y"] {
            let labels = LabelSet::new([("__name__", name), ("le", "1")]);
            if !wanted.matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name))) {
                continue;
            }
            let series = sink.series(labels)?;
            let (times, values): (Vec<i64>, Vec<f64>) = (0_i64..)
                .zip(self.0)
                .map(|(at, &byte)| (at * 1_000, if byte == 0 { khz_promql::stale() } else { f64::from(byte) }))
                .filter(|(time, _)| *time > wanted.after && *time <= wanted.to)
                .unzip();
            if !times.is_empty() {
                sink.samples(series, &times, &values)?;
            }
        }
        Ok(Vec::new())
    }

    fn series(&self, _: &[Matcher], _: i64, _: i64, _: usize) -> Result<(Vec<LabelSet>, bool), QueryError> {
        Ok((Vec::new(), false))
    }
}

libfuzzer_sys::fuzz_target!(|text: &str| {
    // The first line is the query, the rest are samples.
    let (query, samples) = text.split_once('\n').unwrap_or((text, "abc"));
    let source = Bytes(samples.as_bytes());
    let limits = Limits {
        bytes: 16 << 20,
        samples: 1 << 20,
        time: std::time::Duration::from_secs(5),
        ..Limits::default()
    };
    let engine = Engine::new(limits);
    let answers = [engine.query(&source, query, 60_000), engine.query_range(&source, query, 0, 60_000, 7_000)];
    for answer in answers {
        assert!(!matches!(answer, Err(QueryError::Internal(_))), "{query}: {answer:?}");
    }
    if let Ok(printed) = khz_promql::format(query) {
        let _ = khz_promql::format(&printed);
    }
    let _ = khz_promql::selector(query);
});
