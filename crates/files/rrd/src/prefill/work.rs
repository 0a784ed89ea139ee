//! Counts the rows and runs of points that are visited, for the tests that bound them.

#[cfg(test)]
thread_local! {
    /// Visits of this thread.
    static VISITS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// One row or one run is visited.
pub fn visit() {
    #[cfg(test)]
    VISITS.with(|visits| visits.set(visits.get() + 1));
}

/// Visits since the last call.
#[cfg(test)]
pub fn visits() -> u64 {
    VISITS.with(std::cell::Cell::take)
}
