//! `khz`: the whole program at a glance. Flags become a checked plan, the plan becomes work; the work is in
//! one file per command.

#![forbid(unsafe_code)]

mod cli;
mod command;
mod config;
#[cfg(test)]
mod reference;
mod role;
mod show;

use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use khz_model::hostlist::Hostlist;
use khz_model::{Interest, Misses, Nanos, Pattern};

use crate::cli::{Cli, Command, Format, GetFlags, NodesCommand, NodesFlags, RingCommand, WatchFlags};
use crate::command::watch::Watch;
use crate::config::secrets::hidden;
use crate::config::{Layers, NodeFlags, Plan};
use crate::show::outcome::{Done, Failure, Outcome};

fn main() -> ExitCode {
    khz_door::heap::settle();
    if let Err(error) = khz_ring::survive_truncation() {
        show::table::say(&show::outcome::sentence(&error));
    }
    if let Some(code) = command::rrd::under_another_name() {
        return code;
    }
    let (code, sentence) = show::outcome::exit(dispatch(words()));
    if let Some(sentence) = sentence {
        crate::show::table::remark!("{}", hidden(&sentence));
    }
    code
}

fn dispatch(cli: Cli) -> Outcome {
    // Not locked: what `khz rrd` prints goes its own way.
    let out = &mut BufWriter::new(std::io::stdout());
    match cli.command {
        None => {
            let (_, plan) = plan(cli.settings)?;
            show::log::start(plan.log);
            role::alone::run(&plan)
        }
        Some(Command::Agent(flags)) => {
            let (layers, plan) = plan(flags.settings.over(cli.settings))?;
            show::log::start(plan.log);
            let has_door = !matches!(layers.value("listen").origin, config::Origin::Default);
            role::agent::run(&plan, has_door)
        }
        Some(Command::Hub(flags)) => {
            let (_, plan) = plan(flags.settings.over(cli.settings))?;
            show::log::start(plan.log);
            role::hub::run(&plan)
        }
        Some(Command::Catalog(flags)) => {
            let patterns = patterns(&flags.patterns)?;
            let (_, plan) = plan(flags.settings.over(cli.settings))?;
            let entries = flags.target.catalogue(&plan)?;
            command::catalog::print(&entries, &patterns, flags.json, show::terminal::width(), out)
        }
        Some(Command::Nodes(flags)) => nodes_of(flags, cli.settings, out),
        Some(Command::Get(flags)) => get(flags, cli.settings, out),
        Some(Command::Watch(flags)) => watch(flags, cli.settings, out),
        Some(Command::Check(flags)) => {
            let patterns = patterns(&flags.patterns)?;
            let (_, plan) = plan(flags.settings.over(cli.settings))?;
            command::check::print(
                &command::check::probe(&plan, &patterns)?,
                flags.json,
                show::terminal::width(),
                out,
            )
        }
        Some(Command::Config(flags)) => {
            let (layers, plan) = plan(flags.settings.over(cli.settings))?;
            out.write_all(command::config::toml(&layers, &plan).as_bytes())?;
            Ok(Done::Wholly)
        }
        Some(Command::Certs(flags)) => command::certs::run(flags, show::terminal::width(), out),
        Some(Command::Ring(command)) => ring(command, cli.settings, out),
        Some(Command::Mount(flags)) => {
            let (_, plan) = plan(flags.settings.clone().over(cli.settings))?;
            show::log::start(plan.log);
            command::mount::run(&flags, &plan)
        }
        Some(Command::Umount(flags)) => command::mount::umount(&flags),
        Some(Command::Publish(flags)) => {
            let (_, plan) = plan(flags.settings.clone().over(cli.settings))?;
            command::publish::run(&flags, &plan)
        }
        Some(Command::Record(flags)) => {
            let flags = command::record::filled(*flags)?;
            let (_, plan) = plan(flags.settings.clone().over(cli.settings))?;
            command::record::record(&flags, &plan)
        }
        Some(Command::Export(flags)) => command::export::export(&flags, out),
        Some(Command::Plot(flags)) => command::plot::plot(&flags, show::terminal::width(), out),
        Some(Command::Correlate(flags)) => {
            command::correlate::correlate(&flags, show::terminal::width(), out)
        }
        Some(Command::Simulate(flags)) => command::simulate::run(&flags, out),
        Some(Command::Rrd(words)) => command::rrd::run(&[], &words),
        Some(Command::Rrdcached(words)) => command::rrd::run(&["rrdcached"], &words),
        Some(Command::Cache(words)) => command::rrd::run(&["cache"], &words),
        Some(Command::Man(flags)) => command::man::man(&flags, out),
        Some(Command::Completions(flags)) => command::man::completions(&flags, out),
    }
}

/// Reads and checks the configuration; nothing is started before this has succeeded.
fn plan(flags: NodeFlags) -> Result<(Layers, Plan), Failure> {
    let source_names = role::gatherer::source_names();
    let layers = Layers::read(flags, &source_names).map_err(Failure::usage)?;
    for (name, near) in &layers.suspects {
        crate::show::table::remark!("no setting is called {name} (did you mean {near}?); it is left aside");
    }
    let host_name = role::gatherer::host_name(layers.value("root").text.as_ref());
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
        return command::nodes::forget::print(flags.target.forget(&plan, &flags.hosts)?, out);
    }
    let hosts = flags.hosts.as_deref().map(hosts).transpose()?;
    let (_, plan) = plan(flags.settings.over(outer))?;
    let found = flags.target.nodes(&plan, flags.hosts.as_deref())?;
    let misses = match &hosts {
        Some(hosts) if found.lacks(hosts) => flags.target.unknown_nodes(&plan, hosts)?,
        _ => Misses::default(),
    };
    let choice =
        command::nodes::Choice { as_json: flags.json, only_down: flags.down, only_missing: flags.missing };
    command::nodes::print(&found, &misses, choice, show::terminal::width(), out)
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
    let answer = flags.target.latest(&plan, &patterns, age_max)?;
    let format = if flags.json { Format::Json } else { flags.format };
    command::get::print(&answer, format, show::terminal::width(), out, &mut std::io::stderr())
}

fn ring(command: RingCommand, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = plan(outer)?;
    match command {
        RingCommand::Show(flags) => command::ring::show(&flags, &plan, show::terminal::width(), out),
        RingCommand::Export(flags) => command::ring::export(&flags, &plan, show::terminal::width(), out),
        RingCommand::Rm(flags) => command::ring::rm(&flags, &plan, out),
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
    let stream = flags.target.rows(&plan, interest, watch.left())?;
    command::watch::onto(watch, flags.json, show::terminal::size(), out, stream)
}
