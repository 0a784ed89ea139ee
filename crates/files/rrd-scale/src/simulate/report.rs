//! The answer as text of 80 columns, and as JSON: page-ins by memory, and by time of day.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::experiment::{Model, Outcome, PART, PARTS};
use super::memory;

/// Page-ins a file and update that count as nearly none: one in twenty updates.
pub const NEAR_ZERO: f64 = 0.05;
/// Seconds of an hour.
const HOUR: u64 = 3_600;

/// What was simulated, for people.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Whose updates: a layout, a file, a trace.
    pub updates: String,
    /// Pages of a file.
    pub pages: u32,
    /// Bytes of a page.
    pub page: u64,
    /// Seconds of a step.
    pub step: u64,
    /// Files of the machine.
    pub files: u64,
    /// Files simulated.
    pub sample: u32,
    /// Bytes that the device reads ahead.
    pub readahead: u64,
    /// Memory of the machine, where it was given.
    pub memory: Option<u64>,
}

/// The answer of some runs: for each number of pages a file the four of them, in the order of [`columns`].
#[derive(Debug, Clone)]
pub struct Answer {
    /// What was simulated.
    pub subject: Subject,
    /// The runs.
    pub outcomes: Vec<Outcome>,
}

/// The runs for one size of memory: model, and whether with advice.
pub fn columns() -> [(Model, bool); 4] {
    [(Model::Lru, true), (Model::Lru, false), (Model::Linux, true), (Model::Linux, false)]
}

impl Answer {
    /// The runs with each size of memory.
    fn rows(&self) -> impl Iterator<Item = &[Outcome]> {
        self.outcomes.chunks(columns().len())
    }

    /// Whether there is one size of memory only.
    pub fn is_day(&self) -> bool {
        self.outcomes.len() == columns().len()
    }

    /// Page-ins a second of the whole machine, in each part of the day; none where nothing was counted.
    pub fn rates<'a>(&'a self, outcome: &'a Outcome) -> impl Iterator<Item = Option<f64>> + 'a {
        let scale = self.subject.files as f64 / f64::from(self.subject.sample);
        outcome
            .day
            .iter()
            .map(move |(pages, seconds)| (*seconds > 0).then(|| *pages as f64 * scale / *seconds as f64))
    }

    /// The least memory from which on page-ins are near zero, for a column.
    pub fn knee(&self, column: usize) -> Option<f64> {
        let rows: Vec<&Outcome> = self.rows().map(|row| &row[column]).collect();
        let high = rows.iter().rposition(|outcome| outcome.pages_an_update() > NEAR_ZERO);
        rows.get(high.map_or(0, |high| high + 1)).map(|outcome| outcome.setting.pages)
    }

    /// The answer as text.
    pub fn text(&self) -> String {
        let mut out = self.head();
        match self.is_day() {
            true => self.day(&mut out),
            false => self.curve(&mut out),
        }
        out
    }

    fn head(&self) -> String {
        let Subject { updates, pages, page, step, files, sample, readahead, memory } = &self.subject;
        let kib = |bytes: &u64| format!("{} KiB", *bytes as f64 / 1_024.0);
        let mut head = format!(
            "{updates}: {pages} pages of {} a file, an update each {step} s; {files} files, of which {sample} are simulated; \
             readahead {} where there is no advice.",
            kib(page),
            kib(readahead),
        );
        if let Some(memory) = memory {
            // Writing into a string cannot fail.
            let _ = write!(
                head,
                " Of {memory} bytes of memory, the kernel's records of the files take {} ({} each); the rest holds {:.2} pages \
                 a file ({} bytes each).",
                files * memory::FILE,
                memory::FILE,
                self.outcomes.first().map_or(0.0, |outcome| outcome.setting.pages),
                page + memory::BUFFER,
            );
        }
        khz_rrd::lines::wrapped("", "", &head) + "\n"
    }

    fn curve(&self, out: &mut String) {
        let _ = writeln!(out, "page-ins a file and update, by pages of memory a file\n");
        let _ = writeln!(out, "{:>7}{:>15}{:>26}", "", "LRU", "Linux");
        let _ = writeln!(
            out,
            "{:>7}{:>12}{:>12}{:>13}{:>12}",
            "pages", "advice", "readahead", "advice", "readahead"
        );
        for row in self.rows() {
            let value = |column: usize| format!("{:.3}", row[column].pages_an_update());
            let (a, b, c, d) = (value(0), value(1), value(2), value(3));
            let _ = writeln!(out, "{:>7}{a:>12}{b:>12}{c:>13}{d:>12}", row[0].setting.pages);
        }
        let knee = |column| match self.knee(column) {
            Some(pages) => format!("from {pages}"),
            None => "beyond".into(),
        };
        let (a, b, c, d) = (knee(0), knee(1), knee(2), knee(3));
        let _ = writeln!(out, "{:>7}{a:>12}{b:>12}{c:>13}{d:>12}", "~ 0");
        let _ = writeln!(out, "\n~ 0: the memory from which on it is {NEAR_ZERO} or less.");
    }

    fn day(&self, out: &mut String) {
        let pages = self.outcomes.first().map_or(0.0, |outcome| outcome.setting.pages);
        let _ = writeln!(
            out,
            "page-ins a second of all files, with {pages:.2} pages of memory a file, by the\nhour (UTC): mean, and the \
             most in {} minutes\n",
            PART / 60
        );
        let pair = |a: &str, b: &str| format!("{a:>9}{b:>9}");
        let _ = writeln!(
            out,
            "{:>5}{:>18}{:>18}{:>18}{:>18}",
            "", "LRU, advice", "LRU, readah.", "Linux, advice", "Linux, readah."
        );
        let _ = writeln!(out, "{:>5}{}", "hour", pair("mean", "most").repeat(columns().len()));
        let each = (HOUR / PART) as usize;
        for hour in 0..PARTS / each {
            let _ = write!(out, "{hour:>5}");
            for outcome in &self.outcomes {
                let known: Vec<f64> = self.rates(outcome).skip(hour * each).take(each).flatten().collect();
                let most = known.iter().copied().reduce(f64::max);
                let mean = most.map(|_| known.iter().sum::<f64>() / known.len() as f64);
                let _ = write!(out, "{}", pair(&rate(mean), &rate(most)));
            }
            out.push('\n');
        }
        let _ = writeln!(out, "\nan update, of a whole day: pages read, and changed pages written\n");
        self.line(out, "in", Outcome::pages_an_update);
        self.line(out, "out", Outcome::page_outs_an_update);
    }

    /// A line with a number of each run.
    fn line(&self, out: &mut String, name: &str, number: impl Fn(&Outcome) -> f64) {
        let _ = write!(out, "{name:>5}");
        for outcome in &self.outcomes {
            let _ = write!(out, "{:>18.3}", number(outcome));
        }
        out.push('\n');
    }

    /// The answer as JSON.
    pub fn json(&self) -> Value {
        let Subject { updates, pages, page, step, files, sample, readahead, memory } = &self.subject;
        let run = |outcome: &Outcome| {
            let setting = outcome.setting;
            let name = Model::ALL.iter().find(|(model, _)| *model == setting.model).map(|(_, name)| *name);
            json!({
                "pages_a_file": setting.pages,
                "model": name.unwrap_or_default().to_lowercase(),
                "advice": setting.advice,
                "updates": outcome.updates,
                "page_ins": outcome.reads.pages,
                "page_ins_an_update": outcome.pages_an_update(),
                "read_requests": outcome.reads.requests,
                "page_outs": outcome.counts.page_outs,
                "evicted": outcome.counts.evicted,
                "refaults_activated": outcome.counts.refaults_activated,
                "page_ins_a_second": self.is_day().then(|| self.rates(outcome).collect::<Vec<_>>()),
            })
        };
        json!({
            "updates": updates,
            "pages": pages,
            "page_bytes": page,
            "step_seconds": step,
            "files": files,
            "simulated_files": sample,
            "readahead_bytes": readahead,
            "memory_bytes": memory,
            "part_of_day_seconds": PART,
            "runs": self.outcomes.iter().map(run).collect::<Vec<_>>(),
        })
    }
}

/// A rate in at most eight characters.
fn rate(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value < 100.0 => format!("{value:.2}"),
        Some(value) if value < 1e6 => format!("{value:.0}"),
        Some(value) if value < 1e9 => format!("{:.1}M", value / 1e6),
        Some(value) => format!("{:.1e}", value),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cache::Counts;
    use super::super::experiment::Setting;
    use super::super::machine::Reads;
    use super::*;

    /// Runs with `page_ins` for each size of memory, the same in each column but for its number.
    fn answer(page_ins: &[u64]) -> Answer {
        let outcomes = page_ins.iter().zip(1..).flat_map(|(pages, memory)| {
            columns().into_iter().zip(0..).map(move |((model, advice), column)| Outcome {
                setting: Setting { pages: f64::from(memory), model, advice },
                reads: Reads { pages: pages + column, requests: 1 },
                counts: Counts::default(),
                updates: 100,
                day: vec![(*pages, PART); PARTS],
            })
        });
        let subject = Subject {
            updates: "a layout".into(),
            pages: 24,
            page: 4_096,
            step: 300,
            files: 1_000_000_000,
            sample: 10,
            readahead: 65_536,
            memory: Some(1 << 40),
        };
        Answer { subject, outcomes: outcomes.collect() }
    }

    #[test]
    fn lines_fit_a_terminal() {
        for answer in [answer(&[50_000, 300, 2, 1]), answer(&[50_000_000])] {
            let text = answer.text();
            assert_eq!(text.lines().find(|line| line.chars().count() > 80), None, "{text}");
        }
    }

    #[test]
    fn the_memory_from_which_on_page_ins_are_near_zero_is_found() {
        let found = answer(&[500, 3, 300, 5, 1]);
        // The last column has three more: 8 in a hundred updates, 4.
        assert_eq!(
            [0, 1, 2, 3].map(|column| found.knee(column)),
            [Some(4.0), Some(5.0), Some(5.0), Some(5.0)]
        );
        assert_eq!(answer(&[500, 300]).knee(0), None);
        assert!(answer(&[500, 300]).text().contains("beyond"));
    }

    #[test]
    fn what_was_not_counted_is_unknown() {
        let mut answer = answer(&[500]);
        answer.outcomes[0].day[3] = (0, 0);
        assert!(answer.json()["runs"][0]["page_ins_a_second"][3].is_null());
        answer.outcomes[0].day[..12].fill((0, 0));
        assert!(answer.text().contains("\n    0        -        -"), "{}", answer.text());
    }
}
