//! The command line: the list of all commands, each with its description. Flags and examples of a command are in its own
//! file in `command/`. Help, man pages and completions are made from this. `help.rs` says how lines of the help break, and
//! `mistakes.rs` which command somebody means who types that of another tool.

pub mod help;
pub mod mistakes;

use std::ffi::OsString;

use clap::{Args, FromArgMatches, Parser, Subcommand};

use crate::command::{
    actions, agent, alerts, blackbox, catalog, certs, channel, check, completions, config, correlate, demo,
    export, freeze, get, handler, health, hub, job, man, mount, nodes, notify, plot, publish, query, record,
    ring, rrd, rules, simulate, store, top, umount, wait, watch, why,
};
use crate::config::NodeFlags;

/// Kilohertz watches Linux nodes up to a thousand times a second, at a cost they do not feel.
///
/// Without a command, khz is a whole cluster of one node: it gathers this machine's kernel numbers, and shows
/// them live on a page at http://127.0.0.1:7070/ until Ctrl-C or SIGTERM ends it.
#[derive(Debug, Parser)]
#[command(name = "khz", version, after_help = EXAMPLES, after_long_help = EXAMPLES, max_term_width = 80)]
pub struct Cli {
    /// The command; without one khz watches this machine.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The settings.
    #[command(flatten)]
    pub settings: NodeFlags,
}

/// The command line of `khz health`, read without the other commands; `None`: it is another command, asks for help, or has a
/// mistake, which the whole command line names.
pub fn health(words: impl Iterator<Item = OsString>) -> Option<Cli> {
    let words: Vec<OsString> = words.skip(1).collect();
    if words.first()? != "health" {
        return None;
    }
    let command = health::HealthFlags::augment_args(clap::Command::new("health").disable_help_flag(true));
    let matches = command.try_get_matches_from(words).ok()?;
    let flags = health::HealthFlags::from_arg_matches(&matches).ok()?;
    Some(Cli { command: Some(Command::Health(flags)), settings: NodeFlags::none() })
}

const EXAMPLES: &str = "\
Examples:
  khz                               this machine, at http://127.0.0.1:7070/
  khz --listen 127.0.0.1:0          the same, at a free port
  khz --root /srv/captured-host     watch a captured host instead of this one
  khz --sources stat=1000Hz,meminfo=1000Hz
                                    gather exactly these two, 1,000 times a second
  khz get 'mem.*'                   print the memory numbers now
  khz watch cpu.all.user --rate 100
                                    follow one number, a hundred times a second

Exit codes: 0 done, 1 an error while it worked, 2 wrong usage, 3 partly done
(some nodes are missing).";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Gather on this node and report to a hub.
    ///
    /// The agent always sends one row a second of all numbers (its base lane). While the hub or the network is away, rows
    /// stay in shared memory, even if this process ends. When the hub is back, the agent sends them. While a reader
    /// wants a faster rate, the agent sends additional rows, up to --rate-max. It serves HTTP only with --listen, and the
    /// text protocol only with --text-listen.
    #[command(after_help = agent::EXAMPLES)]
    Agent(agent::AgentCommand),
    /// Show what a hub does when alerts fire: the actions of its configuration, and the log of their runs.
    #[command(subcommand)]
    Actions(actions::ActionsCommand),
    /// List the alerts of a hub: what fires, since when, and why.
    #[command(after_help = alerts::EXAMPLES)]
    Alerts(alerts::AlertsFlags),
    /// Show what was frozen: the rows around a moment, of all nodes that were asked, with the cause.
    ///
    /// `khz freeze`, rules (docs/actions.md) and failing programs (khz record --freeze-on-failure) freeze rows.
    #[command(subcommand)]
    Blackbox(blackbox::BlackBoxCommand),
    /// Freeze the rings of nodes: the rows around now, at full local rate, go into one recording at the hub.
    ///
    /// Each node keeps the rows of its local lane, and of faster lanes that are open, from before the moment on. The
    /// hub fetches them without haste. A node that is down now is asked when it comes back within a minute.
    #[command(after_help = freeze::EXAMPLES)]
    Freeze(freeze::FreezeFlags),
    /// Say whether this node is healthy, for Slurm's HealthCheckProgram.
    ///
    /// It reads the latest values in the shared memory of this node's agent, and asks no hub. A condition is SERIES < VALUE,
    /// as for `khz wait`. If the values are not known (for example because no agent runs), the exit code is 3, and the node
    /// does not count as healthy. --unknown can change this.
    #[command(after_help = health::EXAMPLES)]
    Health(health::HealthFlags),
    /// Collect from agents, and answer for all nodes.
    ///
    /// Agents connect to the link door (port 7071) and send one row a second. Readers, such as `khz nodes`, `khz get
    /// 'node[1-8]:mem.free'`, the page or Prometheus, ask at the HTTP door (port 7070), as they would ask a single node.
    /// There is also a text door (`nc localhost 2709`). While a reader wants a faster rate, the hub requests this rate from
    /// the nodes.
    #[command(after_help = hub::EXAMPLES)]
    Hub(hub::HubCommand),
    /// Jobs of a batch system: start and end them, list and show them, watch their nodes.
    #[command(subcommand)]
    Job(job::JobCommand),
    /// Say which node held a job up: which resource, since when, and how far from the others.
    ///
    /// It compares the nodes of the job over the job's time, out of the hub's store: processors, memory, disks, network, pressure
    /// and clock rates. A node counts as odd where it is far from its peers for several minutes. It is a comparison: if all nodes
    /// are slow in the same way, it finds nothing.
    #[command(after_help = why::EXAMPLES)]
    Why(why::WhyFlags),
    /// List the metrics: name, kind, type, unit, how often the kernel updates them, what they mean.
    ///
    /// It asks the khz that listens at the configured address. That khz also knows the metrics that jobs publish
    /// (job.NAME); a hub knows those of all its nodes. If no khz answers, the list has what this program itself can gather.
    /// The column TYPE is unsigned, signed, float (a double) or labels (words in place of a number). The column AS A RATE
    /// has the unit of a counter's rate.
    #[command(after_help = catalog::EXAMPLES)]
    Catalog(catalog::CatalogFlags),
    /// List the nodes: up or down, when the hub last heard them, how many rows came and how many are missing.
    #[command(after_help = nodes::EXAMPLES)]
    Nodes(nodes::NodesFlags),
    /// Print the latest readings.
    ///
    /// It asks the khz that listens at the configured address. If no khz answers, it reads this machine's kernel
    /// itself. A value may be absent ("there is nothing to read") or failed ("reading went wrong"). The output shows
    /// which of the two, and never shows 0 in their place.
    #[command(after_help = get::EXAMPLES)]
    Get(get::GetFlags),
    /// Follow readings as they come.
    ///
    /// Counters appear as rates per second. CPU times are in CPUs: 1.53 is the work of one and a half processors.
    /// Other times (disk, pressure) are in percent of the time that passed. --raw shows the totals. On a terminal, a table
    /// is redrawn in place; otherwise every row is one line.
    ///
    /// When a node goes away or comes back, stderr has one sentence about it. The same is true when the khz that is asked
    /// falls silent or is back. With --json there is also a line with "event" in place of "values".
    #[command(after_help = watch::EXAMPLES)]
    Watch(watch::WatchFlags),
    /// Fill the terminal with a node or a cluster: charts, processes, who is odd; now, and step by step in the past.
    ///
    /// Without arguments it shows this node, or the nodes of the hub that runs here. If no khz runs, it reads this machine's
    /// kernel itself. It asks only for what it shows. With --once it prints one picture as text, and ends.
    #[command(after_help = top::help())]
    Top(top::TopFlags),
    /// Sleep until a condition is true, and print the row that made it true.
    ///
    /// The nodes judge the condition, row by row. They send nothing before it is true. The command asks the khz that
    /// listens at the configured address, as `khz watch` does. If no khz answers, this process reads the kernel itself.
    #[command(after_help = wait::EXAMPLES)]
    Wait(wait::WaitFlags),
    /// Channels: named subscriptions with conditions. Define, list, show, remove and follow them.
    #[command(subcommand)]
    Channel(channel::ChannelCommand),
    /// Tell people about alerts: try the ways of the configuration.
    #[command(subcommand)]
    Notify(notify::NotifyCommand),
    /// Rules of Prometheus: check rule files, run their tests, show where each rule is judged.
    #[command(subcommand)]
    Rules(rules::RulesCommand),
    /// Show which sources work on this host, what they contain and cost, and which rate is possible.
    ///
    /// The command gathers each source several times in a row; the shown time is the median. (At low rates on an idle
    /// machine a gather costs more, because caches are cold and the processor sleeps deeper.) Then it gathers all sources
    /// together for half a second, to find the highest rate that stays below the CPU ceiling (cpu_max).
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckFlags),
    /// Print the effective configuration, and where each value came from.
    #[command(after_help = config::EXAMPLES)]
    Config(config::ConfigFlags),
    /// Make certificates and tokens for hubs, nodes and readers, and say what to copy where.
    #[command(after_help = certs::flags::EXAMPLES)]
    Certs(certs::flags::CertsFlags),
    /// Show, export or remove rings: the latest rows of this machine's agents, also of agents that have ended.
    #[command(subcommand)]
    Ring(ring::RingCommand),
    /// Show the cluster as a file tree: every node's values as files.
    ///
    /// Any program can read any node's numbers like a local file, and set how often it wants them. Without --hub the tree
    /// has the nodes of the khz on this machine: a hub, or `khz` alone. When the tree is mounted, the command goes to the
    /// background.
    #[command(after_help = mount::EXAMPLES)]
    Mount(mount::MountFlags),
    /// Unmount the file tree.
    #[command(after_help = umount::EXAMPLES)]
    Umount(umount::UmountFlags),
    /// Add numbers of a job to those of this node.
    ///
    /// These numbers travel like the kernel's numbers, and every door shows them as job.NAME. If a number is not sent again
    /// within 30 s, it becomes absent. Programs can also send the same lines to the socket themselves (docs/publish.md).
    #[command(after_help = publish::EXAMPLES)]
    Publish(publish::PublishFlags),
    /// Record rows into a file: while they come, afterwards from the rings, or while a program runs.
    ///
    /// The file describes itself. You can read it while khz writes it. After a crash it is valid up to its last complete
    /// block. Nodes sample at the wanted rate as long as the recording lasts.
    #[command(after_help = record::flags::EXAMPLES)]
    Record(Box<record::flags::RecordFlags>),
    /// Print the rows of a recording, with exact decimals, as CSV, JSON or Parquet.
    #[command(after_help = export::EXAMPLES)]
    Export(Box<export::ExportFlags>),
    /// Draw a recording or .rrd files as SVG, PNG, HTML or characters: one panel for each node or file, on one time axis.
    #[command(after_help = plot::EXAMPLES)]
    Plot(Box<plot::PlotFlags>),
    /// Find the series of a recording that move together with one of them, and how much later or earlier.
    #[command(after_help = correlate::EXAMPLES)]
    Correlate(correlate::CorrelateFlags),
    /// Programs that nodes execute on each row (WebAssembly): check one, try it on a recording.
    #[command(subcommand)]
    Handler(handler::HandlerCommand),
    /// Ask a khz, any engine with Prometheus' interface, or the files of a store a question in PromQL.
    ///
    /// The answer is a table; with --range it is a plot of characters. Series have the names and labels that Prometheus
    /// sees (`khz catalog --json` lists them). khz's own names work in quotes: '{"net.rx_bytes"}'.
    #[command(after_help = query::EXAMPLES)]
    Query(query::QueryFlags),
    /// Show a made-up cluster with faults, and a tour of it, so that you see what khz does.
    ///
    /// One process has a hub, 200 simulated nodes, and a script of faults. It needs no file and no rights, reads no
    /// configuration, and leaves nothing when it ends.
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::DemoFlags),
    /// Simulate many nodes, to test a hub.
    ///
    /// One process simulates all nodes. Each node has its own connection.
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::SimulateFlags),
    /// Show or check a store: what a hub has written to disk.
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Work on .rrd files: rrdtool's commands in rrdtool's own syntax.
    ///
    /// rrdtool's commands are create update updatev fetch info dump restore last lastupdate first tune resize xport list
    /// flushcached graph graphv, and the pipe mode `-`. khz adds doctor DIR, plan, simulate, and import FOREIGN FILE.
    /// Without arguments, the command lists all of them.
    /// If this program is started under the name rrdtool, it behaves as rrdtool.
    #[command(after_help = rrd::RRD_EXAMPLES)]
    Rrd(rrd::Words),
    /// Cache updates of .rrd files, with rrdcached's protocol; acknowledged updates survive kill -9.
    ///
    /// Options are those of rrdcached; `khz rrdcached --help` lists them and a few more. Without -g the daemon goes to the
    /// background. If this program is started under the name rrdcached, it behaves as rrdcached.
    #[command(after_help = rrd::RRDCACHED_EXAMPLES)]
    Rrdcached(rrd::Words),
    /// Show or drop the pages of files that are in the kernel's page cache.
    #[command(after_help = rrd::CACHE_EXAMPLES)]
    Cache(rrd::Words),
    /// Write the man pages into a directory.
    #[command(after_help = man::EXAMPLES)]
    Man(man::ManFlags),
    /// Print the completions for a shell.
    #[command(after_help = completions::EXAMPLES)]
    Completions(completions::CompletionsFlags),
    /// Say how a typed word can go on; for the scripts of `khz completions`.
    #[command(hide = true)]
    Complete(completions::engine::CompleteFlags),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn health_is_read_the_same_without_the_other_commands() {
        for words in [
            &["khz", "health"][..],
            &["khz", "health", "mem.available > 1GiB", "--age", "5s", "--json", "--config", "/k.toml"],
            &["khz", "health", "--unknown", "healthy", "--on-unhealthy", "out"],
        ] {
            let short = health(words.iter().map(OsString::from)).unwrap();
            let whole = Cli::try_parse_from(words).unwrap();
            assert_eq!(format!("{short:?}"), format!("{whole:?}"));
        }
        for words in
            [&["khz"][..], &["khz", "get"], &["khz", "health", "--help"], &["khz", "health", "--nonsense"]]
        {
            assert!(health(words.iter().map(OsString::from)).is_none(), "{words:?}");
        }
    }

    #[test]
    fn the_table_of_commands_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_man_page_holds_examples_and_settings() {
        let mut page = Vec::new();
        man::run(&man::ManFlags { directory: None }, Cli::command(), &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("khz get") && page.contains("rate\\-max"), "{page}");
    }
}
