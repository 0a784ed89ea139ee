//! `khz agent`: its flags. The work is in `role/agent`.

use clap::Args;

use crate::config::{AgentFlags, NodeFlags, Origin};
use crate::role;
use crate::show::log;
use crate::show::outcome::Outcome;

/// Examples for `khz agent --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz agent --hub 127.0.0.1:7071    report to a hub on this machine
  khz agent --hub hub1,hub2 --tls-ca ca.pem --tls-cert n7.pem --tls-key n7.key
                                    report to hub1; if hub1 dies or hangs, to
                                    hub2
  khz agent --hub hub1 --tls-ca ca.pem --token /etc/khz/token
                                    with a token in place of a certificate
  khz agent --hub hub1 --insecure   without TLS and without a proof of its name";

/// `khz agent`.
#[derive(Debug, Args)]
pub struct AgentCommand {
    /// The settings.
    #[command(flatten)]
    pub settings: AgentFlags,
}

/// Gathers and reports until somebody stops it.
pub fn run(flags: AgentCommand, outer: NodeFlags) -> Outcome {
    let (layers, plan) = super::plan(flags.settings.over(outer))?;
    log::start(plan.log);
    // An agent opens the HTTP door only where a setting asks for it.
    let has_door = !matches!(layers.value("listen").origin, Origin::Default);
    role::agent::run(&plan, has_door)
}
