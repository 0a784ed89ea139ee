//! This node, read in this process: the one place where the binary joins the stages. (The gather stage is
//! not joined yet; what needs it says so.)

use std::path::Path;
use std::sync::Arc;

use khz_model::{Interest, Metric, Pattern};

use crate::answer::Answer;
use crate::ask::Stream;
use crate::check::SourceCost;
use crate::config::Plan;
use crate::outcome::{Failure, Outcome};

/// The names of the sources that exist.
pub fn source_names() -> Vec<&'static str> {
    khz_parse::files().iter().map(|file| file.name).collect()
}

/// The host name that the kernel below `root` goes by.
pub fn host_name(root: &Path) -> String {
    std::fs::read_to_string(root.join("proc/sys/kernel/hostname"))
        .unwrap_or_else(|_| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// Every metric of the catalogue.
pub fn metrics() -> Vec<Arc<Metric>> {
    khz_parse::catalogue()
}

/// The latest readings, gathered now.
pub fn latest(_plan: &Plan, _patterns: &[Pattern]) -> Result<Answer, Failure> {
    Err(Failure::work("this build cannot gather yet"))
}

/// Rows, gathered by this process.
pub fn rows(_plan: &Plan, _interest: Interest) -> Result<Stream, Failure> {
    Err(Failure::work("this build cannot gather yet"))
}

/// The cluster of one.
pub fn watch_over(_plan: &Plan) -> Outcome {
    Err(Failure::work("this build cannot gather yet"))
}

/// What each source holds and costs.
pub fn probe(_plan: &Plan) -> Result<Vec<SourceCost>, Failure> {
    Err(Failure::work("this build cannot gather yet"))
}
