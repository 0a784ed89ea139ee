//! A day at 1 Hz made of a recording of some minutes: stretches of its rows in random order. Counters grow as they grew
//! there from row to row, gauges are what they were, and so are the times within each second.
//!
//! A number that comes again and again is a gift for a packer that looks for repetitions, and no machine gives it. So each
//! number is drawn from between its neighbours among the recorded ones, in the steps that these have: numbers that only
//! take a few values stay as they are.

use std::sync::Arc;

use khz_model::{Kind, Nanos, Series, Stamp, ValueType};

use crate::columns::Rows;

/// Rows of one stretch.
const STRETCH: std::ops::Range<u64> = 5..31;
/// The state of a reading with a number.
const PRESENT: u8 = 0;

/// Rows without end.
pub struct Synthetic {
    /// Rows that have the same columns.
    rows: Rows,
    columns: Arc<Vec<Series>>,
    slots: Vec<Slot>,
    values: Vec<u64>,
    /// Midnight of the day.
    begin: Nanos,
    second: u64,
    at: usize,
    /// Rows that are left of the stretch.
    left: u64,
    random: u64,
}

/// The numbers of a slot.
struct Slot {
    counts: bool,
    /// All numbers are multiples of it, from some number on.
    step: u64,
    /// Of each row but the first: the lowest number to draw, and how many there are. Of a counter it is its growth.
    draws: Vec<(u64, u64)>,
}

impl Slot {
    fn of(rows: &Rows, slot: usize, series: &Series) -> Self {
        let counts = series.metric.kind == Kind::Counter && series.metric.value_type == ValueType::Unsigned;
        let bits = |row: usize| rows[row].3.get(slot).copied().unwrap_or(0);
        let number = |row: usize| match series.metric.value_type {
            _ if counts => i128::from(bits(row).saturating_sub(bits(row - 1))),
            ValueType::Signed => i128::from(bits(row).cast_signed()),
            _ => i128::from(bits(row)),
        };
        let is_number = |row: &usize| {
            let is_whole = matches!(series.metric.value_type, ValueType::Unsigned | ValueType::Signed);
            is_whole && rows[*row].2.get(slot) == Some(&PRESENT)
        };
        let mut sorted: Vec<i128> = (1..rows.len()).filter(is_number).map(number).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let lowest = sorted.first().copied().unwrap_or(0);
        let step = sorted.iter().fold(0, |step, number| divisor(step, number - lowest)).max(1);
        let draw = |row: usize| {
            if !is_number(&row) {
                return (bits(row), 1);
            }
            let place = sorted.partition_point(|known| *known < number(row));
            // In steps from the lowest.
            let steps = |place: usize| sorted.get(place).map(|number| (number - lowest) / step);
            let here = (number(row) - lowest) / step;
            let first = place.checked_sub(1).and_then(steps).map_or(here, |before| (before + here) / 2 + 1);
            let last = steps(place + 1).map_or(here, |next| (here + next) / 2);
            ((lowest + first * step) as u64, (last - first + 1) as u64)
        };
        Slot { counts, step: step as u64, draws: (1..rows.len()).map(draw).collect() }
    }
}

/// The greatest common divisor.
fn divisor(one: i128, two: i128) -> i128 {
    if two == 0 { one } else { divisor(two, one % two) }
}

impl Synthetic {
    /// A day from `begin` on; `None`: there are not enough rows.
    pub fn of(rows: &Rows, begin: Nanos) -> Option<Self> {
        let columns = rows.last()?.1.clone();
        let rows: Rows =
            rows.iter().filter(|(_, series, ..)| Arc::ptr_eq(series, &columns)).cloned().collect();
        let slots = columns.iter().enumerate().map(|(slot, series)| Slot::of(&rows, slot, series)).collect();
        let values = rows.first()?.3.clone();
        (rows.len() > 1).then_some(Synthetic {
            rows,
            columns,
            slots,
            values,
            begin,
            second: 0,
            at: 0,
            left: 0,
            random: 1,
        })
    }

    /// The next rows.
    pub fn take(&mut self, count: u64) -> Rows {
        (0..count).map(|_| self.row()).collect()
    }

    fn row(&mut self) -> (Stamp, Arc<Vec<Series>>, Vec<u8>, Vec<u64>) {
        let random = &mut self.random;
        if self.left == 0 || self.at + 1 == self.rows.len() {
            self.left = STRETCH.start + below(random, STRETCH.end - STRETCH.start);
            self.at = below(random, self.rows.len() as u64 - 1) as usize;
        }
        for (slot, value) in self.slots.iter().zip(&mut self.values) {
            let (lowest, count) = slot.draws[self.at];
            let more = if count > 1 { below(random, count) } else { 0 };
            let drawn = lowest.wrapping_add(more * slot.step);
            *value = if slot.counts { value.wrapping_add(drawn) } else { drawn };
        }
        let (stamp, _, states, _) = &self.rows[self.at + 1];
        let boot = Nanos(self.second * Nanos::SECOND.0 + stamp.real().0 % Nanos::SECOND.0);
        self.second += 1;
        self.at += 1;
        self.left -= 1;
        let stamp = Stamp { boot, real_offset: self.begin.0.cast_signed() };
        (stamp, self.columns.clone(), states.clone(), self.values.clone())
    }
}

/// Knuth's generator: numbers that are the same in every run.
fn below(random: &mut u64, limit: u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((u128::from(*random) * u128::from(limit)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn recorded(rows: u64, values: impl Fn(u64) -> Vec<u64>) -> Rows {
        let metric = |name: &str| khz_parse::catalogue().into_iter().find(|it| &*it.name == name).unwrap();
        let of = |name| Series { metric: metric(name), instance: None };
        let columns = Arc::new(vec![of("kernel.context_switches"), of("mem.free")]);
        let stamp = |n: u64| Stamp { boot: Nanos(n * Nanos::SECOND.0 + 70_000), real_offset: 0 };
        (0..rows).map(|n| (stamp(n), columns.clone(), vec![PRESENT; 2], values(n))).collect()
    }

    #[test]
    fn counters_never_fall_few_values_stay_as_they_are_and_each_second_has_a_row() {
        let recorded = recorded(90, |n| vec![1_000 + n * n, 50 + n % 7]);
        let rows = Synthetic::of(&recorded, Nanos(0)).unwrap().take(2_000);
        assert!(rows.windows(2).all(|two| two[0].3[0] < two[1].3[0]));
        assert!(rows.iter().all(|row| (50..57).contains(&row.3[1])));
        let seconds: Vec<u64> = rows.iter().map(|row| row.0.real().0 / Nanos::SECOND.0).collect();
        assert_eq!(seconds, (0..2_000).collect::<Vec<_>>());
        assert!(Synthetic::of(&recorded[..1].to_vec(), Nanos(0)).is_none());
    }

    #[test]
    fn many_values_become_others_between_them_in_their_steps() {
        let recorded = recorded(90, |n| vec![1_000 + n * 7, 4_096 * (n * n * 7 % 1_000)]);
        let rows = Synthetic::of(&recorded, Nanos(0)).unwrap().take(2_000);
        assert!(rows.windows(2).all(|two| two[1].3[0] - two[0].3[0] == 7), "the growth is always the same");
        let values: BTreeSet<u64> = rows.iter().map(|row| row.3[1]).collect();
        assert!(values.len() > 500, "{}", values.len());
        assert!(values.iter().all(|value| value % 4_096 == 0 && *value < 4_096 * 1_000));
    }
}
