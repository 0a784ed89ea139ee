//! `khz channel`: defines, lists, shows, removes and follows channels of a running khz. `definition.rs` has the flags of a
//! definition.

mod definition;
mod exec;
mod list;
mod others;
mod watch;
mod whom;

use std::io::Write;

use clap::{Args, Subcommand};
use khz_ask::AskError;
use khz_model::hostlist::Hostlist;

use self::definition::DefinitionFlags;
pub use self::list::hash_of;
use self::list::{ListFlags, ShowFlags};
use self::watch::ChannelWatchFlags;
pub use self::whom::Whom;
use crate::command::unknown_metrics;
use crate::config::NodeFlags;
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::table::{printable, remark};

/// `khz channel`.
#[derive(Debug, Subcommand)]
pub enum ChannelCommand {
    /// Define a channel, at a hub or at a `khz` that runs alone.
    ///
    /// A channel is a subscription with a name. Its rows have series as they are, or what an expression gives; the nodes
    /// decide which rows are sent. A hub keeps its channels over restarts. It is refused if there is another channel of
    /// this name.
    #[command(after_help = definition::CREATE_EXAMPLES)]
    Create(DefineFlags),
    /// Replace the definition of a channel; those who follow it go on with the new one.
    #[command(after_help = definition::SET_EXAMPLES)]
    Set(DefineFlags),
    /// List the channels.
    #[command(after_help = list::EXAMPLES)]
    List(ListFlags),
    /// Show the definition of a channel, what was sent of it, and which nodes refuse it.
    #[command(after_help = list::SHOW_EXAMPLES)]
    Show(ShowFlags),
    /// Remove channels; their streams end, and say why.
    #[command(after_help = REMOVE_EXAMPLES)]
    Rm(RemoveFlags),
    /// Follow the rows of a channel, or run a program for each of them.
    #[command(after_help = watch::EXAMPLES)]
    Watch(ChannelWatchFlags),
}

/// Flags of `khz channel create` and `khz channel set`.
#[derive(Debug, Args)]
pub struct DefineFlags {
    /// What the channel is.
    #[command(flatten)]
    pub definition: DefinitionFlags,
    /// Whom to ask.
    #[command(flatten)]
    pub whom: Whom,
}

/// Examples for `khz channel rm --help`.
const REMOVE_EXAMPLES: &str = "\
Examples:
  khz channel rm crash              removes a channel
  khz channel rm memory net";

/// Flags of `khz channel rm`.
#[derive(Debug, Args)]
pub struct RemoveFlags {
    /// Which channels.
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Whom to ask.
    #[command(flatten)]
    pub whom: Whom,
}

/// Runs one of them.
pub fn run(command: ChannelCommand, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    match command {
        ChannelCommand::Create(flags) => define(flags, outer, true, out),
        ChannelCommand::Set(flags) => define(flags, outer, false, out),
        ChannelCommand::List(flags) => list::list(flags, outer, out),
        ChannelCommand::Show(flags) => list::show(flags, outer, out),
        ChannelCommand::Rm(flags) => remove(flags, outer, out),
        ChannelCommand::Watch(flags) => watch::run(flags, outer, out),
    }
}

fn define(flags: DefineFlags, outer: NodeFlags, is_new: bool, out: &mut impl Write) -> Outcome {
    let definition = flags.definition.checked()?;
    let (_, plan) = super::plan(flags.whom.settings.over(outer))?;
    let server = flags.whom.target.running(&plan)?;
    // Who misspells a name of one that is to be changed does not want another channel.
    let defined = server.define_channel(&definition.name, &definition.to_json(), is_new);
    let channel = defined.map_err(|error| match error {
        AskError::NoSuchChannel(text) => {
            Failure::work(format!("{text}; `khz channel create` makes a new one"))
        }
        error => error.into(),
    })?;
    let unknown = unknown_metrics::sentences(&definition, server.catalogue().unwrap_or_default());
    let hosts = definition.nodes.as_deref().and_then(|hosts| Hostlist::new(hosts).ok());
    let nobody =
        hosts.and_then(|hosts| flags.whom.target.unknown_nodes(&plan, &hosts).ok()).unwrap_or_default();
    let nobody = nobody
        .sentences()
        .into_iter()
        .map(|sentence| format!("{sentence} so far; it is asked when it comes"));
    for sentence in definition.remarks().into_iter().chain(nobody).chain(unknown) {
        remark!("{sentence}");
    }
    writeln!(out, "channel {} is defined; `khz channel watch {0}` follows it", printable(&channel.name))?;
    out.flush()?;
    Ok(Done::Wholly)
}

fn remove(flags: RemoveFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = super::plan(flags.whom.settings.over(outer))?;
    let server = flags.whom.target.running(&plan)?;
    let mut failed = None;
    for name in &flags.names {
        match server.remove_channel(name) {
            Ok(()) => {
                writeln!(out, "removed: {}", printable(name))?;
                out.flush()?;
            }
            // Of one channel, the end says it.
            Err(error) if flags.names.len() == 1 => return Err(error.into()),
            Err(error) => {
                remark!("{error}");
                failed = Some(Failure::Reported);
            }
        }
    }
    failed.map_or(Ok(Done::Wholly), Err)
}
