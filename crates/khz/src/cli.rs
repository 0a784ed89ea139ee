//! The command line: the list of all commands, each with its description. Flags and examples of a command are in its own
//! file in `command/`. Help, man pages and completions are made from this.

use clap::{Parser, Subcommand};

use crate::command::{
    agent, catalog, certs, check, completions, config, correlate, export, get, hub, man, mount, nodes, plot,
    publish, record, ring, rrd, simulate, umount, watch,
};
use crate::config::NodeFlags;

/// Kilohertz watches Linux nodes up to a thousand times a second, at a cost they do not feel.
///
/// Started with no command it is a whole cluster of one: it gathers this machine's kernel numbers and shows
/// them live on a page at http://127.0.0.1:7070/ until Ctrl-C or SIGTERM ends it.
#[derive(Debug, Parser)]
#[command(name = "khz", version, after_help = EXAMPLES, after_long_help = EXAMPLES, max_term_width = 80)]
pub struct Cli {
    /// What to do instead of watching.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The settings.
    #[command(flatten)]
    pub settings: NodeFlags,
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
    /// The base lane (1 Hz) is always sent. What a hub misses while it or the network is away stays in the ring in
    /// shared memory, survives this process, and is sent when they are back. Faster lanes are opened while a reader
    /// of the hub wants them, up to --rate-max. There is no HTTP door here unless --listen is given, and no
    /// text door unless --text-listen is.
    #[command(after_help = agent::EXAMPLES)]
    Agent(agent::AgentCommand),
    /// Take nodes in, and answer for all of them.
    ///
    /// Agents connect to the link door (port 7071) and send their base lane; readers ask at the HTTP door (port
    /// 7070), as they would ask a single node, or at the text door (`nc localhost 2709`): `khz nodes`, `khz get 'node[1-8]:mem.free'`, the page, Prometheus.
    /// What is asked for faster than the base lane is asked of the nodes concerned, for as long as somebody wants it.
    #[command(after_help = hub::EXAMPLES)]
    Hub(hub::HubCommand),
    /// List the metrics: name, kind, unit, how often the kernel updates them, what they mean.
    ///
    /// Asks the khz that listens at the configured address, which also knows what jobs have published (job.NAME), and a
    /// hub what its nodes have; when none answers, tells what this program can gather. AS A RATE says what a counter is
    /// in where it is shown as a rate.
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
    /// A percent is a share of the time that passed (disk, pressure). --raw shows the totals. On a terminal a table is redrawn in place; otherwise every row is
    /// one line.
    ///
    /// That a node which is shown has gone, or that nothing is heard of the khz which is asked, is said once on stderr,
    /// and so is that it is back. With --json a line that has "event" in place of "values" says it too.
    #[command(after_help = watch::EXAMPLES)]
    Watch(watch::WatchFlags),
    /// Tell which sources work on this host, what they hold and what gathering them costs.
    ///
    /// Each source is gathered some times in a row; the time is the median. At low rates on an idle machine
    /// a gather costs more than that: caches are cold and the processor sleeps deeper.
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckFlags),
    /// Print the effective configuration, and where each value came from.
    #[command(after_help = config::EXAMPLES)]
    Config(config::ConfigFlags),
    /// Make certificates and tokens for hubs, nodes and readers, and say what to copy where.
    #[command(after_help = certs::flags::EXAMPLES)]
    Certs(certs::flags::CertsFlags),
    /// Look into the rings: what the agents of this machine have recorded, while they run and after they have died.
    #[command(subcommand)]
    Ring(ring::RingCommand),
    /// Show the cluster as a file tree: every node's values as files.
    ///
    /// Any program reads any node's numbers like a local file, and says how often it wants them. Without --hub it is
    /// what the khz on this machine knows: a hub, or `khz` alone. It goes to the background once the tree stands.
    #[command(after_help = mount::EXAMPLES)]
    Mount(mount::MountFlags),
    /// Unmount it.
    #[command(after_help = umount::EXAMPLES)]
    Umount(umount::UmountFlags),
    /// Add numbers of a job to those of this node.
    ///
    /// They go the way of the kernel's and are seen at every door, as job.NAME. A number that is not heard for 30 s is
    /// absent. Programs can send the same lines to the socket themselves (docs/publish.md).
    #[command(after_help = publish::EXAMPLES)]
    Publish(publish::PublishFlags),
    /// Record rows into a file, while they come or after the fact, or as long as a program runs.
    ///
    /// One self-describing file of blocks. It can be read while it is written, and is valid to its last whole block
    /// whatever happens. Nodes sample at the asked rate for as long as the recording lasts.
    #[command(after_help = record::flags::EXAMPLES)]
    Record(Box<record::flags::RecordFlags>),
    /// Print the rows of a recording: exact decimals, as CSV or JSON.
    #[command(after_help = export::EXAMPLES)]
    Export(export::ExportFlags),
    /// Draw a recording: one panel a node, one time for all, two axes; SVG, PNG, HTML, or characters.
    #[command(after_help = plot::EXAMPLES)]
    Plot(plot::PlotFlags),
    /// Find the series of a recording that move together with one of them, and how much later or earlier.
    #[command(after_help = correlate::EXAMPLES)]
    Correlate(correlate::CorrelateFlags),
    /// Play the part of many nodes, to see what a hub makes of them.
    ///
    /// One process speaks for all of them, each over a connection of its own.
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::SimulateFlags),
    /// Work on .rrd files: rrdtool's commands in rrdtool's own syntax.
    ///
    /// create update updatev fetch info dump restore last lastupdate first tune resize xport list flushcached,
    /// the pipe mode `-`, and beyond rrdtool: doctor DIR, import FOREIGN FILE. Without a word it lists them.
    /// Started under the name rrdtool, this program is rrdtool.
    #[command(after_help = rrd::RRD_EXAMPLES)]
    Rrd(rrd::Words),
    /// Cache updates of .rrd files behind rrdcached's protocol; what was acknowledged survives kill -9.
    ///
    /// Options are rrdcached's; `khz rrdcached --help` lists them with a few of its own. Without -g it goes to the
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
