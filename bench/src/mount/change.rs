//! From a change on one node to programs on two others: a job publishes the time, and readers in two mounts
//! sleep until it arrives. On an idle machine and beside processes that compute without end, in the normal
//! and in a raised scheduling class.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::read::site_control;
use super::site::{Class, Site};
use super::timed::Times;
use super::waiter::{now_ns, wait};
use crate::error::BenchError;
use crate::load::Load;
use crate::plot::{Line, Plot, Scale};
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};

/// Processes that compute without end.
const HOGS: [usize; 4] = [0, 1, 4, 16];
/// The rate at which the value is gathered while a reader waits for it.
const RATE: &str = "1000Hz";
/// The pause between two changes: no multiple of a tick, so that changes fall anywhere between two ticks.
const PAUSE: Duration = Duration::from_micros(7_300);
/// The most by which the tail may grow beside 16 hogs, in the raised class.
const TIMES_MAX: f64 = 3.0;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let seconds = record.effort.of(9, 2);
    let mut table = Table::new(&["class, hogs", "values", "p50 us", "p99 us", "max us", "deviation us"]);
    let mut lines = Vec::new();
    for class in [Class::Normal, Class::Raised] {
        let mut site = Site::start(class)?;
        site.agent("n1", &["--base-rate", "1Hz", "--cpu-max", "50%"])?;
        let files = [site.mount()?, site.mount()?].map(|tree| tree.join("n1/metrics/job/stamp"));
        let publisher = Publisher::start(&site.agent_dir("n1").join("publish.sock"))?;
        for file in &files {
            site.wait_for(file)?;
            let control = site_control(file, "rate");
            std::fs::write(&control, format!("{RATE}\n")).map_err(BenchError::file(&control))?;
        }
        let files = files.map(|file| file.to_string_lossy().into_owned());
        let own = std::env::current_exe().map_err(BenchError::file("this program"))?;
        let mut idle = f64::NAN;
        let mut drawn = ["p50", "p99", "deviation"]
            .map(|what| Line { name: format!("{}, {what}", class.name()), values: Vec::new() });
        for hogs in HOGS {
            record.progress(&format!("{} class, {hogs} hogs", class.name()));
            let _load = Load::of(&vec!["spin"; hogs])?;
            let times = wait(class.command(&own), seconds, &files)?;
            let case = format!("{} {hogs}", class.name());
            for (turn, micros) in times.iter().enumerate() {
                record.sample(["change", &case, "khz"], turn, "us", *micros);
            }
            let times = Times::from(times);
            let p99 = times.at(0.99);
            let figures = [times.at(0.5), p99, times.at(1.0), times.deviation()].map(figure);
            for (line, value) in drawn.iter_mut().zip([times.at(0.5), p99, times.deviation()]) {
                line.values.push(value);
            }
            let head = [format!("{}, {hogs}", class.name()), times.count().to_string()];
            table.row(head.into_iter().chain(figures));
            if hogs == 0 {
                idle = p99;
            } else if hogs == HOGS[HOGS.len() - 1] && class == Class::Raised {
                let grown = Spread::of([p99 / idle]);
                record.verdict(
                    "change to reader, raised class: p99 beside 16 hogs / idle",
                    grown,
                    Bound::AtMost(TIMES_MAX),
                );
            }
        }
        lines.extend(drawn);
        drop(publisher);
    }
    record.show("## From a published change to readers in two mounts", &table);
    record.say(&format!(
        "A published value is taken with the next row: gathered at {RATE}, it waits up to 1 ms for it. Raised: agent, hub, mounts and \
         readers are SCHED_RR 1; the publisher and the hogs never. Everything on this one machine.\n"
    ));
    let plot = Plot {
        title: "From a published change to readers in two mounts, by load",
        axis: "us",
        below: "processes that compute without end",
        scale: Scale::Logarithmic,
        labels: HOGS.map(|hogs| hogs.to_string()).into(),
        lines: &lines,
    };
    record.store("change.svg", &plot.svg())
}

/// A job that publishes the time until it is dropped.
struct Publisher {
    stop: std::sync::Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Publisher {
    fn start(socket: &Path) -> Result<Self, BenchError> {
        let wrong = |e: std::io::Error| failed("the publisher", e);
        let sender = UnixDatagram::unbound().map_err(wrong)?;
        let stop = std::sync::Arc::<AtomicBool>::default();
        let (ends, path): (_, PathBuf) = (stop.clone(), socket.into());
        let publish = move || {
            while !ends.load(Ordering::Relaxed) {
                // If the agent is full or not ready, it gets the next value.
                let _ = sender.send_to(format!("stamp={}", now_ns()).as_bytes(), &path);
                std::thread::sleep(PAUSE);
            }
        };
        let thread = std::thread::Builder::new().name("publisher".into()).spawn(publish).map_err(wrong)?;
        Ok(Publisher { stop, thread: Some(thread) })
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
