//! `khz freeze`: asks a hub to have nodes keep the rows around now, and says which nodes did. The hub decides what is frozen.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use khz_ask::{FreezeAnswer, Server};
use khz_model::Nanos;
use serde_json::json;

use crate::command::blackbox::shown;
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::outcome::{Failure, Outcome};
use crate::show::table::{json_line, remark};

/// Examples for `khz freeze --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz freeze 'node*'                    20 s before now, and 5 s after
  khz freeze node[1-8] --before 1m --because 'the job hangs' --wait
  khz blackbox list                     what was frozen
  khz blackbox export 7 -o hang.khzt    the rows of freeze 7, of all its nodes

Exit codes: 0 all nodes have marked their rows (with --wait: they are in the
recording), 1 nothing is frozen, or the hub went away meanwhile (the freeze goes
on when it is back), 2 wrong usage or you are no operator, 3 nodes or rows are
missing. stderr names the nodes, with the reason.";

/// Nodes answer within milliseconds. After this time the others are named.
const MARKED_WITHIN: Duration = Duration::from_secs(2);
const ASKED_AGAIN: Duration = Duration::from_millis(50);
/// How often the terminal shows how far the fetch is.
const TOLD_AGAIN: Duration = Duration::from_millis(500);

/// `khz freeze`.
#[derive(Debug, Args)]
pub struct FreezeFlags {
    /// Which nodes, as a hostlist or with * and ?.
    #[arg(value_name = "NODES", required = true)]
    pub nodes: Vec<String>,
    /// How long before now the rows begin.
    #[arg(long, value_name = "DURATION", default_value = "20s")]
    pub before: Nanos,
    /// How long after now they end.
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub after: Nanos,
    /// Why: the recording and the list of freezes say it.
    #[arg(long, value_name = "TEXT", default_value = "khz freeze")]
    pub because: String,
    /// Wait until the rows are in the recording.
    #[arg(long)]
    pub wait: bool,
    /// One JSON object.
    #[arg(long)]
    pub json: bool,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Freezes.
pub fn run(flags: FreezeFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    let nodes = flags.nodes.join(",");
    if nodes.contains(':') {
        return Err(Failure::usage(format!(
            "'{nodes}' names series: a freeze keeps all of a node, as node[1-8]"
        )));
    }
    let server = flags.target.running(&plan)?;
    let begun = server.freeze(&nodes, (flags.before, flags.after), &flags.because)?;
    if begun.joined {
        remark!("freeze {} is being taken already; the cause was added to it", begun.id);
    }
    let answer = match flags.wait {
        true => fetched(&server, begun.id, flags.json)?,
        false => marked(&server, begun.id)?,
    };
    if flags.json {
        writeln!(out, "{}", json_line(&json!(answer)))?;
    } else {
        writeln!(out, "{}", sentence(&answer))?;
    }
    out.flush()?;
    Ok(shown::end(&answer, flags.wait))
}

/// Waits for the answers of the nodes.
fn marked(server: &Server, id: u64) -> Result<FreezeAnswer, Failure> {
    let until = Instant::now() + MARKED_WITHIN;
    loop {
        let answer = server.freeze_of(id)?;
        if answer.is_done() || answer.count(&["asked"]) == 0 || Instant::now() >= until {
            return Ok(answer);
        }
        std::thread::sleep(ASKED_AGAIN);
    }
}

/// Waits for the end of the fetch.
fn fetched(server: &Server, id: u64, is_quiet: bool) -> Result<FreezeAnswer, Failure> {
    let mut said = String::new();
    loop {
        let answer = server.freeze_of(id)?;
        if answer.is_done() {
            return Ok(answer);
        }
        let text = shown::progress(&answer);
        if !is_quiet && text != said {
            remark!("freeze {id}: {text}");
            said = text;
        }
        std::thread::sleep(TOLD_AGAIN);
    }
}

/// `freeze 7: 128 of 128 nodes keep their rows; khz blackbox show 7`
fn sentence(answer: &FreezeAnswer) -> String {
    let FreezeAnswer { id, nodes, .. } = answer;
    match answer.is_done() {
        true => {
            let fetched = answer.count(&["fetched", "short"]);
            format!(
                "freeze {id}: {fetched} of {nodes} nodes, {} rows; khz blackbox export {id} -o FILE",
                answer.rows
            )
        }
        false => {
            let marked = answer.count(&["marked", "kept", "fetched", "short"]);
            format!("freeze {id}: {marked} of {nodes} nodes keep their rows; khz blackbox show {id}")
        }
    }
}
