//! The command line: what can be typed, and help that teaches it. Man pages and completions come from here
//! too. It checks nothing that needs more than the word itself.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::{NodeFlags, ReaderFlags};
use crate::rrd::Words;

/// Kilohertz watches Linux nodes up to a thousand times a second, at a cost they do not feel.
///
/// Started with no command it is a whole cluster of one: it gathers this machine's kernel numbers and shows
/// them live on a page at http://127.0.0.1:7070/ until Ctrl-C or SIGTERM ends it.
#[derive(Debug, Parser)]
#[command(name = "khz", version, after_help = EXAMPLES, after_long_help = EXAMPLES, max_term_width = 100)]
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
  khz                               watch this machine; the page is at http://127.0.0.1:7070/
  khz --listen 127.0.0.1:0          the same, at a free port
  khz --root /srv/captured-host     watch a captured host instead of this one
  khz --sources stat=1000Hz,meminfo=1000Hz
                                    gather exactly these two, a thousand times a second
  khz get 'mem.*'                   print the memory numbers now
  khz watch cpu.all.user --rate 100 follow one number, a hundred times a second

Exit codes: 0 done, 1 failed at work, 2 wrong usage, 3 partly (some nodes are missing).";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the metrics: name, kind, unit, how often the kernel updates them, what they mean.
    #[command(after_help = CATALOG_EXAMPLES)]
    Catalog(CatalogFlags),
    /// Print the latest readings.
    ///
    /// Asks the khz that listens at the configured address; when none answers, reads this machine's kernel
    /// itself. Absent ("there is nothing to read") and failed ("reading went wrong") are shown apart, never
    /// as 0.
    #[command(after_help = GET_EXAMPLES)]
    Get(GetFlags),
    /// Follow readings as they come.
    ///
    /// Counters are shown as rates per second, times (CPU, disk, pressure) as shares of the time that
    /// passed; --raw shows the totals. On a terminal a table is redrawn in place; otherwise every row is
    /// one line.
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

const RRD_EXAMPLES: &str = "\
Examples:
  khz rrd create load.rrd --step 5 DS:load:GAUGE:10:0:U RRA:AVERAGE:0.5:1:720
  khz rrd update load.rrd N:0.52
  khz rrd fetch load.rrd AVERAGE --start -60s
  khz rrd doctor /var/lib/munin     what this machine does to the speed of these files";

const RRDCACHED_EXAMPLES: &str = "\
Examples:
  khz rrdcached -l unix:/run/rrdcached.sock -j /var/lib/khz/log -b /var/lib/rrd -B";

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
}

const GET_EXAMPLES: &str = "\
Examples:
  khz get mem.free load.1m          two numbers
  khz get 'cpu.*[3]'                everything about CPU 3
  khz get 'net.*[eth0]' --json      one object a line, values as exact decimal strings
  khz get '*' --format properties   a Java property file of everything
  khz get 'mem.*' --direct          read the kernel here and now, whoever listens
  khz get 'node7:mem.*' --server http://127.0.0.1:8080

A pattern is [NODES:]METRIC[INSTANCE]: nodes as a hostlist (node[001-128]), metric and instance with * and ?.
Quote it, or the shell takes its brackets and stars.";

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
    /// Where to ask.
    #[command(flatten)]
    pub place: Place,
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

/// Where a reading command asks.
#[derive(Debug, Args)]
pub struct Place {
    /// Ask the khz at this address, and nobody else.
    #[arg(long, value_name = "URL", conflicts_with = "direct")]
    pub server: Option<String>,
    /// Ask nobody: read this machine's kernel in this process.
    #[arg(long)]
    pub direct: bool,
}

const WATCH_EXAMPLES: &str = "\
Examples:
  khz watch 'cpu.all.*'                     shares of all CPUs, once a second
  khz watch 'net.*_bytes[eth0]' --rate 10   bytes per second, ten times a second
  khz watch mem.free --rate 100 --for 10s   a thousand rows, then done
  khz watch 'vm.*' --json --count 60        one object a line, values as decimal strings
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
    pub place: Place,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  khz check                         this machine
  khz check --root /srv/captured    a captured host
  khz check --json                  one object a line, for programs";

/// `khz check`.
#[derive(Debug, Args)]
pub struct CheckFlags {
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
