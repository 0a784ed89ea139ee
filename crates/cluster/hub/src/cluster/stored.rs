//! What the cluster gives to a store: the rows of base lanes. It knows no file.

use khz_model::{Nanos, NodeName};
use khz_store::log::{Intake, LoggedBlock};

use super::Cluster;
use crate::clock;

impl Cluster {
    /// From now on the rows of base lanes go into this log. The first call counts; it comes before the first node.
    pub fn log_to(&self, intake: Intake) {
        let _ = self.intake.set(intake);
    }

    /// Where the rows of base lanes go, if there is a store.
    pub(crate) fn intake(&self) -> Option<&Intake> {
        self.intake.get()
    }

    /// The newest rows of a node, which are in no block of the log yet; `None`: it has none, or there is no store.
    pub fn open_blocks(&self, node: &NodeName) -> Option<LoggedBlock> {
        self.node(node)?.lock().lanes().base()?.open_for_log()
    }

    /// Hands open blocks to the log that began this long ago: those of silent nodes, which may never end, and of nodes with
    /// a slow base lane. With an age of 0, as at the end of the program, all of them.
    pub fn hand_over(&self, age: Nanos) {
        let now = clock::boot();
        for node in self.nodes() {
            if let Some(base) = node.lock().lanes_mut().base_mut() {
                base.hand_over(age, now);
            }
        }
    }
}
