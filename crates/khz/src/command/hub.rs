//! `khz hub`: its flags. The work is in `role/hub`.

use clap::Args;

use crate::config::{HubFlags, NodeFlags};
use crate::role;
use crate::show::log;
use crate::show::outcome::Outcome;

/// Examples for `khz hub --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz hub                           nodes on this machine only: 127.0.0.1:7071
  khz hub --link-listen 0.0.0.0:7071 --tls-ca ca.pem --tls-cert hub.pem \\
          --tls-key hub.key
                                    nodes from everywhere, each with a
                                    certificate (`khz certs` makes them)
  khz hub --link-listen 0.0.0.0:7071 --insecure
                                    every node that reaches the port is
                                    accepted
  khz hub --history 0MiB            keep only the latest values in memory
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

/// Collects and serves until somebody stops it.
pub fn run(flags: HubCommand, outer: NodeFlags) -> Outcome {
    let (_, plan) = super::plan(flags.settings.over(outer))?;
    log::start(plan.log);
    role::hub::run(&plan)
}
