//! The flags of `khz channel create` and `khz channel set`, as a definition.

use clap::Args;
use khz_channel::Definition;

use crate::role::gatherer;
use crate::show::outcome::Failure;

/// Examples for `khz channel create --help`.
pub const CREATE_EXAMPLES: &str = "\
Examples:
  khz channel create hot --expr 'node_load1 > 8' --for 10s
                                    the load of nodes while it is above 8
  khz channel create memory 'node[001-128]:mem.*' --deadband 5% --every 1s
                                    values that changed by 5 %, once a second
  khz channel create net 'net.*_bytes' --each 'rate 1s' --rate 100Hz --every 1s
                                    rates that the nodes compute
  khz channel create full 'disk.*' --when '{\"mem.available\"} < 1e9' --once
                                    all disks, when memory has become short
  khz channel create crash 'mem.*' --before 10s --when 'node_load1 > 9'
                                    all rows around that event, and no others
  khz channel create loads --expr 'node_load1' --every 10s --keep 14d
                                    the store keeps the rows for two weeks
  khz channel create slow --expr 'node_load1' --rate 10Hz --nodes 'node[1-8]'
  khz channel create both --expr '{\"channel.hot\"} and {\"channel.slow\"}'
                                    nodes where both expressions have a value

Expressions are the part of PromQL that a node can compute (docs/plan.md).
Readers may define 64 channels of at most 100Hz. In all, 256 are possible.";

/// Examples for `khz channel set --help`.
pub const SET_EXAMPLES: &str = "\
Examples:
  khz channel set hot --expr 'node_load1 > 4' --for 10s
                                    replaces the whole definition";

/// What a channel is.
#[derive(Debug, Args)]
pub struct DefinitionFlags {
    /// Its name: a small letter, then small letters, digits and '_'.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Which series its rows have, as they are: [NODES:]METRIC[INSTANCE].
    #[arg(value_name = "PATTERN", required_unless_present = "expr", conflicts_with = "expr")]
    pub series: Vec<String>,
    /// Rows have what this expression in PromQL gives; those without a value are not sent.
    #[arg(long, value_name = "PROMQL", allow_hyphen_values = true)]
    pub expr: Option<String>,
    /// Rows have a function of a window of each series: 'mean 1s', 'quantile 0.99 10s', 'histogram 10s'.
    #[arg(long, value_name = "FUNCTION", allow_hyphen_values = true)]
    pub each: Option<String>,
    /// On these nodes, as a hostlist [default: all].
    #[arg(long, value_name = "NODES")]
    pub nodes: Option<String>,
    /// How often a node gathers for it: 100Hz, or a period: 5s [default: 1Hz].
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub rate: Option<String>,
    /// Gather at that rate even where the kernel updates the number more slowly.
    #[arg(long)]
    pub exact: bool,
    /// Rows are sent while this expression in PromQL has a value.
    #[arg(long, value_name = "PROMQL", allow_hyphen_values = true)]
    pub when: Option<String>,
    /// The condition must hold for this long first.
    #[arg(long = "for", value_name = "DURATION", allow_hyphen_values = true)]
    pub holds: Option<String>,
    /// Once the condition has held, rows go on until this expression in PromQL has a value (hysteresis).
    #[arg(long, value_name = "PROMQL", allow_hyphen_values = true)]
    pub unless: Option<String>,
    /// The condition counts if it held in this many of the last rows (--of).
    #[arg(long, value_name = "N", requires = "of")]
    pub at_least: Option<u8>,
    /// How many of the last rows --at-least counts.
    #[arg(long, value_name = "N", requires = "at_least")]
    pub of: Option<u8>,
    /// One row when the condition begins to hold, instead of all while it holds.
    #[arg(long)]
    pub once: bool,
    /// With --once: no other row for this long.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub quiet: Option<String>,
    /// One row at most in each interval of this length.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub every: Option<String>,
    /// Leave out rows that differ by less from the one before: 5%, 10MiB, or both.
    #[arg(long, value_name = "DIFFERENCE", allow_hyphen_values = true)]
    pub deadband: Option<String>,
    /// Send all rows, and gather this many times more slowly while the condition does not hold.
    #[arg(long, value_name = "TIMES", allow_hyphen_values = true)]
    pub slower: Option<u32>,
    /// When the condition begins to hold, send the rows of this long before, too.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub before: Option<String>,
    /// Send the rows of this long after the condition has held, too.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub after: Option<String>,
    /// The hub's store keeps its rows for this long, as far as it has room: `khz get --at`, `export --from` and PromQL read
    /// them. With --expr or --each; for operators.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub keep: Option<String>,
    /// The hub writes its rows into these sinks, by their names in the hub's configuration ([sinks.NAME]); for operators.
    #[arg(long, value_name = "SINK", value_delimiter = ',')]
    pub to: Vec<String>,
}

impl DefinitionFlags {
    /// The definition. What is wrong with it is said before anybody is asked.
    pub fn checked(self) -> Result<Definition, Failure> {
        let definition = Definition {
            name: self.name,
            nodes: self.nodes,
            series: self.series,
            each: self.each,
            expr: self.expr,
            program: None,
            rate: self.rate,
            exact: self.exact,
            every: self.every,
            when: self.when,
            holds: self.holds,
            unless: self.unless,
            at_least: self.at_least,
            of: self.of,
            once: self.once,
            quiet: self.quiet,
            deadband: self.deadband,
            slower: self.slower,
            before: self.before,
            after: self.after,
            keep: self.keep,
            to: self.to,
        };
        definition.interest().map_err(Failure::usage)?;
        definition.check_units(gatherer::metrics).map_err(Failure::usage)?;
        Ok(definition)
    }
}
