//! Which rows are sent, and with which times: of each period the first row, at a whole second. A row is gathered some
//! milliseconds after its tick; engines like Prometheus pack times on a grid in a fraction of the bytes.

/// A second in ns.
pub(crate) const SECOND: u64 = 1_000_000_000;
const HALF: u64 = SECOND / 2;

/// A row that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Its number among the times.
    pub row: usize,
    /// The second that is its time.
    pub second: u64,
}

/// The rows of these times (ns, in order) that are sent: of each period of `every` seconds the first second that has rows,
/// and of these the row nearest to it.
pub(crate) fn choose(times: &[u64], every: u64) -> Vec<Chosen> {
    let mut chosen: Vec<Chosen> = Vec::new();
    for (row, &time) in times.iter().enumerate() {
        let second = second_of(time);
        match chosen.last_mut() {
            Some(last) if last.second == second => {
                if time.abs_diff(second * SECOND) < times[last.row].abs_diff(second * SECOND) {
                    last.row = row;
                }
            }
            Some(last) if last.second / every == second / every => {}
            _ => chosen.push(Chosen { row, second }),
        }
    }
    chosen
}

/// The nearest second.
pub(crate) fn second_of(time: u64) -> u64 {
    time.saturating_add(HALF) / SECOND
}

/// The end of the period that has this time: rows from there on may be sent.
pub(crate) fn end_of_period(time: u64, every: u64) -> u64 {
    begin_of_second((second_of(time) / every + 1) * every)
}

/// The begin of the last period of `length` seconds before this time.
pub(crate) fn last_begin(time: u64, length: u64) -> u64 {
    begin_of_second(second_of(time) / length * length)
}

/// The first time that is nearest to this second.
fn begin_of_second(second: u64) -> u64 {
    (second * SECOND).saturating_sub(HALF)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(times: &[f64], every: u64) -> Vec<(usize, u64)> {
        let times: Vec<u64> = times.iter().map(|time| (time * 1e9) as u64).collect();
        choose(&times, every).into_iter().map(|it| (it.row, it.second)).collect()
    }

    #[test]
    fn times_become_whole_seconds_and_of_a_second_the_nearest_row_is_sent() {
        assert_eq!(seconds(&[1.004, 1.998, 3.01], 1), [(0, 1), (1, 2), (2, 3)]);
        assert_eq!(seconds(&[0.8, 0.9, 1.0, 1.1, 1.2, 1.6, 1.9, 2.1], 1), [(2, 1), (6, 2)]);
    }

    #[test]
    fn of_a_longer_period_the_first_second_is_sent() {
        assert_eq!(
            seconds(&[14.0, 15.003, 16.0, 29.7, 30.01, 47.0, 48.0], 15),
            [(0, 14), (1, 15), (4, 30), (5, 47)]
        );
        // A node that is sampled every two seconds.
        assert_eq!(seconds(&[14.0, 16.0, 18.0, 30.0, 32.0], 15), [(0, 14), (1, 16), (3, 30)]);
    }

    #[test]
    fn what_is_sent_ends_where_the_next_period_begins() {
        for (time, every, end) in
            [(1.004, 1, 1.5), (1.7, 1, 2.5), (15.0, 15, 29.5), (29.4, 15, 29.5), (29.6, 15, 44.5)]
        {
            assert_eq!(end_of_period((time * 1e9) as u64, every), (end * 1e9) as u64, "{time} {every}");
        }
        assert_eq!(last_begin(29_400_000_000, 10), 19_500_000_000);
        assert_eq!(last_begin(29_500_000_000, 10), 29_500_000_000);
        assert_eq!(last_begin(0, 10), 0);
    }
}
