//! `khz record`: writes rows into a file, while they come or afterwards. `khz_record` writes the file; this chooses the
//! source of the rows (`origin.rs`), decides when to end, and prints how it goes.

mod elsewhere;
mod failure;
pub mod flags;
mod group;
mod hub_end;
mod hub_rows;
mod node_rows;
mod origin;
mod params;
mod program;
mod progress;
mod ring_copy;
mod rings;
mod store_rows;
mod unseen;

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use khz_model::{ByteSize, ChannelName, ChannelTerms, Interest, Nanos, Pattern, Rate};
use khz_record::{Missing, RecordError, Recorder, Rotation};
use serde_json::json;

use crate::command::job_nodes;
use crate::command::past::Span;
use crate::command::recording::of_error;
use crate::command::target::Target;
use crate::config::{NodeFlags, Plan};
use crate::role::signals;
use crate::show::misses;
use crate::show::outcome::{Done, Failure, Outcome, sentence};
use crate::show::quantities::{of_bytes, of_span, of_whole_span};
use crate::show::table::printable;

use flags::RecordFlags;
use group::{Group, Used};
use hub_end::Ending;
use hub_rows::HubRows;
use origin::{Absent, Origin, find_hub};
use program::Passed;
use progress::Progress;

const OUTPUT: &str = "recording.khzt";
/// The new name of the recording before.
const OUTPUT_BEFORE: &str = "recording.old.khzt";
const RATE: &str = "10Hz";
/// The most nodes with missing rows that are named. For more nodes, only their number is printed.
const NODES_NAMED_MAX: usize = 20;
/// The first signal ends the recording, or is passed on to the recorded program. The second one ends the wait for missing rows, and
/// a third one khz itself.
const SIGNALS_MAX: u32 = 2;
/// The link cannot carry rows of the store.
const FROM_HUB: &str =
    "--from asks the store of a hub at its HTTP door: name that with --server, not with --hub";
/// The time between two copies: a ring holds some seconds.
const POLL_PERIOD: Duration = Duration::from_millis(50);

/// The flags, checked.
struct Task {
    patterns: Vec<Pattern>,
    output: PathBuf,
    rotation: Rotation,
    span: Option<Duration>,
}

/// Records as the flags and the file of `--params` say.
pub fn run(mut flags: RecordFlags, outer: NodeFlags) -> Outcome {
    if let Some(path) = flags.params.take() {
        params::fill(&mut flags, &path)?;
    }
    let (_, plan) = super::plan(flags.settings.clone().over(outer))?;
    check_channel(&flags)?;
    let target = Target { server: flags.server.clone(), direct: false };
    let named = job_nodes::patterns(&flags.patterns, &target, &plan)?;
    let of_job = named.ended().and_then(|_| named.span()).filter(|_| flags.last.is_none());
    let task = Task::of(&flags, named.patterns)?;
    let past = match &flags.from {
        Some(from) => Some(Span::of(from, flags.to.as_deref())?),
        // The job has ended, so no more rows come.
        None => of_job,
    };
    if let Some(span) = past {
        if flags.hub.is_some() {
            return Err(Failure::usage(FROM_HUB));
        }
        return store_rows::record(&flags, &task, &plan, span);
    }
    if flags.to.is_some() || flags.server.is_some() && flags.freeze_on_failure.is_none() {
        return Err(Failure::usage("--to and --server need --from, which asks the store of a hub"));
    }
    match &flags.last {
        Some(last) => after_the_fact(&flags, &task, &plan, last.parse().map_err(Failure::usage)?),
        None => live(&flags, &task, &plan),
    }
}

/// Other settings beside a channel are refused, in a file of parameters as for flags.
fn check_channel(flags: &RecordFlags) -> Result<(), Failure> {
    let others = [
        ("patterns", !flags.patterns.is_empty()),
        ("a rate", flags.rate.is_some() || flags.exact),
        ("--last", flags.last.is_some()),
        ("--from", flags.from.is_some()),
        ("--direct", flags.direct),
    ];
    match others.into_iter().find(|(_, is_there)| *is_there).filter(|_| flags.channel.is_some()) {
        Some((other, _)) => Err(Failure::usage(format!(
            "--channel goes without {other}: a channel has its own series and its own rate, and rows as they come"
        ))),
        None => Ok(()),
    }
}

impl Task {
    fn of(flags: &RecordFlags, patterns: Vec<Pattern>) -> Result<Self, Failure> {
        let patterns = if flags.patterns.is_empty() { vec![Pattern::everything()] } else { patterns };
        let span: Option<Nanos> =
            flags.duration.as_deref().map(str::parse).transpose().map_err(Failure::usage)?;
        let rotation = rotation(flags.rotate.as_deref(), flags.keep)?;
        let output = flags.output.clone().unwrap_or_else(|| OUTPUT.into());
        Ok(Task { patterns, output, rotation, span: span.map(Duration::from) })
    }

    fn recorder(&self, flags: &RecordFlags, plan: &Plan) -> Result<Recorder, Failure> {
        let note = json!({
            "program": concat!("khz ", env!("CARGO_PKG_VERSION")),
            "recorded_on": plan.node.as_str(),
            "patterns": self.patterns.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "channel": flags.channel,
            "rate": flags.rate,
            "from": flags.from,
            "to": flags.to,
            "command": (!flags.command.is_empty()).then_some(&flags.command),
        });
        if flags.output.is_none() {
            keep_the_one_before()?;
        }
        Recorder::create(&self.output, self.rotation, note.to_string(), now()).map_err(of_error)
    }
}

/// Without `-o` an older recording is renamed, not overwritten.
fn keep_the_one_before() -> Result<(), Failure> {
    if khz_record::is_being_written(Path::new(OUTPUT)) {
        return Err(of_error(khz_record::RecordError::Busy { path: OUTPUT.into() }));
    }
    match std::fs::rename(OUTPUT, OUTPUT_BEFORE) {
        Ok(()) => crate::show::table::remark!("the {OUTPUT} that was here is {OUTPUT_BEFORE} now"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            return Err(Failure::Work(format!("cannot rename {OUTPUT} to {OUTPUT_BEFORE}: {error}")));
        }
    }
    Ok(())
}

/// `100MiB` or `10m`.
fn rotation(text: Option<&str>, keep: Option<u64>) -> Result<Rotation, Failure> {
    let keep = keep.map(|keep| keep as usize);
    let Some(text) = text else {
        return match keep {
            Some(_) => Err(Failure::usage("--keep needs --rotate: there is one file only")),
            None => Ok(Rotation::default()),
        };
    };
    if let Ok(ByteSize(bytes)) = text.parse() {
        return Ok(Rotation { bytes: Some(bytes), span: None, keep });
    }
    match text.parse::<Nanos>() {
        Ok(span) => Ok(Rotation { bytes: None, span: Some(span), keep }),
        Err(_) => Err(Failure::usage(format!("'{text}' is neither a size, as 100MiB, nor a time, as 10min"))),
    }
}

/// The time since boot.
pub fn now() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

fn after_the_fact(flags: &RecordFlags, task: &Task, plan: &Plan, span: Nanos) -> Outcome {
    let progress = Progress::new(flags.quiet, None);
    let hub = match flags.hub {
        Some(_) => find_hub(flags, plan)?,
        None => None,
    };
    let rate = RATE.parse().map_err(Failure::usage)?;
    let interest = Interest::new(task.patterns.clone(), rate, false);
    let hub = hub.map(|access| HubRows::start_past(&access, &interest, span)).transpose()?;
    let mut recorder = task.recorder(flags, plan)?;
    let (copied, absent) = match hub {
        Some(mut hub) => {
            let copied = hub.copy_past(&mut recorder).map_err(of_error)?;
            (copied, Absent::of(&hub, &task.patterns))
        }
        None => match rings::record(flags, plan, &task.patterns, span, &mut recorder) {
            Ok(misses) => {
                misses::print(&misses);
                (Ok(()), Absent { has_misses: !misses.is_empty(), ..Absent::default() })
            }
            Err(failure) => (Err(failure), Absent::default()),
        },
    };
    let path = recorder.path().to_owned();
    let end = if copied.is_ok() { "everything was copied" } else { "it was cut off" };
    let lacking = recorder.missing_by_node();
    let note = note_of(json!({ "end": end, "missing": absent.missing }), &recorder.missing());
    let counts = recorder.finish(&note.to_string()).map_err(of_error)?;
    progress.end(&counts, &path);
    remark_missing(&lacking, flags.quiet);
    copied?;
    Ok(done(absent.end(), &counts.missing))
}

/// The note with what is missing.
fn note_of(mut note: serde_json::Value, missing: &Missing) -> serde_json::Value {
    let Missing { rows, gaps, ticks, silences } = *missing;
    note["rows_missing"] = rows.into();
    note["gaps"] = gaps.into();
    note["ticks_without_row"] = ticks.into();
    note["silences"] = silences.into();
    note
}

/// Names the nodes with missing rows on stderr, each with its missing rows. With `is_quiet`, only those that change the exit code.
fn remark_missing(lacking: &[(String, Missing)], is_quiet: bool) {
    let is_named = |missing: &Missing| !is_quiet || missing.rows > 0 || missing.silences > 0;
    let lacking: Vec<_> = lacking.iter().filter(|(_, missing)| is_named(missing)).collect();
    for (node, missing) in lacking.iter().take(NODES_NAMED_MAX) {
        crate::show::table::remark!("{node}: {}", progress::lacking(missing).join(", "));
    }
    if lacking.len() > NODES_NAMED_MAX {
        crate::show::table::remark!("and of {} more nodes", lacking.len() - NODES_NAMED_MAX);
    }
}

/// Names the nodes that had no row up to the end on stderr, each with the time.
fn remark_silent(silent: &[(String, Nanos)]) {
    for (node, time) in silent.iter().take(NODES_NAMED_MAX) {
        let time = of_whole_span(time.0 as f64 / 1e9);
        crate::show::table::remark!("{}: no row in the last {time} of the recording", printable(node));
    }
    if silent.len() > NODES_NAMED_MAX {
        crate::show::table::remark!("and {} more nodes", silent.len() - NODES_NAMED_MAX);
    }
}

/// The end of the command with these missing rows. A busy machine may miss a tick: this is no failure, but a whole second of ticks
/// is.
fn done(nodes: Done, missing: &Missing) -> Done {
    let Missing { rows, ticks, silences, .. } = *missing;
    const WHY: &str = "nodes have stood still, or were out of reach";
    let ticks = progress::some(ticks, "tick", "ticks");
    let sentence = match (rows, silences) {
        _ if nodes != Done::Wholly => return nodes,
        (0, 0) => return nodes,
        (0, _) => format!("for {ticks} there is no row: {WHY}"),
        (1, 0) => "1 row is missing".to_owned(),
        (_, 0) => format!("{rows} rows are missing"),
        (..) => {
            let rows = progress::some(rows, "row is missing", "rows are missing");
            format!("{rows}, and for {ticks} there is none: {WHY}")
        }
    };
    Done::Lacking { sentence }
}

fn live(flags: &RecordFlags, task: &Task, plan: &Plan) -> Outcome {
    let rate: Rate = flags.rate.as_deref().unwrap_or(RATE).parse().map_err(Failure::usage)?;
    program::check(&flags.command)?;
    let passed = Passed::default();
    let signals = signals::count_signals(SIGNALS_MAX, {
        let passed = passed.clone();
        move |signal| passed.pass(signal)
    })?;
    let channel = flags.channel.as_deref().map(ChannelName::new).transpose();
    let channel = channel.map_err(|error| Failure::usage(sentence(&error)))?;
    // The hub knows the rest of a channel that it keeps.
    let channel = channel.map(|name| Arc::new(ChannelTerms::named(name)));
    let group = group_of(flags, plan);
    let mut patterns = task.patterns.clone();
    // The group does not exist yet, but is a part of the request.
    patterns
        .extend(group.as_ref().and_then(|group| Pattern::new(&format!("cgroup.*[{}]", group.name())).ok()));
    let interest = Interest { channel, ..Interest::new(patterns, rate, flags.exact) };
    let mut origin = Origin::start(flags, plan, &interest, &task.patterns)?;
    let mut recorder = task.recorder(flags, plan)?;
    origin.begin(&mut recorder).map_err(of_error)?;
    let mut child = match program::start(&flags.command, group.as_ref()) {
        Ok(child) => child,
        Err(failure) => {
            recorder.discard();
            return Err(failure);
        }
    };
    if let Some(child) = &child {
        passed.to(child);
    }
    let mut progress = Progress::new(flags.quiet, Some(rate));
    let until = task.span.and_then(|span| Instant::now().checked_add(span));
    let followed = follow(&mut origin, &mut recorder, &mut progress, &signals, until, &mut child);
    recorder.end_at(now());
    let code = program::end_of(&mut child, followed.is_ok(), &passed);
    // Freeze at once, since the rings overwrite old rows.
    failure::freeze(flags, plan, code);
    followed.map_err(of_error)?;
    let before = signals.load(Ordering::Relaxed);
    let is_wanted = || signals.load(Ordering::Relaxed) > before;
    let mut ending = Ending { is_wanted: &is_wanted, say: &mut |text| progress.say(text) };
    origin.finish(&mut recorder, &mut ending).map_err(of_error)?;
    let path = recorder.path().to_owned();
    let (dropped, absent) = (origin.dropped(), origin.absent(&task.patterns));
    let note = json!({ "end": "whole", "exit_code": code, "dropped": dropped, "missing": absent.missing });
    let mut note = note_of(note, &recorder.missing());
    let used = group.map(|group| (group.used(), group));
    note["control_group"] = used.as_ref().map(|(used, group)| group_note(group, used)).into();
    let silent = recorder.silent_at_end();
    note["silent_at_end"] = silent.keys().copied().collect();
    let silent: Vec<(String, Nanos)> =
        silent.into_iter().map(|(node, time)| (node.to_owned(), time)).collect();
    let lacking = recorder.missing_by_node();
    let counts = recorder.finish(&note.to_string()).map_err(of_error)?;
    progress.end(&counts, &path);
    if let Some((used, group)) = used.filter(|_| !flags.quiet) {
        remark_used(&group, &used);
    }
    remark_missing(&lacking, flags.quiet);
    remark_silent(&silent);
    if let Some(text) = origin.refused() {
        return Err(Failure::work(text));
    }
    if dropped > 0 {
        return Err(Failure::work(format!("{dropped} rows were given up: the disk was too slow for them")));
    }
    match code {
        Some(code) => Ok(Done::OfCommand(code)),
        None => Ok(done(absent.end(), &counts.missing)),
    }
}

/// Copies rows until the time is over, a signal comes, or the program ends.
fn follow(
    origin: &mut Origin,
    recorder: &mut Recorder,
    progress: &mut Progress,
    signals: &AtomicU32,
    until: Option<Instant>,
    child: &mut Option<Child>,
) -> Result<(), RecordError> {
    loop {
        origin.copy(recorder)?;
        recorder.tick(now())?;
        progress.draw(|| recorder.counts());
        let has_ended = child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
        // Signals are passed on to the program, and its end ends the recording.
        let is_stopped = origin.refused().is_some() || child.is_none() && signals.load(Ordering::Relaxed) > 0;
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if has_ended || is_stopped || left == Some(Duration::ZERO) {
            return Ok(());
        }
        std::thread::sleep(POLL_PERIOD.min(left.unwrap_or(POLL_PERIOD)));
    }
}

/// A control group for the program; `None`: there is no program, it is recorded only on another machine, or no group can be made.
fn group_of(flags: &RecordFlags, plan: &Plan) -> Option<Group> {
    let is_wanted = !flags.command.is_empty() && flags.channel.is_none() && plan.root == Path::new("/");
    match is_wanted.then(Group::make)? {
        Ok(group) => Some(group),
        Err(error) => {
            if !flags.quiet {
                crate::show::table::remark!(
                    "the program has no control group of its own ({error}), so its part of this machine's numbers is not in the recording"
                );
            }
            None
        }
    }
}

/// The program's group in the recording's note.
fn group_note(group: &Group, used: &Used) -> serde_json::Value {
    json!({
        "name": group.name(),
        "cpu_seconds": used.cpu.map(|cpu| cpu.0 as f64 / 1e9),
        "memory_peak": used.memory,
    })
}

/// Prints the resources that the program has used, and whether a part of it still runs.
fn remark_used(group: &Group, used: &Used) {
    let cpu = used.cpu.map(|cpu| format!("{} of CPU time", of_span(cpu.0 as f64 / 1e9)));
    let memory = used.memory.map(|bytes| format!("at most {} of memory", of_bytes(bytes as f64, "")));
    let used: Vec<String> = cpu.into_iter().chain(memory).collect();
    let name = printable(group.name());
    crate::show::table::remark!("the program used {} (cgroup.*[{name}])", used.join(", "));
    if !group.remove() {
        crate::show::table::remark!("what it has started goes on in its control group");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_is_a_size_or_a_time() {
        assert_eq!(rotation(Some("100MiB"), Some(3)).unwrap().bytes, Some(100 << 20));
        assert_eq!(rotation(Some("10min"), None).unwrap().span, Some(Nanos::from_secs(600)));
        assert_eq!(rotation(Some("5s"), None).unwrap().span, Some(Nanos::from_secs(5)));
        assert!(rotation(Some("often"), None).unwrap_err().to_string().contains("neither a size"));
        assert!(rotation(None, Some(3)).is_err());
    }
}
