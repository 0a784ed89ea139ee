//! The one live line on a terminal: how well the gathering goes and what it costs. It refuses to be printed
//! anywhere else, and never shows a number that is not known.

use crate::quantities;
use crate::table::cut;

/// What the line tells; `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Status {
    /// Ticks of the fastest lane in the last second.
    pub rate_reached: Option<f64>,
    /// Ticks that began late, since the start.
    pub late: Option<u64>,
    /// Ticks that were left out, since the start.
    pub skipped: Option<u64>,
    /// Share of one core that this process used in the last second.
    pub cpu_share: Option<f64>,
    /// Memory that is this process' own (RssAnon).
    pub memory_bytes: Option<u64>,
}

impl Status {
    /// The line in at most `width` characters, without its end.
    pub fn line(&self, width: usize) -> String {
        let whole =
            |count: Option<u64>| count.map_or("?".to_owned(), |n| quantities::of_value(&n.to_string(), ""));
        let parts = [
            format!("{} Hz", self.rate_reached.map_or("?".to_owned(), |hz| format!("{hz:.0}"))),
            format!("{} late, {} skipped", whole(self.late), whole(self.skipped)),
            format!(
                "CPU {}",
                self.cpu_share.map_or("?".to_owned(), |share| format!("{:.1} %", share * 100.0))
            ),
            self.memory_bytes.map_or("memory ?".to_owned(), |bytes| {
                format!("memory {}", quantities::of_value(&bytes.to_string(), "bytes"))
            }),
        ];
        cut(&parts.join("   "), width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_a_question_mark_not_zero() {
        assert_eq!(Status::default().line(80), "? Hz   ? late, ? skipped   CPU ?   memory ?");
        let status = Status {
            rate_reached: Some(999.6),
            late: Some(1234),
            skipped: Some(0),
            cpu_share: Some(0.0213),
            memory_bytes: Some(3_355_443),
        };
        assert_eq!(status.line(80), "1000 Hz   1,234 late, 0 skipped   CPU 2.1 %   memory 3.2 MiB");
        assert_eq!(status.line(12), "1000 Hz   1…");
    }
}
