//! `khz job start` and `khz job end`: report a job to a hub, within a limited time. As a prolog or epilog of Slurm it never fails.

use std::sync::mpsc;

use clap::Args;
use khz_ask::{AskError, JobChanged, Server};
use khz_job::{End, Start};
use khz_model::Nanos;

use super::slurm;
use crate::command::past::moment;
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::table::{printable, remark};

pub const START_EXAMPLES: &str = "\
Examples:
  khz job start 4712 --nodes 'node[1-8]' --user ann --name solve
                                    by hand, or from a script of yours
  khz job start 4712 --nodes node9 --add
                                    node9 too
  khz job start                     as PrologSlurmctld or Prolog of Slurm

Only operators may do this: root on the hub's machine, the user that the hub
runs as, or a token of an operator (docs/security.md). docs/jobs.md has the
lines for slurm.conf.

Exit codes: 0 done, 1 the hub did not take it, 2 wrong usage. Without a JOB
always 0, unless --strict is given.";

pub const END_EXAMPLES: &str = "\
Examples:
  khz job end 4712                  it has ended now
  khz job end 4712 --exit 3         with this exit code
  khz job end                       as EpilogSlurmctld or Epilog of Slurm

Exit codes: as of `khz job start`.";

/// How the command reaches a hub.
#[derive(Debug, Args)]
struct Way {
    /// Give up after this time.
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    timeout: Nanos,
    /// Without a JOB: fail, too, if the hub did not take it.
    #[arg(long)]
    strict: bool,
    /// Where to ask.
    #[command(flatten)]
    target: Target,
    /// The settings.
    #[command(flatten)]
    settings: ReaderFlags,
}

/// `khz job start`.
#[derive(Debug, Args)]
pub struct StartFlags {
    /// The id of the job; without one Slurm's variables say it.
    #[arg(value_name = "JOB", requires = "nodes")]
    id: Option<String>,
    /// Its nodes: 'node[1-8],gpu1'.
    #[arg(long, value_name = "HOSTLIST", requires = "id")]
    nodes: Option<String>,
    /// The job has these nodes besides those that the hub knows of.
    #[arg(long, requires = "id")]
    add: bool,
    /// Another id, by which its users know it, as 4711_2 for a task of an array.
    #[arg(long, value_name = "ID", requires = "id")]
    alias: Option<String>,
    /// Its user.
    #[arg(long, value_name = "NAME", requires = "id")]
    user: Option<String>,
    /// The number of its user, for readers who may see only their own jobs.
    #[arg(long, value_name = "NUMBER", requires = "id")]
    uid: Option<u32>,
    /// Its name.
    #[arg(long, value_name = "TEXT", requires = "id")]
    name: Option<String>,
    /// When it began [default: now].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, requires = "id")]
    begin: Option<String>,
    #[command(flatten)]
    way: Way,
}

/// `khz job end`.
#[derive(Debug, Args)]
pub struct EndFlags {
    /// The id of the job; without one Slurm's variables say it.
    #[arg(value_name = "JOB")]
    id: Option<String>,
    /// Its exit code.
    #[arg(long, value_name = "CODE", requires = "id")]
    exit: Option<u8>,
    /// When it ended [default: now].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, requires = "id")]
    at: Option<String>,
    #[command(flatten)]
    way: Way,
}

/// Tells of a start.
pub fn start(flags: StartFlags, outer: NodeFlags) -> Outcome {
    let StartFlags { id, nodes, add, alias, user, uid, name, begin, way } = flags;
    let is_prolog = id.is_none();
    let start = match id {
        None => slurm::start(of_slurm()?, &slurm::variable),
        Some(id) => Start {
            id,
            alias: alias.unwrap_or_default(),
            name: name.unwrap_or_default(),
            user: user.unwrap_or_default(),
            uid,
            nodes: nodes.unwrap_or_default(),
            add,
            begin_ms: begin.map(|text| time("begin", &text)).transpose()?,
        },
    };
    khz_job::check_id(&start.id).map_err(Failure::usage).or_else(|failure| way.end(is_prolog, failure))?;
    let told = way.tell(outer, move |server| server.start_job(&start.id, &start.to_json()));
    match told {
        Ok(JobChanged { unknown, job, .. }) if !unknown.is_empty() => {
            remark!("job {}: the hub has never seen {unknown}", job.id);
            Ok(Done::Wholly)
        }
        Ok(_) => Ok(Done::Wholly),
        Err(failure) => way.end(is_prolog, failure).map(|()| Done::Wholly),
    }
}

/// Tells of an end.
pub fn end(flags: EndFlags, outer: NodeFlags) -> Outcome {
    let EndFlags { id, exit, at, way } = flags;
    let is_epilog = id.is_none();
    let end = match id {
        None => slurm::end(of_slurm()?, &slurm::variable),
        Some(id) => End {
            id,
            outcome: exit.map(|code| format!("exit {code}")),
            end_ms: at.map(|text| time("at", &text)).transpose()?,
        },
    };
    khz_job::check_id(&end.id).map_err(Failure::usage).or_else(|failure| way.end(is_epilog, failure))?;
    let told = way.tell(outer, move |server| server.end_job(&end.id, &end.to_json()));
    if let Ok(JobChanged { job, unfrozen: Some(why), .. }) = &told {
        remark!("job {} failed, and its nodes are not frozen: {}", job.id, printable(why));
    }
    told.map(|_| ()).or_else(|failure| way.end(is_epilog, failure)).map(|()| Done::Wholly)
}

fn of_slurm() -> Result<String, Failure> {
    slurm::id(&slurm::variable).ok_or_else(|| {
        Failure::usage("name a JOB: Slurm has not started this command, since SLURM_JOB_ID is not set")
    })
}

fn time(flag: &str, text: &str) -> Result<i64, Failure> {
    Ok(i64::try_from(moment(flag, text)?.0 / 1_000_000).unwrap_or(i64::MAX))
}

impl Way {
    /// How a failure ends the command: a job must not fail because its hub is away.
    fn end(&self, is_of_slurm: bool, failure: Failure) -> Result<(), Failure> {
        if self.strict || !is_of_slurm {
            return Err(failure);
        }
        remark!("{failure}");
        Ok(())
    }

    /// Asks the hub in a separate thread, since a hub that hangs must not delay a job.
    fn tell(
        &self,
        outer: NodeFlags,
        ask: impl FnOnce(&Server) -> Result<JobChanged, AskError> + Send + 'static,
    ) -> Result<JobChanged, Failure> {
        let (_, plan) = crate::command::plan(self.settings.clone().over(outer))?;
        let server = self.target.running(&plan)?;
        let (said, hears) = mpsc::channel();
        let thread = std::thread::Builder::new().name("told".into()).spawn(move || {
            // An error means that nobody waits any more.
            let _ = said.send(ask(&server));
        });
        thread.map_err(|error| Failure::work(format!("cannot start a thread: {error}")))?;
        match hears.recv_timeout(self.timeout.into()) {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Failure::work(format!(
                "the hub has not answered within {}; whether it has taken this is not known",
                crate::show::quantities::of_time(self.timeout.into())
            ))),
        }
    }
}
