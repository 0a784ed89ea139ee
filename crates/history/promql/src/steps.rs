//! The instants at which an expression is evaluated.

/// Instants at equal distances, at least one. Times are in ms since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    pub(crate) start: i64,
    /// The distance, at least 1.
    pub(crate) step: i64,
    pub(crate) count: usize,
    /// The end that was asked for, which may be after the last instant: `@ end()` means it.
    pub(crate) until: i64,
}

impl Steps {
    /// One instant.
    pub(crate) fn instant(time: i64) -> Self {
        Steps { start: time, step: 1, count: 1, until: time }
    }

    /// From one time up to another.
    pub(crate) fn between(start: i64, end: i64, step: i64) -> Self {
        let step = step.max(1);
        let more = end.saturating_sub(start).max(0) / step;
        Steps {
            start,
            step,
            count: usize::try_from(more).unwrap_or(usize::MAX - 1) + 1,
            until: end.max(start),
        }
    }

    /// The time of a step.
    pub(crate) fn time(&self, index: usize) -> i64 {
        self.start.saturating_add(self.step.saturating_mul(index as i64))
    }

    /// The last of them.
    pub(crate) fn end(&self) -> i64 {
        self.time(self.count - 1)
    }

    /// Only the first.
    pub(crate) fn first(&self) -> Self {
        Steps { count: 1, ..*self }
    }

    /// All times in their order.
    pub(crate) fn times(self) -> impl Iterator<Item = i64> {
        (0..self.count).map(move |index| self.time(index))
    }
}
