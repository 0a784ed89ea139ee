//! Tells a reader about the rate of its rows: one sentence when they come slower than it asked for, and one when they come as
//! asked again. Each reader has its own `Pace`. This file does not know why a node is slow. It also recognises when another
//! rate than the requested one is no sign of a slow node: below its base rate, a node has only fractions of that rate.

use crate::quantity::Rate;

/// The rate that a reader asked for, and the rate that the last sentence said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    asked: Rate,
    known: Rate,
}

impl Pace {
    /// A reader that has asked for this rate, and expects it.
    pub fn new(asked: Rate) -> Self {
        Pace { asked, known: asked }
    }

    /// The present rate of its rows. Returns the sentence for the reader, if the rate is news.
    pub fn news(&mut self, now: Rate) -> Option<String> {
        let asked = self.asked;
        let now = if now.is_slowed_from(asked) { now } else { asked };
        if std::mem::replace(&mut self.known, now) == now {
            return None;
        }
        Some(match now == asked {
            true => format!("runs {} again, as asked", asked.often()),
            false => format!(
                "runs {} instead of {asked}: gathering faster would exceed the node's CPU ceiling \
                 (cpu_max; `khz check` there says which rate fits)",
                now.often()
            ),
        })
    }
}

/// Other rates that are explained to one reader.
const ROUNDED_MAX: usize = 8;

/// Tells a reader, once for each rate, that rows come at another rate than it asked for because the node's base rate is no multiple of
/// that.
#[derive(Clone, Debug)]
pub struct Rounding {
    asked: Rate,
    said: Vec<Rate>,
}

impl Rounding {
    /// A reader that has asked for this rate.
    pub fn new(asked: Rate) -> Self {
        Rounding { asked, said: Vec::new() }
    }

    /// Rows of a node come at this rate. Returns the sentence for the reader, if the rate is news.
    pub fn news(&mut self, now: Rate) -> Option<String> {
        let text = now.rounded_from(self.asked)?;
        if self.said.contains(&now) || self.said.len() == ROUNDED_MAX {
            return None;
        }
        self.said.push(now);
        Some(text)
    }
}

impl Rate {
    /// `at 500Hz`, `every 128ms`: how often something happens, in a sentence.
    pub fn often(self) -> String {
        let text = self.to_string();
        if text.starts_with("every ") { text } else { format!("at {text}") }
    }

    /// The sentence for rows that come at this rate although `asked` was requested, if the node's base rate is the reason: it is no
    /// multiple of `asked`.
    pub fn rounded_from(self, asked: Rate) -> Option<String> {
        let (now, asked_period) = (self.period().0, asked.period().0);
        let is_other = now.abs_diff(asked_period) > asked_period / 100;
        (is_other && !self.is_slowed_from(asked)).then(|| {
            format!(
                "rows come {} instead of {asked}: up to its base rate, a node has that rate and its half, third, quarter and so on",
                self.often()
            )
        })
    }

    /// True if an agent at its CPU ceiling has slowed `asked` down to this: it halves the rate, once or
    /// several times. A rate only a little lower comes from rounding.
    pub fn is_slowed_from(self, asked: Rate) -> bool {
        self.period().0 >= asked.period().0.saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Nanos;

    #[test]
    fn a_rate_that_does_not_divide_the_base_rate_is_said_and_rounding_is_not() {
        let rate = |hz| Rate::from_hz(hz).unwrap();
        let told = rate(5).rounded_from(rate(4)).unwrap();
        assert!(told.starts_with("rows come at 5Hz instead of 4Hz: "), "{told}");
        let mut rounding = Rounding::new(rate(7));
        assert!(rounding.news(rate(10)).is_some());
        assert_eq!(rounding.news(rate(10)), None, "once");
        assert_eq!(rate(10).rounded_from(rate(10)), None);
        assert_eq!(Rate::from_period(Nanos(143_000_000)).unwrap().rounded_from(rate(7)), None);
        assert_eq!(rate(1).rounded_from(rate(7)), None, "that has another reason");
    }

    #[test]
    fn each_change_is_reported_once_and_rounding_is_no_change() {
        let rate = |hz| Rate::from_hz(hz).unwrap();
        let mut pace = Pace::new(rate(1_000));
        assert_eq!(pace.news(rate(1_000)), None);
        assert_eq!(pace.news(rate(900)), None, "rounded");
        let told = pace.news(rate(500)).unwrap();
        assert!(told.starts_with("runs at 500Hz instead of 1000Hz: "), "{told}");
        assert!(told.contains("cpu_max") && told.contains("khz check"), "{told}");
        assert_eq!(pace.news(rate(500)), None, "once");
        assert!(pace.news(rate(250)).unwrap().starts_with("runs at 250Hz instead of 1000Hz"));
        let slow = Rate::from_period(Nanos::from_millis(128)).unwrap();
        assert!(pace.news(slow).unwrap().starts_with("runs every 128ms instead of 1000Hz: "));
        assert_eq!(pace.news(rate(1_000)).unwrap(), "runs at 1000Hz again, as asked");
        assert_eq!(pace.news(rate(1_000)), None);
    }
}
