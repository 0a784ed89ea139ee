//! How often something may be said: so many times at once, and so many a second in the long run.

use khz_model::Nanos;

/// A stock that fills with time.
#[derive(Debug)]
pub(crate) struct Allowance {
    most: u64,
    /// Time in which one more is allowed.
    each: u64,
    left: u64,
    filled: Nanos,
}

impl Allowance {
    pub fn full(now: Nanos, most: u64, a_second: u64) -> Self {
        Allowance { most, each: Nanos::SECOND.0 / a_second, left: most, filled: now }
    }

    /// Takes one, if there is one.
    pub fn take(&mut self, now: Nanos) -> bool {
        let gained = now.since(self.filled).0 / self.each;
        self.left = (self.left + gained).min(self.most);
        self.filled = Nanos(self.filled.0 + gained * self.each);
        let may = self.left > 0;
        self.left -= u64::from(may);
        may
    }

    /// When there is something again; `None`: there is.
    pub fn next(&self) -> Option<Nanos> {
        (self.left == 0).then(|| Nanos(self.filled.0 + self.each))
    }
}
