//! The program behind the figure of eight machines, on two of them. `cargo xtask test --slow` runs it.

use std::time::Duration;

use khz_guest_test::folder;
use khz_guest_test::staggered::{Plan, Row, Run, SERIES, Turn, record, rows};

/// How much faster a series must grow in its node's own turn than in another's. An idle guest has a tenth of the
/// interrupts and almost no system time.
const CLEARLY: f64 = 2.0;

/// The growth of a series a second, between these times.
fn rate(rows: &[&Row], series: usize, turn: &Turn) -> f64 {
    let within: Vec<_> = rows.iter().filter(|row| (turn.from..=turn.to).contains(&row.time)).collect();
    let [first, .., last] = within.as_slice() else { panic!("not two rows in {turn:?}") };
    (last.values[series] - first.values[series]) / (last.time - first.time)
}

/// When a series had grown by half of what it grew until all processes had started.
fn half_grown(rows: &[&Row], series: usize, run: &Run) -> f64 {
    let end = run.turns.last().map_or(run.end, |turn| turn.to);
    let rows: Vec<_> = rows.iter().filter(|row| row.time <= end).collect();
    let [first, .., last] = rows.as_slice() else { panic!("not two rows until {end}") };
    let half = (first.values[series] + last.values[series]) / 2.0;
    rows.iter().find(|row| row.values[series] >= half).map_or(end, |row| row.time)
}

#[test]
#[ignore = "slow: boots two machines"]
fn interrupts_and_system_time_of_each_guest_rise_in_its_own_turn() {
    let recording = folder().join(format!("staggered-{}.khzt", std::process::id()));
    let run = record(&Plan { nodes: 2, apart: Duration::from_secs(3), hertz: 10 }, &recording);
    let all = rows(&recording);
    let of = |turn: &Turn| -> Vec<&Row> { all.iter().filter(|row| row.node == turn.node).collect() };
    for (series, name) in SERIES.iter().enumerate() {
        for own in &run.turns {
            let rows = of(own);
            let at_work = rate(&rows, series, own);
            for other in run.turns.iter().filter(|other| other.node != own.node) {
                let idle = rate(&rows, series, other);
                let what =
                    format!("{name} of {}: {at_work} a second in its turn, {idle} in another", own.node);
                assert!(at_work > 0.0 && at_work > CLEARLY * idle, "{what}");
            }
        }
        let halves: Vec<f64> = run.turns.iter().map(|turn| half_grown(&of(turn), series, &run)).collect();
        assert!(halves.is_sorted_by(|one, next| one < next), "{name}: {halves:?}");
    }
    let _ = std::fs::remove_file(recording);
}
