//! Past rows from the store of a hub: `khz record --from`. The hub builds blocks from them, which are written as they come.

use khz_ask::{Past, PastBytes, Server};
use khz_block::trace::{HEADER_BYTES, check_header};
use khz_model::RangeShape;
use khz_record::Recorder;
use serde_json::json;

use super::flags::RecordFlags;
use super::progress::Progress;
use super::{Task, done, note_of, remark_missing};
use crate::command::past::{self, Span, Within};
use crate::command::past_chunks::{End, PastChunks};
use crate::command::recording::of_error;
use crate::command::target::Target;
use crate::config::Plan;
use crate::show::outcome::{Done, Failure, Outcome, sentence};

/// Records what the store has of this span.
pub fn record(flags: &RecordFlags, task: &Task, plan: &Plan, span: Span) -> Outcome {
    if task.rotation.span.is_some() {
        return Err(Failure::usage(
            "with --from, --rotate takes a size, as 100MiB: the rows do not come as time passes",
        ));
    }
    let target = Target { server: flags.server.clone(), direct: false };
    let past =
        Past { patterns: task.patterns.clone(), from: span.from, to: span.to, shape: RangeShape::Rows };
    let server = target.running(plan)?;
    let mut answer = server.past_recording(past)?;
    let (mut recorder, mut chunks) = (None, PastChunks::new(&task.patterns));
    let mut progress = Progress::new(flags.quiet, None);
    let copied = copy(
        &mut answer,
        &mut chunks,
        &mut recorder,
        || task.recorder(flags, plan),
        |counts, chunks| {
            progress.draw_share(counts, share(span, chunks));
        },
    );
    let Some(recorder) = recorder else {
        copied?;
        return end_of(&server, &chunks, span);
    };
    let path = recorder.path().to_owned();
    let end = if copied.is_ok() { "everything was copied" } else { "it was cut off" };
    let lacking = recorder.missing_by_node();
    let note = note_of(json!({ "end": end }), &recorder.missing());
    let counts = recorder.finish(&note.to_string()).map_err(of_error)?;
    progress.end(&counts, &path);
    remark_missing(&lacking, flags.quiet);
    copied?;
    match end_of(&server, &chunks, span)? {
        Done::Wholly => Ok(done(Done::Wholly, &counts.missing)),
        partly => Ok(partly),
    }
}

/// How the command ends after this.
fn end_of(server: &Server, chunks: &PastChunks, span: Span) -> Outcome {
    let found = &chunks.found;
    past::end(server, &found.lacking(), found.is_nothing(), chunks.is_damaged, Within::Rows(span))
}

fn copy(
    answer: &mut PastBytes,
    chunks: &mut PastChunks,
    recorder: &mut Option<Recorder>,
    mut begin: impl FnMut() -> Result<Recorder, Failure>,
    mut draw: impl FnMut(&Recorder, &PastChunks),
) -> Result<(), Failure> {
    let (mut bytes, mut is_begun) = (Vec::new(), false);
    while answer.read(&mut bytes)? {
        if !is_begun {
            if bytes.len() < HEADER_BYTES {
                continue;
            }
            check_header(&bytes).map_err(|error| Failure::work(sentence(&error)))?;
            bytes.drain(..HEADER_BYTES);
            is_begun = true;
        }
        let taken = chunks.take(&bytes, recorder, &mut begin)?;
        bytes.drain(..taken);
        if let Some(recorder) = recorder {
            draw(recorder, chunks);
        }
        match &chunks.end {
            None => {}
            Some(End::Whole) => return Ok(()),
            Some(End::Stopped(why)) => return Err(Failure::work(why)),
            Some(End::Damaged(problem)) => return Err(answer.broke_off(problem).into()),
        }
    }
    Err(answer.broke_off("it has no end").into())
}

/// How much of the time is done, in percent. In each hour, nodes come one after the other, so the value grows in steps.
fn share(span: Span, chunks: &PastChunks) -> u64 {
    let (passed, all) = (chunks.reached.since(span.from).0, span.to.since(span.from).0.max(1));
    (u128::from(passed) * 100 / u128::from(all)).min(100) as u64
}
