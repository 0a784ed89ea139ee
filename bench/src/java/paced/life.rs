//! One run of a loop at a fixed rate, from its start to its end: its ticks, its CPU time once it is warm, its memory.
//! The loop is in C or on the JVM.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agent::sleep_to_middle_of;
use crate::error::BenchError;
use crate::java::paced::Loops;
use crate::program::failed;
use crate::record::Record;
use crate::watched::Watched;

/// A loop: its name in tables and samples, and what runs it.
pub struct Loop {
    pub name: &'static str,
    pub kind: Kind,
}

/// What runs a loop.
#[derive(Clone, Copy)]
pub enum Kind {
    /// `c/paced.c`.
    C,
    /// The Java program: the way it gathers, the JVM's flag, and how often it gathers before the first tick, if it does.
    Jvm { way: &'static str, flag: &'static str, warm: Option<u32> },
}

/// What a loop has counted.
#[derive(Debug, PartialEq)]
pub struct Life {
    pub ticks: f64,
    pub late: f64,
    pub missed: f64,
    /// CPU seconds of the whole process per second of the run's second half: the start is over by then.
    pub share: f64,
    pub resident_kb: f64,
    /// What only the JVM has.
    pub jvm: Option<Jvm>,
}

/// What the program on the JVM says besides.
#[derive(Debug, PartialEq)]
pub struct Jvm {
    /// As `share`, of the gathering thread alone.
    pub thread_share: f64,
    /// Bytes that the gathering thread has allocated in the run's second half.
    pub bytes: f64,
    pub pauses: f64,
    pub longest_pause_ms: f64,
    pub heap_kb: f64,
    pub peak_kb: f64,
    /// From the JVM's own start to the first complete gather.
    pub first_gather_ms: f64,
    /// When that was, in nanoseconds since 1970.
    pub first_gather_ns: f64,
    /// The median duration of a call in the first second, and in the last one.
    pub first_second_ns: f64,
    pub last_second_ns: f64,
    /// The tick from which on a call takes at most twice the last second's median; `None`: none within the run.
    pub warm_from: Option<f64>,
    /// How long after its time a tick begins, in the middle.
    pub wake_ns: f64,
}

impl Loop {
    /// Runs it at this rate for a while.
    pub fn run(&self, loops: &Loops, rate: u64, seconds: u64) -> Result<Life, BenchError> {
        match self.kind {
            Kind::C => c(Command::new(&loops.c).arg(rate.to_string()), rate, seconds),
            Kind::Jvm { way, flag, warm } => {
                let mut command = loops.jvm.paced(&[flag]);
                command.args([&rate.to_string(), way, &seconds.to_string()]);
                jvm(command.args(warm.map(|calls| calls.to_string())))
            }
        }
    }
}

impl Life {
    /// CPU microseconds of a tick.
    pub fn micros(&self, rate: u64) -> f64 {
        self.share * 1e6 / rate as f64
    }

    /// Keeps its figures as raw samples.
    pub fn keep(&self, record: &mut Record, case: &str, who: &str, turn: usize) {
        let own = self.jvm.as_ref();
        let figures = [
            ("ticks", Some(self.ticks)),
            ("late", Some(self.late)),
            ("missed", Some(self.missed)),
            ("cpu_percent", Some(self.share * 100.0)),
            ("rss_kb", Some(self.resident_kb)),
            ("thread_cpu_percent", own.map(|one| one.thread_share * 100.0)),
            ("allocated_bytes", own.map(|one| one.bytes)),
            ("gc_pauses", own.map(|one| one.pauses)),
            ("longest_pause_ms", own.map(|one| one.longest_pause_ms)),
            ("heap_kb", own.map(|one| one.heap_kb)),
            ("peak_rss_kb", own.map(|one| one.peak_kb)),
            ("first_gather_ms", own.map(|one| one.first_gather_ms)),
            ("first_second_ns", own.map(|one| one.first_second_ns)),
            ("last_second_ns", own.map(|one| one.last_second_ns)),
            ("warm_from", own.and_then(|one| one.warm_from)),
            ("wake_ns", own.map(|one| one.wake_ns)),
        ];
        for (what, figure) in figures {
            if let Some(figure) = figure {
                record.sample(["paced", case, who], turn, what, figure);
            }
        }
    }
}

/// Runs the C loop. Its CPU time is watched from outside, between the middles of two periods.
fn c(command: &mut Command, rate: u64, seconds: u64) -> Result<Life, BenchError> {
    let mut process = Watched::start(command)?;
    let output = process.output()?;
    let (half, period) = (Duration::from_secs(seconds) / 2, Duration::from_secs(1) / rate as u32);
    std::thread::sleep(half);
    sleep_to_middle_of(period);
    let (from, before) = (Instant::now(), process.counted()?.cpu_ns);
    std::thread::sleep(half);
    sleep_to_middle_of(period);
    let (span, after) = (from.elapsed(), process.counted()?.cpu_ns);
    let resident_kb = process.held()?.resident_kb as f64;
    let report = Report::read(&process.end(output)?)?;
    let share = after.saturating_sub(before) as f64 / span.as_nanos() as f64;
    report.life(share, resident_kb, None)
}

/// Runs the program on the JVM, which ends by itself.
pub fn jvm(command: &mut Command) -> Result<Life, BenchError> {
    let output = command.output().map_err(|e| failed("java Paced", e))?;
    if !output.status.success() {
        return Err(failed("java Paced", String::from_utf8_lossy(&output.stderr)));
    }
    Report::read(&String::from_utf8_lossy(&output.stdout))?.jvm()
}

/// The JSON object that a loop prints at its end.
struct Report(Value);

impl Report {
    fn read(text: &str) -> Result<Report, BenchError> {
        let report = serde_json::from_str(text);
        report.map(Report).map_err(|e| BenchError::Reply(format!("a loop's report '{}': {e}", text.trim())))
    }

    fn number(&self, name: &str) -> Result<f64, BenchError> {
        let found = self.0[name].as_f64();
        found.ok_or_else(|| BenchError::Reply(format!("a loop's report has no number '{name}': {}", self.0)))
    }

    fn jvm(&self) -> Result<Life, BenchError> {
        let span = self.number("half_span_ns")? / 1e9;
        let jvm = Jvm {
            thread_share: self.number("half_thread_cpu_s")? / span,
            bytes: self.number("half_bytes")?,
            pauses: self.number("pauses")?,
            longest_pause_ms: self.number("longest_pause_ms")?,
            heap_kb: self.number("heap_kb")?,
            peak_kb: self.number("hwm_kb")?,
            first_gather_ms: self.number("first_gather_ms")?,
            first_gather_ns: self.number("first_gather_ns")?,
            first_second_ns: self.number("first_second_ns")?,
            last_second_ns: self.number("last_second_ns")?,
            warm_from: self.0["warm_from"].as_f64(),
            wake_ns: self.number("wake_ns")?,
        };
        self.life(self.number("half_cpu_s")? / span, self.number("rss_kb")?, Some(jvm))
    }

    fn life(&self, share: f64, resident_kb: f64, jvm: Option<Jvm>) -> Result<Life, BenchError> {
        let [ticks, late, missed] = ["ticks", "late", "missed"].map(|name| self.number(name));
        Ok(Life { ticks: ticks?, late: late?, missed: missed?, share, resident_kb, jvm })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JVM: &str = r#"{"ticks":4992,"late":7,"missed":8,"span_ns":4999000000,"cpu_s":0.7,"thread_cpu_s":0.4,
        "half_span_ns":2500000000,"half_cpu_s":0.05,"half_thread_cpu_s":0.025,"half_bytes":0,"pauses":1,"pauses_ms":2,
        "longest_pause_ms":2,"heap_kb":9358,"rss_kb":67884,"hwm_kb":67924,"first_gather_ns":1795849739536701411,
        "first_gather_ms":147.7,"first_second_ns":26479,"last_second_ns":21893,"warm_from":null,"wake_ns":67563}"#;

    #[test]
    fn the_report_of_the_jvm_gives_shares_of_its_second_half() {
        let life = Report::read(JVM).unwrap().jvm().unwrap();
        assert_eq!((life.ticks, life.late, life.missed, life.resident_kb), (4992.0, 7.0, 8.0, 67_884.0));
        assert_eq!((life.share, life.micros(1_000)), (0.02, 20.0));
        let own = life.jvm.unwrap();
        assert_eq!((own.thread_share, own.bytes, own.longest_pause_ms), (0.01, 0.0, 2.0));
        assert_eq!((own.first_gather_ms, own.warm_from), (147.7, None));
    }

    #[test]
    fn what_a_report_lacks_is_an_error_and_not_0() {
        // A run that was ended before its half.
        let short = JVM.replace("\"half_bytes\":0", "\"half_bytes\":null");
        let problem = Report::read(&short).unwrap().jvm().unwrap_err().to_string();
        assert!(problem.contains("no number 'half_bytes'"), "{problem}");
        assert!(Report::read("usage: paced RATE").is_err());
        assert!(Report::read(r#"{"ticks":1,"late":0}"#).unwrap().life(0.0, 0.0, None).is_err());
    }

    #[test]
    fn the_c_loop_is_watched_to_its_end() {
        let program = crate::program::compile("paced").unwrap();
        let life = c(Command::new(program).arg("100"), 100, 1).unwrap();
        assert!(life.ticks > 0.0 && life.share > 0.0 && life.resident_kb > 0.0, "{life:?}");
        assert_eq!(life.jvm, None);
    }
}
