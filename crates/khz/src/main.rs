//! `khz`: the whole program at a glance. The command line becomes flags, the flags become a checked plan, and the plan
//! becomes work.
//!
//! ```text
//! main.rs       starts one command, and makes an exit code of its end
//! cli.rs        the list of commands
//! cli/          how their help is printed; which command somebody means
//! command/      the commands, a file or folder each: flags, examples, what it does
//!   target.rs     whom a reading command asks: a running khz, or this node
//!   recording.rs  opens a recording, for export, plot and correlate
//! role/         what runs until somebody stops it
//!   alone/        `khz` without a command: gathers and serves
//!   agent/        gathers and reports to a hub
//!   hub/          collects from agents and serves for all of them
//!   gatherer.rs   starts gathering in this process
//!   doors.rs      opens the HTTP and the text door
//! config/       settings, the file, flags, and the checked plan
//! show/         what people see: tables, numbers, the terminal, the log, exit codes
//! reference/    tests: the pages in docs/ that are made from the code
//! ```
//!
//! Requests to a running khz are the crate `khz_ask`.
//!
//! Imports go in one direction. A test of xtask holds them to this table:
//!
//! | module | imports |
//! |---|---|
//! | `command` | `role`, `config`, `show`, `khz_ask` |
//! | `role` | `config`, `show`, `khz_ask` |
//! | `config` | nothing of this program |
//! | `show` | nothing of this program |

#![forbid(unsafe_code)]

mod cli;
mod command;
mod config;
#[cfg(test)]
mod reference;
mod role;
mod show;

use std::borrow::Cow;
use std::io::{BufWriter, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use khz_model::printable::printable_lines;

use crate::cli::{Cli, Command};
use crate::command::{
    actions, agent, alerts, alone, blackbox, catalog, certs, channel, check, completions, correlate, demo,
    export, freeze, get, handler, health, hub, job, man, mount, nodes, notify, plot, publish, query, record,
    ring, rrd, rules, simulate, top, umount, wait, watch, why,
};
use crate::config::secrets::hidden;
use crate::role::{apart, gatherer};
use crate::show::look::{Look, When};
use crate::show::outcome::{self, Outcome};
use crate::show::table::{on_stderr, remark, say};

fn main() -> ExitCode {
    khz_door::heap::settle();
    if let Err(error) = khz_ring::survive_truncation() {
        say(&outcome::sentence(&error));
    }
    if let Some(code) = executes_programs() {
        return code;
    }
    if let Some(code) = rrd::under_another_name() {
        return code;
    }
    let (code, sentence) = outcome::exit(dispatch(words()));
    if let Some(sentence) = sentence {
        remark!("{}", hidden(&sentence));
    }
    apart::end(code);
    ExitCode::from(code)
}

/// The process that executes the programs of an agent, which has started it with its socket as standard input.
fn executes_programs() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let is_it = words.next()? == gatherer::CHILD && words.next().is_none();
    let socket = std::io::stdin().as_fd().try_clone_to_owned();
    is_it.then(|| socket.map_or(ExitCode::FAILURE, khz_sandbox::child::run))
}

/// Runs the command that was typed.
fn dispatch(cli: Cli) -> Outcome {
    // Not locked: `khz rrd` prints past it.
    let out = &mut BufWriter::new(std::io::stdout());
    let outer = cli.settings;
    let Some(command) = cli.command else { return alone::run(outer) };
    match command {
        Command::Agent(flags) => agent::run(flags, outer),
        Command::Hub(flags) => hub::run(flags, outer),
        Command::Actions(command) => actions::run(command, outer, out),
        Command::Alerts(flags) => alerts::run(flags, outer, out),
        Command::Job(command) => job::run(command, outer, out),
        Command::Why(flags) => why::run(flags, outer, out),
        Command::Blackbox(command) => blackbox::run(command, outer, out),
        Command::Freeze(flags) => freeze::run(flags, outer, out),
        Command::Catalog(flags) => catalog::run(flags, outer, out),
        Command::Nodes(flags) => nodes::run(flags, outer, out),
        Command::Health(flags) => health::run(flags, outer, out),
        Command::Get(flags) => get::run(flags, outer, out),
        Command::Query(flags) => query::run(flags, outer, out),
        Command::Watch(flags) => watch::run(flags, outer, out),
        Command::Top(flags) => top::run(flags, outer, out),
        Command::Wait(flags) => wait::run(flags, outer, out),
        Command::Channel(command) => channel::run(command, outer, out),
        Command::Notify(command) => notify::run(command, outer, out),
        Command::Rules(command) => rules::run(command, outer, out),
        Command::Check(flags) => check::run(flags, outer, out),
        Command::Config(flags) => command::config::run(flags, outer, out),
        Command::Certs(flags) => certs::run(flags, out),
        Command::Ring(command) => ring::run(command, outer, out),
        Command::Mount(flags) => mount::run(flags, outer),
        Command::Umount(flags) => umount::run(&flags),
        Command::Publish(flags) => publish::run(flags, outer),
        Command::Record(flags) => record::run(*flags, outer),
        Command::Export(flags) => export::run(*flags, outer, out),
        Command::Plot(flags) => plot::run(*flags, outer, out),
        Command::Correlate(flags) => correlate::run(&flags, out),
        Command::Handler(command) => handler::run(command, outer, out),
        Command::Demo(flags) => demo::run(&flags),
        Command::Simulate(flags) => simulate::run(&flags, out),
        Command::Store(command) => command::store::run(command, outer, out),
        Command::Rrd(words) => rrd::run(&[], &words),
        Command::Rrdcached(words) => rrd::run(&["rrdcached"], &words),
        Command::Cache(words) => rrd::run(&["cache"], &words),
        Command::Man(flags) => man::run(&flags, Cli::command(), out),
        Command::Completions(flags) => completions::run(&flags, Cli::command(), out),
        Command::Complete(flags) => completions::engine::run(&flags, Cli::command(), out),
    }
}

/// The words of the command line. What is wrong with them is printed without the secrets among them.
fn words() -> Cli {
    // Slurm runs it on each node again and again: the list of all commands would take longer than the command.
    if let Some(cli) = cli::health(std::env::args_os()) {
        return cli;
    }
    Cli::try_parse().unwrap_or_else(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => help(error),
        _ => refuse(&error),
    })
}

/// Prints the help that was asked for.
fn help(error: clap::Error) -> ! {
    let asked = cli::help::held(Cli::command()).try_get_matches();
    let error = asked.err().unwrap_or(error);
    let look = Look::of_stdout(When::Auto);
    let text = match look.has_color {
        true => error.render().ansi().to_string(),
        false => error.to_string(),
    };
    let text = cli::help::released(&text);
    // A reader that has seen enough is no failure.
    let _ = match error.use_stderr() {
        true => std::io::stderr().write_all(text.as_bytes()),
        false => std::io::stdout().write_all(text.as_bytes()),
    };
    std::process::exit(error.exit_code())
}

/// Says what is wrong with the command line, without the secrets in it.
fn refuse(error: &clap::Error) -> ! {
    let text = cli::mistakes::hint(error).unwrap_or_else(|| error.to_string());
    match hidden(&text) {
        Cow::Borrowed(same) if same == error.to_string() => error.exit(),
        text => {
            on_stderr(&printable_lines(&text));
            std::process::exit(error.exit_code())
        }
    }
}
