//! The processes of a node: their order, and the first visible line.

use super::measures::{Measures, Process};

/// By what they are sorted, the greatest first.
pub const ORDERS: [&str; 4] = ["CPU", "MEMORY", "IO", "PID"];

/// The table of processes.
#[derive(Default)]
pub struct Processes {
    /// A place in [`ORDERS`].
    pub sorted: usize,
    /// The other way round.
    pub reverse: bool,
    /// Only those whose names, users or numbers have this in them.
    pub search: String,
    /// The first line that is shown.
    pub top: usize,
}

impl Processes {
    /// Those that are shown, in their order.
    pub fn lines(&self, measures: Measures<'_>) -> Vec<Process> {
        let mut all = measures.processes();
        let has = |text: &str| text.to_lowercase().contains(&self.search);
        all.retain(|process| {
            self.search.is_empty() || has(&process.command) || has(&process.user) || has(&process.pid)
        });
        let number = |process: &Process| match ORDERS[self.sorted] {
            "CPU" => process.cpu,
            "MEMORY" => process.memory,
            "IO" => process.io,
            _ => process.pid.parse::<f64>().ok().map(|pid| -pid),
        };
        all.sort_by(|a, b| {
            let (one, other) = (number(a), number(b));
            let known = other.is_some().cmp(&one.is_some());
            let order = other.unwrap_or(0.0).total_cmp(&one.unwrap_or(0.0));
            known.then(if self.reverse { order.reverse() } else { order })
        });
        all
    }

    /// Sorts by another column.
    pub fn sort(&mut self, by: i8) {
        let place = (self.sorted as i64 + i64::from(by)).rem_euclid(ORDERS.len() as i64);
        self.sorted = usize::try_from(place).unwrap_or(0);
    }

    /// Moves the first line.
    pub fn choose(&mut self, by: isize) {
        // There are at most about a hundred. Drawing corrects a larger value.
        self.top = self.top.saturating_add_signed(by).min(10_000);
    }
}
