//! What a reader is told of the rate of its rows: one sentence when they come slower than it asked for, and one when
//! that has ended. Whoever hands rows out holds one of these for each reader; it refuses to know why a node is slow.

use crate::quantity::Rate;

/// The rate that a reader asked for, and the one that it knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    asked: Rate,
    known: Rate,
}

impl Pace {
    /// A reader that takes for granted what it asked for.
    pub fn new(asked: Rate) -> Self {
        Pace { asked, known: asked }
    }

    /// Its rows come at this rate now; the sentence to tell it, where that is news.
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

impl Rate {
    /// `at 500Hz`, `every 128ms`: how often something happens, in a sentence.
    pub fn often(self) -> String {
        let text = self.to_string();
        if text.starts_with("every ") { text } else { format!("at {text}") }
    }

    /// Whether an agent under its CPU ceiling has made this of `asked`: it halves the rate, and halves it again. What
    /// is a little slower was rounded.
    pub fn is_slowed_from(self, asked: Rate) -> bool {
        self.period().0 >= asked.period().0.saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Nanos;

    #[test]
    fn each_change_is_told_once_and_rounding_is_none() {
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
