//! The command line: the list of all commands, each with its description. Flags and examples of a command are in its own
//! file in `command/`. Help, man pages and completions are made from this.

use std::ffi::OsString;

use clap::{Args, FromArgMatches, Parser, Subcommand};

use crate::command::{
    actions, agent, alerts, catalog, certs, channel, check, completions, config, correlate, demo, export,
    get, health, hub, man, mount, nodes, notify, plot, publish, query, record, ring, rrd, rules, simulate,
    store, umount, wait, watch,
};
use crate::config::NodeFlags;

/// Kilohertz watches Linux nodes up to a thousand times a second, at a cost they do not feel.
///
/// Started with no command it is a whole cluster of one: it gathers this machine's kernel numbers and shows
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

Exit codes: 0 done, 1 failed at work, 2 wrong usage, 3 partly (some nodes are
missing).";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Gather on this node and report to a hub.
    ///
    /// The base lane (1 Hz) is always sent. While the hub or the network is away, rows stay in a ring in shared memory,
    /// which survives this process; the agent sends them when the hub is back. Faster lanes are opened while a reader
    /// of the hub wants them, up to --rate-max. There is no HTTP door here unless --listen is given, and no
    /// text door unless --text-listen is.
    #[command(after_help = agent::EXAMPLES)]
    Agent(agent::AgentCommand),
    /// What a hub does when alerts fire: the actions of its configuration, and the log of what they did.
    #[command(subcommand)]
    Actions(actions::ActionsCommand),
    /// List the alerts of a hub: what fires, since when, and why.
    #[command(after_help = alerts::EXAMPLES)]
    Alerts(alerts::AlertsFlags),
    /// Say whether this node is healthy, out of its agent's shared memory: for Slurm's HealthCheckProgram.
    ///
    /// Asks no khz and no hub. A condition is SERIES < VALUE, as for `khz wait`, of the latest values. Where nothing is known,
    /// such as without an agent, the node is not healthy: the exit code is 3, or what --unknown says.
    #[command(after_help = health::EXAMPLES)]
    Health(health::HealthFlags),
    /// Collect from agents, and answer for all nodes.
    ///
    /// Agents connect to the link door (port 7071) and send their base lane. Readers ask at the HTTP door (port 7070), as
    /// they would ask a single node, or at the text door (`nc localhost 2709`): `khz nodes`, `khz get
    /// 'node[1-8]:mem.free'`, the page, Prometheus. Where a reader wants a faster rate than that of the base lane, the hub
    /// asks the nodes for it as long as the reader stays.
    #[command(after_help = hub::EXAMPLES)]
    Hub(hub::HubCommand),
    /// List the metrics: name, kind, type, unit, how often the kernel updates them, what they mean.
    ///
    /// Asks the khz that listens at the configured address. It also knows the metrics that jobs publish (job.NAME); a hub
    /// knows those of all its nodes. When none answers, lists what this program can gather. TYPE: decimals are unsigned
    /// or signed; a float is a double; labels are words instead of a number. The column AS A RATE has the
    /// unit of a counter's rate.
    #[command(after_help = catalog::EXAMPLES)]
    Catalog(catalog::CatalogFlags),
    /// List the nodes: up or down, when they were last heard, what came and what is missing.
    #[command(after_help = nodes::EXAMPLES)]
    Nodes(nodes::NodesFlags),
    /// Print the latest readings.
    ///
    /// Asks the khz that listens at the configured address; when none answers, reads this machine's kernel
    /// itself. Absent ("there is nothing to read") and failed ("reading went wrong") are shown apart, never
    /// as 0.
    #[command(after_help = get::EXAMPLES)]
    Get(get::GetFlags),
    /// Follow readings as they come.
    ///
    /// Counters are shown as rates per second. CPU times are in CPUs: 1.53 is the work of one and a half processors.
    /// A percent is a share of the time that passed (disk, pressure). --raw shows the totals. On a terminal a table is
    /// redrawn in place; otherwise every row is one line.
    ///
    /// When a node goes away or comes back, or the khz that is asked falls silent or is back, a sentence on stderr says so
    /// once. With --json, a line with "event" in place of "values" says it too.
    #[command(after_help = watch::EXAMPLES)]
    Watch(watch::WatchFlags),
    /// Sleep until a condition is true, and print the row that made it true.
    ///
    /// The nodes judge the condition, row by row; nothing is sent before it is true. Asks the khz that listens at the
    /// configured address, as `khz watch` does; when none answers, this process reads the kernel itself.
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
    /// Show which sources work on this host, what they hold and cost, and which rate fits.
    ///
    /// Each source is gathered several times in a row; the time is the median. At low rates on an idle machine
    /// a gather costs more than that: caches are cold and the processor sleeps deeper. Then all sources are gathered
    /// together for half a second, to find the highest rate that stays below the CPU ceiling (cpu_max).
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckFlags),
    /// Print the effective configuration, and where each value came from.
    #[command(after_help = config::EXAMPLES)]
    Config(config::ConfigFlags),
    /// Make certificates and tokens for hubs, nodes and readers, and say what to copy where.
    #[command(after_help = certs::flags::EXAMPLES)]
    Certs(certs::flags::CertsFlags),
    /// Show, export or remove rings: what the agents of this machine have recorded, while they run and after their end.
    #[command(subcommand)]
    Ring(ring::RingCommand),
    /// Show the cluster as a file tree: every node's values as files.
    ///
    /// Any program can read any node's numbers like a local file, and set how often it wants them. Without --hub the tree
    /// has the nodes of the khz on this machine: a hub, or `khz` alone. The command goes to the background when the tree
    /// is mounted.
    #[command(after_help = mount::EXAMPLES)]
    Mount(mount::MountFlags),
    /// Unmount the file tree.
    #[command(after_help = umount::EXAMPLES)]
    Umount(umount::UmountFlags),
    /// Add numbers of a job to those of this node.
    ///
    /// They travel like the kernel's numbers, and every door shows them as job.NAME. A number that is not sent again
    /// within 30 s becomes absent. Programs can send the same lines to the socket themselves (docs/publish.md).
    #[command(after_help = publish::EXAMPLES)]
    Publish(publish::PublishFlags),
    /// Record rows into a file: while they come, afterwards from the rings, or while a program runs.
    ///
    /// The file describes itself. It can be read while it is written, and after a crash it is valid to its last whole
    /// block. Nodes sample at the asked rate as long as the recording lasts.
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
    /// Ask a question in PromQL: of a khz, of any engine with Prometheus' interface, or of the files of a store.
    ///
    /// The answer is a table; with --range a plot here, with characters. Series have the names and labels that Prometheus
    /// sees (`khz catalog --json` lists them), and our own names in quotes: '{"net.rx_bytes"}'.
    #[command(after_help = query::EXAMPLES)]
    Query(query::QueryFlags),
    /// Show a made-up cluster with faults, and a tour of it: to see what khz is, without a cluster.
    ///
    /// One process: a hub, 200 simulated nodes, and a script of faults. It needs no file and no rights, reads no
    /// configuration, and leaves nothing when it ends.
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::DemoFlags),
    /// Simulate many nodes, to test a hub.
    ///
    /// One process plays all of them. Each has its own connection.
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::SimulateFlags),
    /// Show or check a store: what a hub has written to disk.
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Work on .rrd files: rrdtool's commands in rrdtool's own syntax.
    ///
    /// create update updatev fetch info dump restore last lastupdate first tune resize xport list flushcached,
    /// the pipe mode `-`, and beyond rrdtool: doctor DIR, plan, simulate, import FOREIGN FILE. Without arguments it
    /// lists them.
    /// Started under the name rrdtool, this program is rrdtool.
    #[command(after_help = rrd::RRD_EXAMPLES)]
    Rrd(rrd::Words),
    /// Cache updates of .rrd files, with rrdcached's protocol; acknowledged updates survive kill -9.
    ///
    /// Options are rrdcached's; `khz rrdcached --help` lists them and a few more. Without -g it goes to the
    /// background. Started under the name rrdcached, this program is rrdcached.
    #[command(after_help = rrd::RRDCACHED_EXAMPLES)]
    Rrdcached(rrd::Words),
    /// Show or drop what the kernel's page cache holds of files.
    #[command(after_help = rrd::CACHE_EXAMPLES)]
    Cache(rrd::Words),
    /// Write the man pages into a directory.
    #[command(after_help = man::EXAMPLES)]
    Man(man::ManFlags),
    /// Print the completions for a shell.
    #[command(after_help = completions::EXAMPLES)]
    Completions(completions::CompletionsFlags),
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
