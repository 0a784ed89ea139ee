//! `khz store compact`: does at once all that a hub's thread would do in time: the log becomes columns, hours that are over
//! are merged and rolled up, and what is too old or too much is removed.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use khz_store::Store;
use khz_store::compact::Step;

use super::open;
use crate::config::{Plan, StoreFlags};
use crate::role::store::now;
use crate::show::outcome::{Done, Failure, Outcome, sentence};
use crate::show::table::say;

/// Examples for `khz store compact --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz store compact /srv/khz        while no hub writes there
  khz store compact /srv/khz --keep 5GiB
                                    the same, with the oldest hours removed";

/// `khz store compact`.
#[derive(Debug, Args)]
pub struct StoreCompactFlags {
    /// The directory of the store [default: that of this machine's hub].
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The settings.
    #[command(flatten)]
    pub settings: StoreFlags,
}

/// Compacts a store that no hub writes.
pub fn compact(directory: &Path, plan: &Plan, out: &mut impl Write) -> Outcome {
    let (store, _) = open(directory, plan)?;
    all(&store, out)
}

/// Does everything that is to be done, and says each step.
pub fn all(store: &Store, out: &mut impl Write) -> Outcome {
    let failed = |error: &dyn std::error::Error| Failure::work(sentence(error));
    store.commit(now()).map_err(|error| failed(&error))?;
    store.seal();
    loop {
        let tick = store.tick_compaction(now()).map_err(|error| failed(&error))?;
        for damage in &tick.damage {
            say(&format!("{damage}; what is whole is kept"));
        }
        for unit in &tick.removed {
            writeln!(out, "{unit}: removed")?;
        }
        match tick.step {
            Step::Nothing if tick.removed.is_empty() => break,
            Step::Nothing => {}
            Step::Segment { number, rows } => writeln!(out, "segment {number}: {rows} rows are columns now")?,
            // It makes questions quicker while the hub runs, and is nothing to tell.
            Step::Bundled { .. } => {}
            // The next step tries again.
            Step::NoRoom => {}
            Step::Merged { unit, pieces } => writeln!(out, "{unit}: {pieces} files merged")?,
            Step::Dropped { rows } => writeln!(out, "the log has no room: {rows} rows are dropped")?,
        }
        out.flush()?;
    }
    writeln!(out, "nothing is left to do")?;
    out.flush()?;
    Ok(Done::Wholly)
}
