//! From a fault on a node to the request that tells a receiver: khz, and Prometheus with the same rule, which scrapes the same node every
//! 15 s and every second. All see the same fault: memory is taken in /dev/shm, and given back when everybody has told of it.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use khz_model::Nanos;

use super::site::{Came, Site, free, receiver, wall};
use crate::error::BenchError;
use crate::http;
use crate::program::{build_directory, failed};
use crate::record::{Bound, Record};
use crate::spread::{Spread, quantile};
use crate::synth::Noise;
use crate::table::{Table, figure};
use crate::watched::Watched;

/// Bytes that the fault takes, and the rule's bound above what is taken before.
const TAKEN: u64 = 256 << 20;

/// Everybody has told of a fault by then: two scrapes and two evaluations every 15 s, and more.
const PATIENCE: Duration = Duration::from_secs(90);

/// How often somebody looks at the node and judges.
const PROMETHEUS: [&str; 2] = ["15s", "1s"];

/// One that judges, and what its receiver got.
struct Contender {
    name: String,
    came: Receiver<Came>,
    times: Vec<f64>,
}

impl Contender {
    /// Waits until it has told of a fault, or of its end.
    fn tells(&self, is_resolved: bool) -> Result<Nanos, BenchError> {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let came = self.came.recv_timeout(left).map_err(|error| failed(self.name.clone(), error))?;
            if came.is_resolved == is_resolved {
                return Ok(came.at);
            }
        }
    }
}

/// Memory in /dev/shm; given back when this is dropped.
struct Fault(PathBuf);

impl Fault {
    fn begin() -> Result<Self, BenchError> {
        let path = Path::new("/dev/shm").join(format!("khz-bench-fault-{}", std::process::id()));
        let written = fs::File::create(&path).and_then(|mut file| {
            let piece = vec![1; 1 << 20];
            (0..TAKEN >> 20).try_for_each(|_| file.write_all(&piece))
        });
        let fault = Fault(path);
        written.map_err(BenchError::file(&fault.0))?;
        Ok(fault)
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let folder = build_directory()?.join(format!("bench-beside-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(BenchError::file(&folder))?;
    let done = judged(record, &folder);
    let _ = fs::remove_dir_all(&folder);
    done
}

fn judged(record: &mut Record, folder: &Path) -> Result<(), BenchError> {
    let rules = rules()?;
    let node = free()?;
    let (at, came) = receiver()?;
    let mut site = Site::start(&rules, Some(at), &["--store", "none"])?;
    site.agent_on("n1", node)?;
    let mut all = vec![Contender { name: "khz, 1 Hz".into(), came, times: Vec::new() }];
    let mut running = Vec::new();
    for interval in PROMETHEUS {
        let (at, came) = receiver()?;
        running.push(prometheus(&folder.join(interval), interval, &rules, node, at)?);
        all.push(Contender { name: format!("Prometheus, {interval}"), came, times: Vec::new() });
    }
    let mut noise = Noise(7);
    for turn in 0..record.effort.of(12, 2) {
        record.progress(&format!("fault {}", turn + 1));
        // Faults do not wait for anybody's clock.
        std::thread::sleep(Duration::from_millis(2_000 + noise.below(15_000)));
        let begins = wall();
        let fault = Fault::begin()?;
        for contender in &mut all {
            let took = (contender.tells(false)?.0 as f64 - begins.0 as f64) / 1e6;
            record.sample(["beside", "a fault", &contender.name], turn, "ms", took);
            contender.times.push(took);
        }
        drop(fault);
        all.iter().try_for_each(|contender| contender.tells(true).map(drop))?;
    }
    drop(running);
    told(record, all);
    Ok(())
}

fn told(record: &mut Record, all: Vec<Contender>) {
    let mut table = Table::new(&["from a fault to the receiver", "p50 ms", "longest ms", "faults"]);
    for Contender { name, mut times, .. } in all {
        times.sort_by(f64::total_cmp);
        let longest = times.last().copied().unwrap_or_default();
        table.row([name.clone(), figure(quantile(&times, 0.5)), figure(longest), times.len().to_string()]);
        record.verdict(&format!("{name}: longest, ms"), Spread::of([longest]), Bound::Stated);
        record.verdict(&format!("{name}: p50, ms"), Spread::of(times), Bound::Stated);
    }
    record.show("## From a fault on a node to the request at the receiver", &table);
    record.say("The times contain the taking of 256 MB, which itself lasts some tens of milliseconds.\n");
}

/// A rule that the fault makes true.
fn rules() -> Result<String, BenchError> {
    let text = fs::read_to_string("/proc/meminfo").map_err(BenchError::file(Path::new("/proc/meminfo")))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Shmem:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    let now = kilobytes.ok_or_else(|| failed("/proc/meminfo", "it has no line Shmem"))? << 10;
    let expr = format!("node_memory_Shmem_bytes > {}", now + TAKEN / 2);
    Ok(format!("groups:\n- name: g\n  rules:\n  - alert: MemoryIsTaken\n    expr: {expr}\n"))
}

/// Starts a Prometheus that scrapes this node and tells this receiver.
fn prometheus(
    folder: &Path,
    interval: &str,
    rules: &str,
    node: SocketAddr,
    receiver: SocketAddr,
) -> Result<Watched, BenchError> {
    fs::create_dir_all(folder).map_err(BenchError::file(folder))?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(BenchError::file(&path))
    };
    write("rules.yml", rules)?;
    write(
        "prometheus.yml",
        &format!(
            "global: {{scrape_interval: {interval}, evaluation_interval: {interval}}}\nrule_files: [rules.yml]\n\
             scrape_configs: [{{job_name: node, scrape_timeout: 1s, static_configs: [{{targets: ['{node}']}}]}}]\n\
             alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{receiver}']}}]}}]}}\n"
        ),
    )?;
    let at = free()?;
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
    command.arg(format!("--web.listen-address={at}"));
    let process = Watched::start(command.stderr(Stdio::null()))?;
    http::wait_for(at, "/-/ready", PATIENCE)?;
    Ok(process)
}
