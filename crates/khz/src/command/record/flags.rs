//! The flags of `khz record`, and its examples.

use std::path::PathBuf;

use clap::Args;

use crate::config::ReaderFlags;

/// Examples for `khz record --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz record --rate 100 --for 10s -o run.khzt     this node, everything
  khz record 'cpu.*' 'net.*' --rate 1kHz -o run.khzt -- mpirun ./program
                                                  from just before the program
                                                  starts to its end
  khz record 'node*:load.*' --hub hub1 --insecure --for 1m -o all.khzt
                                                  every node that reports to a
                                                  hub
  khz record --last 5m -o before.khzt             the last 5 minutes, from the
                                                  rings of this machine's agents
  khz record --last 5m --hub hub1 -o all.khzt     the same of all nodes, one row
                                                  a second, from the hub
  khz record 'node7:*' --from -1h -o hour.khzt    the last hour of one node,
                                                  from the store of the hub that
                                                  runs here, or of --server
  khz record --channel hot --hub hub1,hub2 --insecure -o hot.khzt
                                                  the rows of a channel, from the
                                                  first of these hubs that answers
  khz record --rotate 100MiB --keep 10 -o day.khzt
                                                  until Ctrl-C, the last ten
                                                  files of 100 MiB each
  khz record --params run.toml                    takes all flags from a file

`khz export`, `khz plot` and `khz correlate` read the file, also while khz
writes it. After a kill -9 it is valid up to its last complete block. If khz
records the node on which it runs without a hub, the recording has every number
of the kernel files that the patterns need, because khz reads a whole file.

A command after -- runs in a control group of its own, if the user may make one
(root; others below `systemd-run --user --scope`). The recording has the numbers
of this group, too, such as cgroup.cpu_usage[...khz-record-PID].

A file of parameters has the flags' names as keys:
  match = [\"cpu.*\", \"net.*\"]
  rate = \"100Hz\"
  for = \"10s\"
  output = \"run.khzt\"
  command = [\"mpirun\", \"./program\"]

Exit codes: 0 done, 1 an error while it worked (after a full disk, the written
part stays), 2 wrong usage, 3 some nodes or rows are missing, or nodes stood
still for a second or more (khz names each with what is missing). If there is a
command, the exit code is that of the command.";

/// `khz record`.
#[derive(Debug, Args)]
pub struct RecordFlags {
    /// Which series: [NODES:]METRIC[INSTANCE]; none means all.
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// Record the rows of this channel (`khz channel list`), which the nodes choose and compute.
    #[arg(long, value_name = "NAME",
          conflicts_with_all = ["patterns", "rate", "exact", "last", "from", "direct"])]
    pub channel: Option<String>,
    /// How often: 100Hz, 1kHz, or a period: 5s [default: 10Hz].
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,
    /// Stop after this time. It then waits for rows that are still missing and for silent nodes, at most 15 s; Ctrl-C
    /// ends that.
    #[arg(long = "for", value_name = "DURATION")]
    pub duration: Option<String>,
    /// Ask this hub, or the first of several that answers, separated by commas; later the others, if it goes away [default: the
    /// one that runs on this machine, else this node itself].
    #[arg(long, value_name = "HOST[:PORT],...", conflicts_with = "direct")]
    pub hub: Option<String>,
    /// Ask no hub: read this node's kernel in this process.
    #[arg(long)]
    pub direct: bool,
    /// Connect to a hub on another machine without TLS.
    #[arg(long)]
    pub insecure: bool,
    /// Record the past: this far back from the newest row, from the rings of this machine, or from the hub of --hub.
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["duration", "rate", "command", "from"])]
    pub last: Option<String>,
    /// Record the past out of the store of a hub, from this moment on: '2026-11-21 14:00' (local time), 2026-11-21T14:00:00Z, or -1h.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true,
          conflicts_with_all = ["last", "duration", "rate", "exact", "direct", "command"])]
    pub from: Option<String>,
    /// With --from: to this moment [default: now].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// With --from or --freeze-on-failure: the HTTP door of the hub [default: the hub that runs on this machine].
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// With --last: which lane of the rings [default: the fastest].
    #[arg(long, value_name = "NAME", requires = "last", conflicts_with = "hub")]
    pub lane: Option<String>,
    /// With --last: where the rings are [default: where the agents put them].
    #[arg(long = "dir", value_name = "DIR", requires = "last", conflicts_with = "hub")]
    pub directory: Option<PathBuf>,
    /// The recording; with --rotate numbers are put into its name [default: recording.khzt; the one before
    /// becomes recording.old.khzt].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Begin another file at this size (100MiB) or after this time (10m).
    #[arg(long, value_name = "SIZE|DURATION")]
    pub rotate: Option<String>,
    /// With --rotate: keep only this many files.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep: Option<u64>,
    /// Sample at that rate even where the kernel updates the number more slowly.
    #[arg(long)]
    pub exact: bool,
    /// Read parameters from this file; flags override it.
    #[arg(long, value_name = "FILE.toml")]
    pub params: Option<PathBuf>,
    /// Print nothing about progress, only what is missing.
    #[arg(short, long)]
    pub quiet: bool,
    /// If the command after -- fails (by its exit code, or a signal), freeze the rings of these nodes, or of this one
    /// (docs/blackbox.md). It asks the hub that runs here, or --server.
    #[arg(long, value_name = "NODES", num_args = 0..=1, require_equals = true, default_missing_value = "",
          requires = "command")]
    pub freeze_on_failure: Option<String>,
    /// Record while this program runs.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}
