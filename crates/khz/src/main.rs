//! `khz`: the whole program at a glance. Flags become a checked plan, the plan becomes work; the work is in
//! one file per command.

#![forbid(unsafe_code)]

mod agent;
mod agent_lanes;
mod agent_texts;
mod answer;
mod ask;
mod calendar;
mod catalog;
mod certs;
mod check;
mod cli;
mod client;
mod config;
#[cfg(test)]
mod documented_limits;
mod door;
mod events;
mod feed;
mod forget;
mod get;
mod heard;
mod here;
mod hub;
mod hub_recorder;
mod hub_status;
mod job_socket;
mod keeper;
mod log;
mod man;
mod matrix;
mod mirror;
mod misses;
mod mount;
mod nodes;
mod notify;
mod outcome;
mod own_link;
mod properties;
mod publish;
mod quantities;
mod rates;
mod record;
#[cfg(test)]
mod reference;
mod renew;
mod ring;
mod rrd;
mod run;
mod serve;
mod simulate;
mod status_line;
mod table;
mod terminal;
mod together;
mod trace;
mod transport;
mod trial;
mod watch;

use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use khz_model::hostlist::Hostlist;
use khz_model::{Interest, Misses, Nanos, Pattern};

use crate::cli::{Cli, Command, Format, GetFlags, NodesCommand, NodesFlags, RingCommand, WatchFlags};
use crate::config::secrets::hidden;
use crate::config::{Layers, NodeFlags, Plan};
use crate::outcome::{Done, Failure, Outcome};
use crate::watch::Watch;

fn main() -> ExitCode {
    khz_door::heap::settle();
    if let Err(error) = khz_ring::survive_truncation() {
        table::say(&outcome::sentence(&error));
    }
    if let Some(code) = rrd::under_another_name() {
        return code;
    }
    let (code, sentence) = outcome::exit(dispatch(words()));
    if let Some(sentence) = sentence {
        crate::table::remark!("{}", hidden(&sentence));
    }
    code
}

fn dispatch(cli: Cli) -> Outcome {
    // Not locked: what `khz rrd` prints goes its own way.
    let out = &mut BufWriter::new(std::io::stdout());
    match cli.command {
        None => {
            let (_, plan) = plan(cli.settings)?;
            log::start(plan.log);
            run::run(&plan)
        }
        Some(Command::Agent(flags)) => {
            let (layers, plan) = plan(flags.settings.over(cli.settings))?;
            log::start(plan.log);
            let has_door = !matches!(layers.value("listen").origin, config::Origin::Default);
            agent::run(&plan, has_door)
        }
        Some(Command::Hub(flags)) => {
            let (_, plan) = plan(flags.settings.over(cli.settings))?;
            log::start(plan.log);
            hub::run(&plan)
        }
        Some(Command::Catalog(flags)) => {
            let patterns = patterns(&flags.patterns)?;
            let (_, plan) = plan(flags.settings.over(cli.settings))?;
            let entries = ask::catalogue(&flags.place, &plan)?;
            catalog::print(&entries, &patterns, flags.json, terminal::width(), out)
        }
        Some(Command::Nodes(flags)) => nodes_of(flags, cli.settings, out),
        Some(Command::Get(flags)) => get(flags, cli.settings, out),
        Some(Command::Watch(flags)) => watch(flags, cli.settings, out),
        Some(Command::Check(flags)) => {
            let patterns = patterns(&flags.patterns)?;
            let (_, plan) = plan(flags.settings.over(cli.settings))?;
            check::print(&here::probe(&plan, &patterns)?, flags.json, terminal::width(), out)
        }
        Some(Command::Config(flags)) => {
            let (layers, plan) = plan(flags.settings.over(cli.settings))?;
            out.write_all(config::show::toml(&layers, &plan).as_bytes())?;
            Ok(Done::Wholly)
        }
        Some(Command::Certs(flags)) => certs::run(flags, terminal::width(), out),
        Some(Command::Ring(command)) => ring(command, cli.settings, out),
        Some(Command::Mount(flags)) => {
            let (_, plan) = plan(flags.settings.clone().over(cli.settings))?;
            log::start(plan.log);
            mount::run(&flags, &plan)
        }
        Some(Command::Umount(flags)) => mount::umount(&flags),
        Some(Command::Publish(flags)) => {
            let (_, plan) = plan(flags.settings.clone().over(cli.settings))?;
            publish::run(&flags, &plan)
        }
        Some(Command::Record(flags)) => {
            let flags = record::filled(*flags)?;
            let (_, plan) = plan(flags.settings.clone().over(cli.settings))?;
            record::record(&flags, &plan)
        }
        Some(Command::Export(flags)) => trace::export(&flags, out),
        Some(Command::Plot(flags)) => trace::plot(&flags, terminal::width(), out),
        Some(Command::Correlate(flags)) => trace::correlate(&flags, terminal::width(), out),
        Some(Command::Simulate(flags)) => simulate::run(&flags, out),
        Some(Command::Rrd(words)) => rrd::run(&[], &words),
        Some(Command::Rrdcached(words)) => rrd::run(&["rrdcached"], &words),
        Some(Command::Cache(words)) => rrd::run(&["cache"], &words),
        Some(Command::Man(flags)) => man::man(&flags, out),
        Some(Command::Completions(flags)) => man::completions(&flags, out),
    }
}

/// Reads and checks the configuration; nothing is started before this has succeeded.
fn plan(flags: NodeFlags) -> Result<(Layers, Plan), Failure> {
    let source_names = here::source_names();
    let layers = Layers::read(flags, &source_names).map_err(Failure::usage)?;
    for (name, near) in &layers.suspects {
        crate::table::remark!("no setting is called {name} (did you mean {near}?); it is left aside");
    }
    let host_name = here::host_name(layers.value("root").text.as_ref());
    let plan = Plan::check(&layers, &host_name, &source_names).map_err(Failure::usage)?;
    Ok((layers, plan))
}

/// The words of the command line. What is wrong with them is said without the secrets among them.
fn words() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let said = error.to_string();
        match hidden(&said) {
            std::borrow::Cow::Borrowed(_) => error.exit(),
            std::borrow::Cow::Owned(said) => {
                eprint!("{said}");
                std::process::exit(error.exit_code())
            }
        }
    })
}

fn patterns(texts: &[String]) -> Result<Vec<Pattern>, Failure> {
    texts.iter().map(|text| Pattern::new(text).map_err(Failure::usage)).collect()
}

fn nodes_of(flags: NodesFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    if let Some(NodesCommand::Forget(flags)) = flags.command {
        hosts(&flags.hosts)?;
        let (_, plan) = plan(flags.settings.over(outer))?;
        return forget::print(ask::forget(&flags.place, &plan, &flags.hosts)?, out);
    }
    let hosts = flags.hosts.as_deref().map(hosts).transpose()?;
    let (_, plan) = plan(flags.settings.over(outer))?;
    let found = ask::nodes(&flags.place, &plan, flags.hosts.as_deref())?;
    let misses = match &hosts {
        Some(hosts) if found.lacks(hosts) => ask::unknown_nodes(&flags.place, &plan, hosts)?,
        _ => Misses::default(),
    };
    let choice = nodes::Choice { as_json: flags.json, only_down: flags.down, only_missing: flags.missing };
    nodes::print(&found, &misses, choice, terminal::width(), out)
}

/// A hostlist, checked as part of a pattern: the error points at the place.
fn hosts(text: &str) -> Result<Hostlist, Failure> {
    let pattern = Pattern::new(&format!("{text}:*")).map_err(Failure::usage)?;
    pattern.nodes().cloned().ok_or_else(|| {
        Failure::usage(format!("there is no node in '{text}': write node7, node[1-8] or web*"))
    })
}

fn get(flags: GetFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let patterns = patterns(&flags.patterns)?;
    let (_, plan) = plan(flags.settings.over(outer))?;
    let age_max = flags.age.as_deref().map(str::parse).transpose().map_err(Failure::usage)?;
    let answer = ask::latest(&flags.place, &plan, &patterns, age_max)?;
    let format = if flags.json { Format::Json } else { flags.format };
    get::print(&answer, format, terminal::width(), out, &mut std::io::stderr())
}

fn ring(command: RingCommand, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = plan(outer)?;
    match command {
        RingCommand::Show(flags) => ring::show(&flags, &plan, terminal::width(), out),
        RingCommand::Export(flags) => ring::export(&flags, &plan, terminal::width(), out),
        RingCommand::Rm(flags) => ring::rm(&flags, &plan, out),
    }
}

fn watch(flags: WatchFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let interest = Interest {
        patterns: patterns(&flags.patterns)?,
        rate: flags.rate.parse().map_err(Failure::usage)?,
        exact: flags.exact,
    };
    let span: Option<Nanos> =
        flags.duration.as_deref().map(str::parse).transpose().map_err(Failure::usage)?;
    let (_, plan) = plan(flags.settings.over(outer))?;
    let until = span.and_then(|span| Instant::now().checked_add(span.into()));
    let watch = Watch { raw: flags.raw, count: flags.count, until };
    let stream = ask::rows(&flags.place, &plan, interest, watch.left())?;
    watch::onto(watch, flags.json, terminal::size(), out, stream)
}
