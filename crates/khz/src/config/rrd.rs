//! The settings of .rrd files: what a hub records, where, and in which layout (the default, MRTG's, is in
//! `khz_rrdcached::recorder`).

use std::path::PathBuf;

use khz_model::{Nanos, Pattern, Rate};
use khz_rrdcached::recorder::Layout;

use super::values::{checked, file, items};
use super::{ConfigError, Layers};

/// Which series a hub records into .rrd files, and how.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Which series.
    pub patterns: Vec<Pattern>,
    /// How far apart the readings of a series are.
    pub every: Rate,
    /// Step and archives of the files.
    pub layout: Layout,
}

/// The directory of the files and what they record; `None` where no directory is set.
pub(super) fn recording(layers: &Layers) -> Result<Option<(PathBuf, Recording)>, ConfigError> {
    let patterns =
        checked(layers, "rrd_match", |text| Pattern::list(text).map_err(|error| error.to_string()))?;
    let layout = checked(layers, "rrd_layout", layout)?;
    let directory = checked(layers, "rrd", |text| Ok(file(text)))?;
    let recording = Recording { patterns, every: every(&layout), layout };
    Ok(directory.map(|directory| (directory, recording)))
}

/// `300,AVERAGE:0.5:1:600,...`; without any text MRTG's layout. The crate `rrd` checks the archives.
pub(super) fn layout(text: &str) -> Result<Layout, String> {
    let mut words = items(text);
    let Some(step) = words.next() else { return Ok(Layout::default()) };
    let step: u64 =
        step.parse().ok().filter(|step| (1..=86_400).contains(step)).ok_or_else(|| {
            format!("'{step}' is not a step in seconds, at most a day: 300,AVERAGE:0.5:1:600")
        })?;
    let archives: Vec<String> = words.map(str::to_owned).collect();
    if archives.is_empty() {
        return Err("it names no archive after the step: 300,AVERAGE:0.5:1:600".to_owned());
    }
    Ok(Layout { step, heartbeat: 2 * step, archives })
}

/// Five readings for each primary point, but at most one a second.
fn every(layout: &Layout) -> Rate {
    let seconds = (layout.step / 5).clamp(1, 86_400);
    Rate::from_period(Nanos::from_secs(seconds)).unwrap_or_else(|| unreachable!("BUG: a period within a day"))
}
