//! Made-up series: counters that are reset, gauges, histograms, gaps, stale markers, NaN and infinity.

use khz_promql::{LabelSet, Matcher, QueryError, Selection, Sink, Source, stale};

use crate::random::Random;

/// When the samples begin (ms).
pub const START: i64 = 1_700_000_000_000;
/// How long they go on.
pub const LENGTH: i64 = 3_600_000;

pub struct Store {
    pub series: Vec<(LabelSet, Vec<(i64, f64)>)>,
}

fn labels(name: &str, others: &[(&str, &str)]) -> LabelSet {
    LabelSet::new(std::iter::once(("__name__", name)).chain(others.iter().copied()))
}

/// Times at a distance, some late by some ms, with gaps and ends.
fn times(random: &mut Random) -> Vec<(i64, bool)> {
    let step = [1_000, 5_000, 15_000, 60_000][random.below(4) as usize];
    let jitter = if random.once_in(2) { 0 } else { 40 };
    let mut all = Vec::new();
    let mut time = START + step * random.below(30) as i64;
    let mut last = 0;
    while time <= START + LENGTH {
        if random.once_in(200) {
            // A gap, with a stale marker or without.
            if random.once_in(2) {
                all.push((time, true));
            }
            time += step * (2 + random.below(100) as i64);
            continue;
        }
        let late = if jitter == 0 { 0 } else { random.below(jitter) as i64 };
        if time + late > last {
            all.push((time + late, false));
            last = time + late;
        }
        time += step;
    }
    all
}

fn fill(random: &mut Random, mut value: impl FnMut(&mut Random) -> f64) -> Vec<(i64, f64)> {
    times(random).into_iter().map(|(time, end)| (time, if end { stale() } else { value(random) })).collect()
}

pub fn store(random: &mut Random) -> Store {
    let mut series = Vec::new();
    for job in ["api", "web"] {
        for instance in ["a", "b", "c"] {
            for name in ["requests_total", "bytes_total", "seconds"] {
                let mut count = 0.0;
                let step = 1 + random.below(20);
                let samples = fill(random, |random| {
                    count += random.below(step) as f64 / 3.0;
                    if random.once_in(300) {
                        count = 0.0;
                    }
                    count
                });
                series.push((labels(name, &[("job", job), ("instance", instance)]), samples));
            }
            let samples = fill(random, |random| random.below(2_000_001) as f64 / 1_000.0 - 1_000.0);
            series.push((labels("gauge", &[("job", job), ("instance", instance)]), samples));
            let samples = fill(random, |random| match random.below(12) {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                number => number as f64,
            });
            series.push((labels("odd", &[("job", job), ("instance", instance)]), samples));
        }
        let samples = fill(random, |random| random.below(4) as f64);
        series.push((labels("state", &[("job", job), ("kind", "x")]), samples));
        // The buckets of a histogram have their samples at the same times.
        let times: Vec<i64> = (0..LENGTH / 15_000).map(|at| START + at * 15_000).collect();
        let mut counts = [0.0; 5];
        let mut buckets: Vec<Vec<(i64, f64)>> = vec![Vec::new(); 5];
        for time in times {
            let from = random.below(5) as usize;
            for (at, count) in counts.iter_mut().enumerate() {
                *count += if at >= from { random.below(3) as f64 } else { 0.0 };
                buckets[at].push((time, *count));
            }
        }
        for (bucket, le) in buckets.into_iter().zip(["0.1", "0.5", "1", "5", "+Inf"]) {
            series.push((labels("latency_bucket", &[("job", job), ("le", le)]), bucket));
        }
    }
    // Sums depend on the order a little, and Prometheus' order is that of the labels.
    series.sort_by(|one, two| one.0.cmp(&two.0));
    Store { series }
}

impl Source for Store {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        for (labels, samples) in &self.series {
            if !fits(labels, &wanted.matchers) {
                continue;
            }
            let chosen: Vec<(i64, f64)> = samples
                .iter()
                .copied()
                .filter(|(time, _)| *time > wanted.after && *time <= wanted.to)
                .collect();
            if chosen.is_empty() {
                continue;
            }
            let series = sink.series(labels.clone())?;
            for piece in chosen.chunks(97) {
                let (times, values): (Vec<i64>, Vec<f64>) = piece.iter().copied().unzip();
                sink.samples(series, &times, &values)?;
            }
        }
        Ok(Vec::new())
    }

    fn series(&self, _: &[Matcher], _: i64, _: i64, _: usize) -> Result<(Vec<LabelSet>, bool), QueryError> {
        Ok((Vec::new(), false))
    }
}

fn fits(labels: &LabelSet, matchers: &[Matcher]) -> bool {
    matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name)))
}
