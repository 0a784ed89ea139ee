//! The progress of a recording: a line that is redrawn on a terminal, and one at the end.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use khz_model::{Nanos, Rate};
use khz_record::{Counts, Missing, Recorder};

use crate::show::quantities::{of_bytes, of_count, of_span, of_whole_span};
use crate::show::table::on_stderr;
use crate::show::terminal;

/// The time between two redraws: at most four a second.
const PERIOD: Duration = Duration::from_millis(250);
/// The writing rate is the mean over about this time, since blocks come in bursts.
const WRITTEN_SPAN: Duration = Duration::from_secs(5);

/// The line.
pub struct Progress {
    began: Instant,
    drawn: Option<Instant>,
    is_shown: bool,
    is_quiet: bool,
    /// The rate that was asked for; `None` for past rows.
    asked: Option<Rate>,
    /// How much of the past is done, in percent.
    share: Option<u64>,
    /// How many bytes were written, and when: the oldest ones of [`WRITTEN_SPAN`] first.
    written: VecDeque<(Instant, u64)>,
}

impl Progress {
    /// The line is drawn only on a terminal.
    pub fn new(is_quiet: bool, asked: Option<Rate>) -> Self {
        let is_shown = !is_quiet && std::io::stderr().is_terminal() && terminal::obeys_escapes();
        let (began, written) = (Instant::now(), VecDeque::new());
        Progress { began, drawn: None, is_shown, is_quiet, asked, share: None, written }
    }

    /// Draws it, if it is time.
    pub fn draw(&mut self, counts: impl FnOnce() -> Counts) {
        if self.is_shown && self.drawn.is_none_or(|drawn| drawn.elapsed() >= PERIOD) {
            let (now, counts) = (Instant::now(), counts());
            self.drawn = Some(now);
            let line = self.live(&counts, now);
            // A closed terminal is no problem.
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", cut(line));
        }
    }

    /// The line while it goes on: time, rows, what is missing, bytes, and how fast they are written. The most important parts come
    /// first, because a narrow terminal cuts the end.
    fn live(&mut self, counts: &Counts, now: Instant) -> String {
        let Counts { nodes, rows, bytes, .. } = counts;
        let mut words = vec![of_whole_span(now.saturating_duration_since(self.began).as_secs_f64())];
        words.extend(self.share.map(|share| format!("{share} % done")));
        words.push(some(*nodes, "node", "nodes"));
        words.push(some(*rows, "row", "rows"));
        let missing = lacking(&counts.missing);
        words.push(if missing.is_empty() { "none missing".to_owned() } else { missing.join(", ") });
        words.push(of_bytes(*bytes as f64, ""));
        let rate = self.rate_of_writing(*bytes, now);
        words.push(rate.map_or_else(|| "? B/s".to_owned(), |rate| of_bytes(rate, "/s")));
        words.join("   ")
    }

    /// Bytes a second; unknown at the beginning.
    fn rate_of_writing(&mut self, bytes: u64, now: Instant) -> Option<f64> {
        // Keep a first entry that is at least as old as the span.
        while self
            .written
            .get(1)
            .is_some_and(|(time, _)| now.saturating_duration_since(*time) >= WRITTEN_SPAN)
        {
            self.written.pop_front();
        }
        self.written.push_back((now, bytes));
        let (time, before) = self.written.front()?;
        let seconds = now.saturating_duration_since(*time).as_secs_f64();
        (seconds > 0.0).then(|| bytes.saturating_sub(*before) as f64 / seconds)
    }

    /// The same for past rows; `share` is how much of the time is done, in percent.
    pub fn draw_share(&mut self, recorder: &Recorder, share: u64) {
        self.share = Some(share);
        self.draw(|| recorder.counts());
        self.share = None;
    }

    /// Prints a sentence in place of the line. The line is drawn again below it.
    pub fn say(&mut self, text: &str) {
        if self.is_shown {
            on_stderr("\r\x1b[K");
        }
        if !self.is_quiet {
            crate::show::table::remark!("{text}");
        }
    }

    /// Prints the line of the whole recording.
    pub fn end(mut self, counts: &Counts, path: &std::path::Path) {
        let start = if std::mem::take(&mut self.is_shown) { "\r\x1b[K" } else { "" };
        if !self.is_quiet {
            on_stderr(&format!("{start}khz: {}: {}\n", path.display(), self.line(counts)));
        }
    }

    fn line(&self, counts: &Counts) -> String {
        let Counts { nodes, rows, values, bytes, .. } = counts;
        let share = self.share.map(|share| format!("{share} % in ")).unwrap_or_default();
        let mut line = format!(
            "{share}{} {nodes} {}, {} rows, {} values, {}",
            of_whole_span(self.began.elapsed().as_secs_f64()),
            if *nodes == 1 { "node" } else { "nodes" },
            of_count(*rows),
            of_count(*values),
            of_bytes(*bytes as f64, ""),
        );
        if *values > 0 {
            line.push_str(&format!(" ({:.2} a value)", *bytes as f64 / *values as f64));
        }
        if counts.files > 1 {
            line.push_str(&format!(" in {} files", counts.files));
        }
        if let Some(text) = self.asked.and_then(|asked| other_rates(asked, counts.periods?)) {
            line.push_str(&format!(", {text}"));
        }
        for text in lacking(&counts.missing) {
            line.push_str(&format!(", {text}"));
        }
        if counts.damaged > 0 {
            line.push_str(&format!(", {} damaged blocks", counts.damaged));
        }
        let jitter = |share| counts.jitter.quantile(share).map(|nanos| of_span(nanos as f64 / 1e9));
        if let (Some(half), Some(most)) = (jitter(0.5), jitter(0.99)) {
            line.push_str(&format!(", jitter {half} (99 %: {most})"));
        }
        line
    }
}

impl Drop for Progress {
    /// Later messages, for example about a full disk, must not follow the live line.
    fn drop(&mut self) {
        if self.is_shown {
            on_stderr("\r\x1b[K");
        }
    }
}

/// The rates of the rows, if they differ from the requested one. The reason was already printed: a node may be at its CPU ceiling,
/// come through another hub at its base rate, or have a base rate that is no multiple.
fn other_rates(asked: Rate, (shortest, longest): (Nanos, Nanos)) -> Option<String> {
    let (fastest, slowest) = (Rate::from_period(shortest)?, Rate::from_period(longest)?);
    let is_other = |rate: Rate| rate.is_slowed_from(asked) || rate.rounded_from(asked).is_some();
    (is_other(slowest) || is_other(fastest)).then(|| match fastest == slowest {
        true => format!("{} instead of {asked}", slowest.often()),
        false => format!("{} to {} instead of {asked}", fastest.often(), slowest.often()),
    })
}

/// `1 row`, `41 rows`.
pub fn some(count: u64, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{} {many}", of_count(count)),
    }
}

/// What is missing: rows that did not come, and ticks for which no row was made.
pub fn lacking(missing: &Missing) -> Vec<String> {
    let Missing { rows, gaps, ticks, .. } = *missing;
    let mut words = Vec::new();
    if rows > 0 {
        words.push(format!("{} missing in {}", some(rows, "row", "rows"), some(gaps, "gap", "gaps")));
    }
    if ticks > 0 {
        words.push(format!("{} without a row", some(ticks, "tick", "ticks")));
    }
    words
}

fn cut(line: String) -> String {
    crate::show::table::cut(
        &line,
        crate::show::terminal::stderr_width().map_or(79, |width| width.saturating_sub(1)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_rates_than_the_one_that_was_asked_for_are_named_without_a_guess_at_the_reason() {
        let asked = Rate::from_hz(20).unwrap();
        let (second, tick) = (Nanos::SECOND, asked.period());
        assert_eq!(other_rates(asked, (second, second)).unwrap(), "at 1Hz instead of 20Hz");
        assert_eq!(other_rates(asked, (tick, second)).unwrap(), "at 20Hz to at 1Hz instead of 20Hz");
        assert_eq!(other_rates(asked, (tick, tick)), None);
        let third = Rate::from_hz(30).unwrap().period();
        assert_eq!(other_rates(asked, (third, third)).unwrap(), "at 30Hz instead of 20Hz");
    }

    #[test]
    fn the_live_line_has_what_matters_first_and_the_rate_of_the_last_seconds() {
        let mut progress = Progress::new(true, None);
        let start = progress.began;
        let missing = Missing { rows: 41, gaps: 2, ..Missing::default() };
        let counts = |bytes, missing| Counts { nodes: 3, rows: 1_234, bytes, missing, ..Counts::default() };
        let second = |n| start + Duration::from_secs(n);
        assert_eq!(
            progress.live(&counts(0, Missing::default()), second(1)),
            "1.0s   3 nodes   1234 rows   none missing   0 B   ? B/s"
        );
        for n in 2..30 {
            progress.live(&counts(1_024 * n, missing), second(n));
        }
        assert_eq!(
            progress.live(&counts(1_024 * 30 + 6_144 * 5, missing), second(95)),
            "1m 35s   3 nodes   1234 rows   41 rows missing in 2 gaps   60.0 KiB   481 B/s"
        );
        assert!(progress.written.len() < 10);
    }
}
