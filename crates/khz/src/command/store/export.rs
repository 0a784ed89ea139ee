//! `khz store export`: a span of a store as a recording, which all commands read. It needs no hub, and reads a store also while
//! a hub writes it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use khz_block::trace::PastTrace;
use khz_model::{Budget, ByteSize, Nanos, Pattern, RANGE_STEP_READINGS, RangeRequest, RangeShape, Ranges};
use khz_record::{Counts, Recorder, Rotation};
use khz_store::StoreReader;
use khz_store::range::RangeReader;
use serde_json::json;

use crate::command::past::{Span, now};
use crate::command::past_chunks::PastChunks;
use crate::command::past_reason::ONLY_SUMMARIES;
use crate::command::recording::of_error;
use crate::config::StoreFlags;
use crate::show::outcome::{Done, Failure, Outcome, sentence};
use crate::show::table::say;

/// Examples for `khz store export --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz store export -o all.khzt      everything that this machine's hub stored
  khz store export /srv/khz -m 'node[1-8]:net.*' --from '2026-11-21 14:00:00' \\
          --to '2026-11-21 15:00:00' -o net.khzt
                                    an hour of some series of another store";

/// Memory for what is read at a time: an hour of one node.
const MEMORY: ByteSize = ByteSize(1 << 30);

/// `khz store export`.
#[derive(Debug, Args)]
pub struct StoreExportFlags {
    /// The directory of the store [default: that of this machine's hub].
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Write this recording.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Only these series: [NODES:]METRIC[INSTANCE]; may be given several times.
    #[arg(short = 'm', long = "match", value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// Only from this moment on: '2026-11-21 14:00:00', or how long ago, as -2h.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Only to this moment.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// The settings.
    #[command(flatten)]
    pub settings: StoreFlags,
}

/// Writes what the flags choose into a recording.
pub fn export(flags: &StoreExportFlags, directory: &Path, out: &mut impl Write) -> Outcome {
    let mut patterns = crate::command::patterns(&flags.patterns)?;
    if patterns.is_empty() {
        patterns.push(Pattern::everything());
    }
    let Span { from, to } = match (&flags.from, &flags.to) {
        (Some(from), to) => Span::of(from, to.as_deref())?,
        (None, Some(to)) => Span { from: Nanos(0), to: crate::command::past::moment("to", to)? },
        (None, None) => Span { from: Nanos(0), to: Nanos(u64::MAX) },
    };
    let failed = |error: &dyn std::error::Error| Failure::work(sentence(error));
    let store = StoreReader::open(directory).map_err(|error| failed(&error))?;
    let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()))
        .with_limits(Budget::new(MEMORY, Arc::default()), u64::MAX);
    let request =
        RangeRequest { patterns: patterns.clone(), from, to, shape: RangeShape::Steps(RANGE_STEP_READINGS) };
    let mut answer = reader.range(request).map_err(|error| failed(&error))?;
    let mut damage = store.damage().len();
    let note = json!({"store": directory.display().to_string()}).to_string();
    let begin =
        || Recorder::create(&flags.output, Rotation::default(), note.clone(), Nanos(0)).map_err(of_error);
    // The file is there also if it remains empty.
    let (mut recorder, mut chunks) = (Some(begin()?), PastChunks::new(&patterns));
    let (mut trace, mut bytes) = (PastTrace::new(now().0), Vec::new());
    loop {
        let part = answer.next().map_err(|error| failed(&error))?;
        let is_last = part.is_none();
        let taken = match part {
            Some(part) => trace.part(part, &mut bytes),
            None => trace.flush(&mut bytes),
        };
        taken.map_err(|error| failed(&error))?;
        damage += say_all(answer.damage());
        chunks.take(&bytes, &mut recorder, begin)?;
        bytes.clear();
        if is_last {
            break;
        }
    }
    let counts = recorder.map(|recorder| recorder.finish("{}").map_err(of_error)).transpose()?;
    let Counts { rows, nodes, .. } = counts.unwrap_or_default();
    writeln!(out, "{rows} rows of {nodes} nodes")?;
    out.flush()?;
    match (damage, rows) {
        (0, 0) => Err(nothing(&reader, patterns, Span { from, to })),
        (0, _) => Ok(Done::Wholly),
        _ => Err(Failure::Reported),
    }
}

/// Says that there are no rows of a time, and whether something else is left of it.
fn nothing(reader: &RangeReader, patterns: Vec<Pattern>, Span { from, to }: Span) -> Failure {
    let (shape, to) = (RangeShape::Points(1), to.min(now()));
    let summaries = reader.range(RangeRequest { patterns, from, to, shape }).and_then(|mut it| it.next());
    let reason = match summaries {
        Ok(Some(_)) => format!(": {ONLY_SUMMARIES}"),
        _ => String::new(),
    };
    Failure::work(format!("the store has nothing of these series in that time{reason}"))
}

fn say_all(sentences: Vec<String>) -> usize {
    sentences.iter().for_each(|sentence| say(sentence));
    sentences.len()
}
