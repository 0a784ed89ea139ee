//! Which rows differ enough from the last one that was sent.

use super::Deadband;
use crate::number::ABSENT;

/// The values that were sent last.
#[derive(Debug)]
pub(crate) struct Change {
    deadband: Deadband,
    sent: Box<[f64]>,
    /// A row was sent.
    is_begun: bool,
}

impl Change {
    pub fn new(deadband: Deadband, values: usize) -> Self {
        Change { deadband, sent: vec![ABSENT; values].into(), is_begun: false }
    }

    /// Continues an earlier `Change`. `places` has the places of the values that both have, here
    /// and there.
    pub fn take_over(&mut self, before: &Change, places: Vec<(usize, usize)>) {
        self.is_begun = before.is_begun;
        places.into_iter().for_each(|(place, from)| self.sent[place] = before.sent[from]);
    }

    /// A reader begins that does not know the sent values: the next row is sent, whatever its values
    /// are.
    pub fn begin_again(&mut self) {
        self.is_begun = false;
    }

    /// True if a row of these values is sent: a value differs by at least the deadband, or comes or goes.
    pub fn is_enough(&self, values: &[f64]) -> bool {
        !self.is_begun || self.sent.iter().zip(values).any(|(&sent, &value)| self.differs(sent, value))
    }

    /// A row is sent. Values that do not differ enough stay at their last sent values; `keep` gets the place of each.
    pub fn send(&mut self, values: &[f64], mut keep: impl FnMut(usize)) {
        for (at, &value) in values.iter().enumerate() {
            if !self.is_begun || self.differs(self.sent[at], value) {
                self.sent[at] = value;
            } else {
                keep(at);
            }
        }
        self.is_begun = true;
    }

    /// The values that were sent last.
    pub fn sent(&self) -> &[f64] {
        &self.sent
    }

    #[inline]
    fn differs(&self, sent: f64, value: f64) -> bool {
        if sent.to_bits() == value.to_bits() {
            return false;
        }
        // The bits differ. An absent value is NaN, too.
        if !sent.is_finite() || !value.is_finite() {
            return true;
        }
        let Deadband { absolute, relative } = self.deadband;
        value != sent && (value - sent).abs() >= absolute.max(relative * sent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_sent(deadband: Deadband, values: &[f64]) -> Vec<bool> {
        let mut change = Change::new(deadband, 1);
        let mut row = |&value: &f64| {
            let is_enough = change.is_enough(&[value]);
            if is_enough {
                change.send(&[value], |_| ());
            }
            is_enough
        };
        values.iter().map(&mut row).collect()
    }

    #[test]
    fn a_value_is_compared_with_what_was_sent_not_with_the_row_before() {
        let tenth = Deadband { absolute: 0.0, relative: 0.1 };
        assert_eq!(is_sent(tenth, &[10.0, 10.5, 11.0, 11.5, 12.5]), [true, false, true, false, true]);
        let one = Deadband { absolute: 1.0, relative: 0.1 };
        assert_eq!(is_sent(one, &[0.0, 0.9, 1.0, 1.5, 0.0]), [true, false, true, false, true]);
        assert_eq!(is_sent(Deadband::default(), &[0.0, -0.0, 1e-9, 1e-9]), [true, false, true, false]);
    }

    #[test]
    fn a_new_reader_gets_the_next_row_and_all_of_it() {
        let mut change = Change::new(Deadband { absolute: 1.0, relative: 0.0 }, 1);
        change.send(&[1.0], |_| ());
        assert!(!change.is_enough(&[1.5]));
        change.begin_again();
        assert!(change.is_enough(&[1.5]));
        change.send(&[1.5], |_| panic!("it is not kept"));
        assert!(!change.is_enough(&[1.0]) && change.is_enough(&[2.5]));
    }

    #[test]
    fn values_that_differ_too_little_stay_what_was_sent() {
        let mut change = Change::new(Deadband { absolute: 1.0, relative: 0.0 }, 3);
        change.send(&[1.0, 2.0, ABSENT], |_| panic!("all are new"));
        let mut kept = Vec::new();
        change.send(&[1.5, 4.0, ABSENT], |at| kept.push(at));
        assert_eq!(kept, [0, 2]);
        assert_eq!(change.sent()[..2], [1.0, 4.0]);
    }

    #[test]
    fn what_comes_goes_or_is_no_number_differs() {
        let half = Deadband { absolute: 0.0, relative: 0.5 };
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        assert_eq!(is_sent(half, &[1.0, ABSENT, ABSENT, 1.0]), [true, true, false, true]);
        assert_eq!(
            is_sent(half, &[nan, nan, 1.0, inf, inf, -inf, 1.0]),
            [true, false, true, true, false, true, true]
        );
    }
}
