//! The records of a group of rules for a receiver: every sample with its own name, labels and time, and the end of each series.
//! They never come late, so a group needs only a position in time and its live series.

use std::collections::HashSet;

use khz_model::{Instance, Nanos, NodeName, Pattern, QueryError, Reading, Series, recorded};
use khz_promql::{METRIC_NAME, stale};
use khz_store::StoreError;
use khz_store::log::KnownBlock;
use khz_store::range::{NodeReader, NodeRowsRead};

use super::node::Writing;

/// How far one group was sent.
#[derive(Debug)]
pub(crate) struct OwnerState {
    /// Rows from this time on are not sent yet.
    pub cursor: u64,
    /// Column files may have rows of it that are not sent yet.
    pub has_columns: bool,
    /// The series that the receiver believes to be alive.
    alive: HashSet<Instance>,
}

impl OwnerState {
    pub fn new(cursor: u64) -> Self {
        OwnerState { cursor, has_columns: true, alive: HashSet::new() }
    }

    /// Sends rows before `to`, those of `catch_up` at a time. Returns true if there may be more.
    pub fn take(
        &mut self,
        owner: &NodeName,
        reader: &mut NodeReader,
        (to, catch_up): (u64, u64),
        writing: &mut Writing<'_>,
        damage: &mut Vec<StoreError>,
    ) -> Result<bool, QueryError> {
        let known = reader.known(owner);
        if !self.is_behind(&known, to) {
            return Ok(false);
        }
        let patterns = recorded::patterns(std::slice::from_ref(owner), None, &[]);
        let range = (Nanos(self.cursor), Nanos(to));
        let Some(mut rows) = reader.first(owner, &known, range, &patterns, damage)? else {
            self.has_columns = false;
            return Ok(false);
        };
        let first = rows.times().first().copied().unwrap_or(to);
        rows.cut(Nanos(first.saturating_add(catch_up).min(to)));
        damage.append(&mut rows.damage());
        self.cursor = rows.times().last().copied().unwrap_or(first).saturating_add(1);
        self.write(&mut rows, writing);
        Ok(self.is_behind(&known, to))
    }

    fn is_behind(&self, known: &[KnownBlock], to: u64) -> bool {
        let is_in = |block: &KnownBlock| block.span.1.0 >= self.cursor && block.span.0.0 < to;
        self.cursor < to && (self.has_columns || known.iter().any(is_in))
    }

    fn write(&mut self, rows: &mut NodeRowsRead, writing: &mut Writing<'_>) {
        let times: Vec<i64> = rows.times().iter().map(|time| (time / 1_000_000).cast_signed()).collect();
        let numbers: Vec<usize> = (0..times.len()).collect();
        let all: Vec<Series> = rows.series().cloned().collect();
        let (mut readings, mut samples) = (Vec::new(), Vec::new());
        for (place, series) in all.iter().enumerate() {
            let (Some(name), Some(instance)) = (recorded::name(series), &series.instance) else { continue };
            rows.readings(place, &numbers, &mut readings);
            samples.clear();
            let mut is_alive = self.alive.contains(instance);
            for (time, reading) in times.iter().zip(&readings) {
                match reading {
                    Some(Reading::Present(bits)) => {
                        samples.push((*time, f64::from_bits(*bits)));
                        is_alive = true;
                    }
                    Some(_) if is_alive => {
                        samples.push((*time, stale()));
                        is_alive = false;
                    }
                    Some(_) | None => {}
                }
            }
            match is_alive {
                true => _ = self.alive.insert(instance.clone()),
                false => _ = self.alive.remove(instance),
            }
            if is_wanted(&writing.settings.patterns, series) {
                let mut labels = vec![(METRIC_NAME, name)];
                labels.extend(recorded::labels(series));
                writing.add(&mut labels, &samples);
            }
        }
    }
}

/// Patterns that name nodes mean none of it.
fn is_wanted(patterns: &[Pattern], series: &Series) -> bool {
    let means = |pattern: &Pattern| {
        pattern.nodes().is_none() && pattern.matches_series(&series.metric.name, series.instance.as_ref())
    };
    patterns.iter().any(means)
}
