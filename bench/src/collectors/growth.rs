//! How the cost of a survey grows with what there is on the machine: processes, and control groups. The process counts its own CPU
//! time of surveys (`khz_survey_cpu_seconds_total`), and nothing else is surveyed.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::crowd::Crowd;
use crate::agent::{announced, build_agent, sum_of};
use crate::error::BenchError;
use crate::http;
use crate::program::failed;
use crate::record::Record;
use crate::table::{Table, figure, thousands};
use crate::watched::Watched;

const PROCESSES: [usize; 3] = [100, 1_000, 10_000];
const GROUPS: [usize; 3] = [10, 100, 1_000];

/// A source that is surveyed, and what it is about.
struct Subject {
    source: &'static str,
    what: &'static str,
    counts: [usize; 3],
    crowd: fn(usize) -> Result<Crowd, BenchError>,
    /// The family that says how many there are.
    family: &'static str,
}

static SUBJECTS: [Subject; 2] = [
    Subject {
        source: "processes",
        what: "processes",
        counts: PROCESSES,
        crowd: Crowd::of_processes,
        family: "node_processes_pids",
    },
    Subject {
        source: "cgroups",
        what: "control groups",
        counts: GROUPS,
        crowd: Crowd::of_groups,
        family: "khz_cgroups",
    },
];

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let program = build_agent()?;
    let mut table = Table::new(&["of", "there are", "CPU ms a survey", "CPU us each", "RssAnon MB"]);
    for subject in &SUBJECTS {
        for count in subject.counts.iter().take(record.effort.of(3, 2)) {
            record.progress(&format!("{count} {}", subject.what));
            row(record, &program, subject, *count, &mut table)?;
        }
    }
    record.show("## What a survey costs, with a budget that lets it be made each second", &table);
    record.say("\"There are\" counts those of the machine itself, too. By default a survey may cost 1 % of a core, that of processes\n0.3 %: beyond it there are fewer surveys.\n");
    Ok(())
}

fn row(
    record: &mut Record,
    program: &Path,
    subject: &Subject,
    count: usize,
    table: &mut Table,
) -> Result<(), BenchError> {
    let _crowd = (subject.crowd)(count)?;
    let config = std::env::temp_dir().join(format!("khz-bench-{}.toml", std::process::id()));
    let text = format!("[sources.\"{}\"]\nrate = \"1Hz\"\nbudget = \"100%\"\n", subject.source);
    std::fs::write(&config, text).map_err(BenchError::file(&config))?;
    let mut command = Command::new(program);
    command
        .args(["--quiet", "--log", "error", "--node", "n1", "--ring-dir", "none", "--config"])
        .arg(&config);
    command.args(["--sources", &format!("loadavg,{}", subject.source), "--text-listen", "none"]);
    let mut process = Watched::start(command.args(["--listen", "127.0.0.1:0"]))?;
    let mut output = std::io::BufReader::new(process.output()?);
    let address = announced(&mut output)?;
    let begun = Instant::now();
    let before = loop {
        let counts = counts(address, subject)?;
        if counts.there >= count as f64 && counts.surveys >= 2.0 {
            break counts;
        }
        if begun.elapsed() > Duration::from_secs(60) {
            return Err(failed("khz", format!("it sees {} {}", counts.there, subject.what)));
        }
        std::thread::sleep(Duration::from_millis(500));
    };
    std::thread::sleep(Duration::from_secs(record.effort.of(20, 5)));
    let after = counts(address, subject)?;
    let _ = std::fs::remove_file(&config);
    let surveys = after.surveys - before.surveys;
    if surveys < 1.0 {
        return Err(failed("khz", "it made no survey"));
    }
    let each = (after.cpu - before.cpu) / surveys;
    let case = format!("{count} {}", subject.what);
    record.sample(["growth", &case, "khz"], 0, "cpu_us_a_survey", each * 1e6);
    table.row([
        subject.what.to_owned(),
        thousands(after.there),
        figure(each * 1e3),
        figure(each * 1e6 / after.there),
        figure(process.held()?.anonymous_kb as f64 / 1e3),
    ]);
    Ok(())
}

struct Counts {
    there: f64,
    surveys: f64,
    cpu: f64,
}

fn counts(address: SocketAddr, subject: &Subject) -> Result<Counts, BenchError> {
    let text = http::get(address, "/metrics")?;
    let of = |family: &str| sum_of(&text, family).unwrap_or(0.0);
    Ok(Counts {
        there: of(subject.family),
        surveys: of("khz_surveys_total"),
        cpu: of("khz_survey_cpu_seconds_total"),
    })
}
