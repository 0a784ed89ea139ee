//! The command line: what can be typed, and help that teaches it. Man pages and completions come from here
//! too. It checks nothing that needs more than the word itself.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::command::certs::flags::CertsFlags;
use crate::command::rrd::Words;
use crate::command::target::Target;
use crate::config::{AgentFlags, HubFlags, NodeFlags, ReaderFlags};

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
    #[command(after_help = AGENT_EXAMPLES)]
    Agent(AgentCommand),
    /// Take nodes in, and answer for all of them.
    ///
    /// Agents connect to the link door (port 7071) and send their base lane; readers ask at the HTTP door (port
    /// 7070), as they would ask a single node, or at the text door (`nc localhost 2709`): `khz nodes`, `khz get 'node[1-8]:mem.free'`, the page, Prometheus.
    /// What is asked for faster than the base lane is asked of the nodes concerned, for as long as somebody wants it.
    #[command(after_help = HUB_EXAMPLES)]
    Hub(HubCommand),
    /// List the metrics: name, kind, unit, how often the kernel updates them, what they mean.
    ///
    /// Asks the khz that listens at the configured address, which also knows what jobs have published (job.NAME), and a
    /// hub what its nodes have; when none answers, tells what this program can gather. AS A RATE says what a counter is
    /// in where it is shown as a rate.
    #[command(after_help = CATALOG_EXAMPLES)]
    Catalog(CatalogFlags),
    /// List the nodes: up or down, when they were last heard, what came and what is missing.
    #[command(after_help = NODES_EXAMPLES)]
    Nodes(NodesFlags),
    /// Print the latest readings.
    ///
    /// Asks the khz that listens at the configured address; when none answers, reads this machine's kernel
    /// itself. Absent ("there is nothing to read") and failed ("reading went wrong") are shown apart, never
    /// as 0.
    #[command(after_help = GET_EXAMPLES)]
    Get(GetFlags),
    /// Follow readings as they come.
    ///
    /// Counters are shown as rates per second. CPU times are in CPUs: 1.53 is the work of one and a half processors.
    /// A percent is a share of the time that passed (disk, pressure). --raw shows the totals. On a terminal a table is redrawn in place; otherwise every row is
    /// one line.
    ///
    /// That a node which is shown has gone, or that nothing is heard of the khz which is asked, is said once on stderr,
    /// and so is that it is back. With --json a line that has "event" in place of "values" says it too.
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(WatchFlags),
    /// Tell which sources work on this host, what they hold and what gathering them costs.
    ///
    /// Each source is gathered some times in a row; the time is the median. At low rates on an idle machine
    /// a gather costs more than that: caches are cold and the processor sleeps deeper.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckFlags),
    /// Print the effective configuration, and where each value came from.
    #[command(after_help = CONFIG_EXAMPLES)]
    Config(ConfigFlags),
    /// Make certificates and tokens for hubs, nodes and readers, and say what to copy where.
    #[command(after_help = CERTS_EXAMPLES)]
    Certs(CertsFlags),
    /// Look into the rings: what the agents of this machine have recorded, while they run and after they have died.
    #[command(subcommand)]
    Ring(RingCommand),
    /// Show the cluster as a file tree: every node's values as files.
    ///
    /// Any program reads any node's numbers like a local file, and says how often it wants them. Without --hub it is
    /// what the khz on this machine knows: a hub, or `khz` alone. It goes to the background once the tree stands.
    #[command(after_help = crate::command::mount::EXAMPLES)]
    Mount(crate::command::mount::MountFlags),
    /// Unmount it.
    #[command(after_help = crate::command::mount::UMOUNT_EXAMPLES)]
    Umount(crate::command::mount::UmountFlags),
    /// Add numbers of a job to those of this node.
    ///
    /// They go the way of the kernel's and are seen at every door, as job.NAME. A number that is not heard for 30 s is
    /// absent. Programs can send the same lines to the socket themselves (docs/publish.md).
    #[command(after_help = crate::command::publish::EXAMPLES)]
    Publish(crate::command::publish::PublishFlags),
    /// Record rows into a file, while they come or after the fact, or as long as a program runs.
    ///
    /// One self-describing file of blocks. It can be read while it is written, and is valid to its last whole block
    /// whatever happens. Nodes sample at the asked rate for as long as the recording lasts.
    #[command(after_help = crate::command::record::flags::EXAMPLES)]
    Record(Box<crate::command::record::flags::RecordFlags>),
    /// Print the rows of a recording: exact decimals, as CSV or JSON.
    #[command(after_help = crate::command::recording_flags::EXPORT_EXAMPLES)]
    Export(crate::command::recording_flags::ExportFlags),
    /// Draw a recording: one panel a node, one time for all, two axes; SVG, PNG, HTML, or characters.
    #[command(after_help = crate::command::recording_flags::PLOT_EXAMPLES)]
    Plot(crate::command::recording_flags::PlotFlags),
    /// Find the series of a recording that move together with one of them, and how much later or earlier.
    #[command(after_help = crate::command::recording_flags::CORRELATE_EXAMPLES)]
    Correlate(crate::command::recording_flags::CorrelateFlags),
    /// Play the part of many nodes, to see what a hub makes of them.
    ///
    /// One process speaks for all of them, each over a connection of its own.
    #[command(after_help = crate::command::simulate::EXAMPLES)]
    Simulate(crate::command::simulate::SimulateFlags),
    /// Work on .rrd files: rrdtool's commands in rrdtool's own syntax.
    ///
    /// create update updatev fetch info dump restore last lastupdate first tune resize xport list flushcached,
    /// the pipe mode `-`, and beyond rrdtool: doctor DIR, import FOREIGN FILE. Without a word it lists them.
    /// Started under the name rrdtool, this program is rrdtool.
    #[command(after_help = RRD_EXAMPLES)]
    Rrd(Words),
    /// Cache updates of .rrd files behind rrdcached's protocol; what was acknowledged survives kill -9.
    ///
    /// Options are rrdcached's; `khz rrdcached --help` lists them with a few of its own. Without -g it goes to the
    /// background. Started under the name rrdcached, this program is rrdcached.
    #[command(after_help = RRDCACHED_EXAMPLES)]
    Rrdcached(Words),
    /// Show or drop what the kernel's page cache holds of files.
    #[command(after_help = CACHE_EXAMPLES)]
    Cache(Words),
    /// Write the man pages into a directory.
    #[command(after_help = MAN_EXAMPLES)]
    Man(ManFlags),
    /// Print the completions for a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsFlags),
}

const AGENT_EXAMPLES: &str = "\
Examples:
  khz agent --hub 127.0.0.1:7071    report to a hub on this machine
  khz agent --hub hub1,hub2 --tls-ca ca.pem --tls-cert n7.pem --tls-key n7.key
                                    to hub1, and to hub2 when hub1 dies or hangs
  khz agent --hub hub1 --tls-ca ca.pem --token /etc/khz/token
                                    with a token in place of a certificate
  khz agent --hub hub1 --insecure   neither";

/// `khz agent`.
#[derive(Debug, Args)]
pub struct AgentCommand {
    /// The settings.
    #[command(flatten)]
    pub settings: AgentFlags,
}

const HUB_EXAMPLES: &str = "\
Examples:
  khz hub                           nodes on this machine only: 127.0.0.1:7071
  khz hub --link-listen 0.0.0.0:7071 --tls-ca ca.pem --tls-cert hub.pem \\
          --tls-key hub.key
                                    nodes from everywhere, each with a
                                    certificate (`khz certs` makes them)
  khz hub --link-listen 0.0.0.0:7071 --insecure
                                    everybody who can reach the port is believed
  khz hub --history 0MiB            keep the present only
  khz hub --rrd /var/lib/khz/rrd --rrd-match 'load.*,mem.free,net.*_bytes'
                                    record these into .rrd files, in MRTG's
                                    layout";

/// `khz hub`.
#[derive(Debug, Args)]
pub struct HubCommand {
    /// The settings.
    #[command(flatten)]
    pub settings: HubFlags,
}

const CERTS_EXAMPLES: &str = "\
Examples:
  khz certs init                        a CA and a cluster key in /etc/khz/tls
  khz certs hub hub1 hub1.example 10.0.0.1
                                        the hub's certificate, for these names
  khz certs node n1                     a node's certificate
  khz certs token node n1               or its token: one word to paste
  khz certs token operator alice > alice.token
  khz certs show                        whose they are, how long they are valid

A certificate is valid for two years unless --days says otherwise, the CA for
ten. Nothing is overwritten without --force.";

/// `khz ring`.
#[derive(Debug, Subcommand)]
pub enum RingCommand {
    /// Tell what each ring holds: rate, rows, minutes now and when it is full, newest row, its writer.
    #[command(after_help = RING_SHOW_EXAMPLES)]
    Show(RingShowFlags),
    /// Print the rows of a ring: exact decimals, counters as totals, nothing where nothing is.
    ///
    /// On a terminal it is a table, otherwise CSV: the time (seconds since 1970), the time since boot, which no clock
    /// setting moves, and a column for each series. Absent is empty, failed is the word.
    #[command(after_help = RING_EXPORT_EXAMPLES)]
    Export(RingExportFlags),
    /// Remove the rings and the snapshot of agents that have ended; those of a running one stay, and that is said.
    #[command(after_help = RING_RM_EXAMPLES)]
    Rm(RingRmFlags),
}

const RING_RM_EXAMPLES: &str = "\
Examples:
  khz ring rm old1                  what an agent called old1 has left here
  khz ring rm old1 old2 --dir /srv/rings";

/// `khz ring rm`.
#[derive(Debug, Args)]
pub struct RingRmFlags {
    /// Whose rings.
    #[arg(value_name = "NODE", required = true)]
    pub nodes: Vec<String>,
    /// Where the rings are.
    #[command(flatten)]
    pub place: RingPlace,
}

const RING_SHOW_EXAMPLES: &str = "\
Examples:
  khz ring show                     the agents of this machine, running or not
  khz ring show --node node7 --json
                                    one object a lane
  khz ring show --dir /srv/rings    rings that were kept somewhere else";

/// `khz ring show`.
#[derive(Debug, Args)]
pub struct RingShowFlags {
    /// Only the rings of this node.
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// One JSON object a lane.
    #[arg(long)]
    pub json: bool,
    /// Where the rings are.
    #[command(flatten)]
    pub place: RingPlace,
}

/// Where rings are looked for.
#[derive(Debug, Args)]
pub struct RingPlace {
    /// Look here: a directory of rings, or one of such directories [default: where the agents put them].
    #[arg(long = "dir", value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

const RING_EXPORT_EXAMPLES: &str = "\
Examples:
  khz ring export --last 30s 'cpu.all.*'    the last half minute, also of an
                                            agent that has died
  khz ring export --lane local load.1m      ten times a second
  khz ring export --json -o rows.jsonl      everything, one object a row
  khz ring export --trace -o idle.khzt      the blocks themselves, to be played
                                            again

Ten rows of `khz ring export --csv --last 10s load.1m kernel.forks 'net.rx_bytes[lo]'`:
  time,boot,kernel.forks,load.1m,net.rx_bytes[lo]
  1795257001.000213671,3061.482917320,48213,0.52,7120945
  1795257002.000190418,3062.482894067,48213,0.52,7121201
  1795257003.000186127,3063.482889776,48215,0.48,7121201
  1795257004.000178530,3064.482882179,48219,0.48,7129873
  1795257005.000201882,3065.482905531,48219,0.48,7130129
  1795257006.000186440,3066.482890089,48220,0.48,7130129
  1795257007.000195104,3067.482898753,48220,0.48,7130385
  1795257008.000187265,3068.482890914,48226,0.44,7130385
  1795257009.000190871,3069.482894520,48226,0.44,7130641
  1795257010.000188093,3070.482891742,48226,0.44,7130641";

/// `khz ring export`.
#[derive(Debug, Args)]
pub struct RingExportFlags {
    /// Which series: METRIC[INSTANCE], as 'net.rx_*[eth0]'; none means all.
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// Only so far back from the newest row: 30s, 10m.
    #[arg(long, value_name = "DURATION")]
    pub last: Option<String>,
    /// Which lane: base (everything, 1 Hz), local (10 Hz), or what `khz ring show` lists.
    #[arg(long, value_name = "NAME", default_value = "base")]
    pub lane: String,
    /// The rings of this node [default: the only one, or this one].
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Values separated by commas.
    #[arg(long, group = "form")]
    pub csv: bool,
    /// One JSON object a row.
    #[arg(long, group = "form")]
    pub json: bool,
    /// A table for people.
    #[arg(long, group = "form")]
    pub table: bool,
    /// Schema and whole blocks as they are, of the newest start of the agent (docs/block.md).
    #[arg(long, group = "form")]
    pub trace: bool,
    /// Write to this file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Where the rings are.
    #[command(flatten)]
    pub place: RingPlace,
}

const RRD_EXAMPLES: &str = "\
Examples:
  khz rrd create load.rrd --step 5 DS:load:GAUGE:10:0:U RRA:AVERAGE:0.5:1:720
  khz rrd update load.rrd N:0.52
  khz rrd fetch load.rrd AVERAGE --start -60s
  khz rrd doctor /var/lib/munin     what this machine does to the speed of these
                                    files";

const RRDCACHED_EXAMPLES: &str = "\
Examples:
  khz rrdcached -l unix:/run/rrdcached.sock -j /var/lib/khz/log \\
          -b /var/lib/rrd -B";

const CACHE_EXAMPLES: &str = "\
Examples:
  khz cache show /var/lib/munin/*.rrd
  khz cache drop old.rrd            write it out, then evict it
  khz cache --summary /var/lib/rrd  histogram of resident pages per file";

const CATALOG_EXAMPLES: &str = "\
Examples:
  khz catalog                       every metric
  khz catalog 'net.*' load.1m       those of the network, and one more
  khz catalog --json | jq .name     one object a line, for programs";

/// `khz catalog`.
#[derive(Debug, Args)]
pub struct CatalogFlags {
    /// Which metrics, with * and ?; none means all.
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

const NODES_EXAMPLES: &str = "\
Examples:
  khz nodes                         every node that the hub ever heard or
                                    expects (khz hub --nodes 'node[001-500]')
  khz nodes 'node[001-128]'         these; those that nobody knows are named,
                                    and the exit code is 3
  khz nodes --down --missing        only those that are down or were never seen;
                                    the exit code is 3 if there are any
  khz nodes forget node017          a node that will not come back
  khz nodes --json | jq .state      one object a line, for programs

States: up; down (heard once, and gone); left (gone, after it had said so: its
agent was stopped); missing (expected, and never seen). Exit codes: 0 nothing to
say, 1 failed at work, 2 wrong usage, 3 an expected node is down or missing, or
nobody knows a node that was named.";

/// `khz nodes`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct NodesFlags {
    /// Forgetting instead of listing.
    #[command(subcommand)]
    pub command: Option<NodesCommand>,
    /// Which nodes, as a hostlist or with * and ?; none means all.
    #[arg(value_name = "NODES")]
    pub hosts: Option<String>,
    /// Only those that are down: heard once, and gone without a goodbye.
    #[arg(long)]
    pub down: bool,
    /// Only those that are missing: expected, and never seen.
    #[arg(long)]
    pub missing: bool,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// What else can be done with nodes.
#[derive(Debug, Subcommand)]
pub enum NodesCommand {
    /// Take nodes that are gone out of the hub's memory; for operators.
    ///
    /// A node that is up cannot be forgotten, nor one that another hub tells of, nor one that is expected and was
    /// never seen. One that comes back is known again.
    #[command(after_help = FORGET_EXAMPLES)]
    Forget(ForgetFlags),
}

const FORGET_EXAMPLES: &str = "\
Examples:
  khz nodes forget node017          a node that will not come back
  khz nodes forget 'old*,test*'

Exit codes: 0 all of them are forgotten, 1 none is, 2 wrong usage or no operator,
3 some are; the others are named on stderr with the reason.";

/// `khz nodes forget`.
#[derive(Debug, Args)]
pub struct ForgetFlags {
    /// Which nodes, as a hostlist or with * and ?.
    #[arg(value_name = "NODES")]
    pub hosts: String,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

const GET_EXAMPLES: &str = "\
Examples:
  khz get mem.free load.1m          two numbers
  khz get 'cpu.*[0]'                everything about CPU 0
  khz get 'net.*[eth0]' --json      one object a line, values as exact decimal
                                    strings
  khz get '*' --format properties   a Java property file of everything
  khz get 'mem.*' --direct          read the kernel here and now, whoever
                                    listens
  khz get 'node7:mem.*' --server http://127.0.0.1:8080
  khz get 'node*:load.1m' --age 1ms
                                    through a hub: asks the nodes now, all at
                                    once, instead of taking what they sent last

A pattern is [NODES:]METRIC[INSTANCE]: nodes as a hostlist (node[001-128],web1),
metric and instance with * and ?. Quote it, or the shell takes its brackets and
stars. Exit codes: 0 done, 1 failed at work (nothing of it is there), 2 wrong
usage, 3 partly: some nodes did not answer, or something does not exist.";

/// `khz get`.
#[derive(Debug, Args)]
pub struct GetFlags {
    /// Which series: [NODES:]METRIC[INSTANCE], as 'node[1-8]:net.rx_*[eth0]'.
    #[arg(value_name = "PATTERN", required = true)]
    pub patterns: Vec<String>,
    /// How to print them.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Through a hub: ask nodes anew whose numbers are older than this [default: what they have sent last].
    #[arg(long, value_name = "DURATION")]
    pub age: Option<String>,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// How `khz get` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people.
    Table,
    /// One JSON object a line.
    Json,
    /// A Java property file.
    Properties,
}

const WATCH_EXAMPLES: &str = "\
Examples:
  khz watch 'cpu.all.*'                     CPUs in each mode, once a second
  khz watch 'net.*_bytes[eth0]' --rate 10   bytes per second, ten times a second
  khz watch mem.free --rate 100 --for 10s   a thousand rows, then done
  khz watch 'vm.*' --json --count 60        one object a line, values as decimal
                                            strings
  khz watch kernel.interrupts --raw         the counter itself";

/// `khz watch`.
#[derive(Debug, Args)]
pub struct WatchFlags {
    /// Which series: [NODES:]METRIC[INSTANCE], as 'cpu.*[0]'.
    #[arg(value_name = "PATTERN", required = true)]
    pub patterns: Vec<String>,
    /// How often: 100Hz, 1kHz, or a period: 5s.
    #[arg(long, value_name = "RATE", default_value = "1Hz", allow_hyphen_values = true)]
    pub rate: String,
    /// Counters as totals, not as rates.
    #[arg(long)]
    pub raw: bool,
    /// Sample at that rate even where the kernel updates the number more slowly.
    #[arg(long)]
    pub exact: bool,
    /// One JSON object a row.
    #[arg(long)]
    pub json: bool,
    /// Stop after this time.
    #[arg(long = "for", value_name = "DURATION")]
    pub duration: Option<String>,
    /// Stop after this many rows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  khz check                         this machine
  khz check 'cpu.*' 'net.*'         how often these can be had together
  khz check --root /srv/captured    a captured host
  khz check --json                  one object a line, for programs";

/// `khz check`.
#[derive(Debug, Args)]
pub struct CheckFlags {
    /// Only the sources of these patterns [default: all].
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: NodeFlags,
}

const CONFIG_EXAMPLES: &str = "\
Examples:
  khz config                                what holds here, and why
  KHZ_WINDOW=1ms khz config --rate-max 500Hz
  khz config > khz.toml                     a file to start from";

/// `khz config`.
#[derive(Debug, Args)]
pub struct ConfigFlags {
    /// The settings.
    #[command(flatten)]
    pub settings: NodeFlags,
}

const MAN_EXAMPLES: &str = "\
Examples:
  khz man /usr/local/share/man/man1
  khz man . && man ./khz.1";

/// `khz man`.
#[derive(Debug, Args)]
pub struct ManFlags {
    /// Where to write khz.1, khz-get.1 and the others; without it khz.1 goes to stdout.
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  khz completions bash > /etc/bash_completion.d/khz
  khz completions zsh > \"${fpath[1]}/_khz\"
  khz completions fish > ~/.config/fish/completions/khz.fish";

/// `khz completions`.
#[derive(Debug, Args)]
pub struct CompletionsFlags {
    /// The shell.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}
