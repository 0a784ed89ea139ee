//! Makes bundles of the log's blocks, one at a time. It holds no lock while it reads, computes and writes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use khz_model::NodeName;

use crate::StoreError;
use crate::limits::{BUNDLE_BLOCKS, BUNDLE_BLOCKS_LEAST};
use crate::log::bundles::{self, Bundles};
use crate::log::bundling::Bundling;
use crate::log::index::{Entry, InBundle, Index};

/// Makes bundles. There is one for each log.
#[derive(Debug)]
pub struct Bundler {
    index: Arc<RwLock<Index>>,
    bundles: Arc<Bundles>,
    bundling: Bundling,
    /// Fewer blocks make no bundle.
    least: usize,
}

impl Bundler {
    pub(crate) fn new(index: Arc<RwLock<Index>>, bundles: Arc<Bundles>) -> Self {
        Bundler { index, bundles, bundling: Bundling::default(), least: BUNDLE_BLOCKS_LEAST }
    }

    /// From now on so few blocks make a bundle.
    pub fn least(&mut self, least: usize) {
        self.least = least.max(1);
    }

    /// True if there are blocks for a bundle.
    pub fn has_work(&self) -> bool {
        self.next().is_some()
    }

    fn next(&self) -> Option<Vec<Entry>> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        bundles::next(&index, self.least, BUNDLE_BLOCKS)
    }

    /// Makes the next bundle. Returns how many blocks were looked at, and are or cannot be in one; 0: there is nothing to do.
    pub fn make(&mut self) -> Result<usize, StoreError> {
        let Some(blocks) = self.next() else { return Ok(0) };
        let (looked, left) = self.take(&blocks);
        let (segment, blocks) = (blocks[0].segment.number, &blocks[..looked]);
        let nodes: HashSet<&NodeName> = blocks.iter().map(|entry| entry.lane.node()).collect();
        let made = match self.bundling.count() {
            0 => None,
            _ => Some(self.bundles.add(segment, &self.bundling.finish(nodes.len()))?),
        };
        self.tell(left, |_| InBundle::Never);
        if let Some((bundle, bundled)) = made {
            let places: HashMap<u64, u32> = bundled.iter().map(|block| block.at).zip(0..).collect();
            let within = blocks.iter().filter(|entry| places.contains_key(&entry.at)).collect();
            let is_told = self.tell(within, |entry| InBundle::At(bundle.clone(), places[&entry.at]));
            if !is_told {
                // Somebody has removed the segment meanwhile.
                self.bundles.remove(segment);
            }
        }
        Ok(looked)
    }

    /// Turns blocks into columns, until the bundle is full. Returns how many were looked at, and which of them are none for it.
    fn take<'a>(&mut self, blocks: &'a [Entry]) -> (usize, Vec<&'a Entry>) {
        self.bundling.begin(blocks[0].schema.series().len());
        let (mut looked, mut left) = (0, Vec::new());
        for entry in blocks {
            if self.bundling.is_full() {
                break;
            }
            looked += 1;
            // Damaged blocks are reported to the readers of their rows.
            if !entry.read().is_ok_and(|block| self.bundling.add(entry.at, &block)) {
                left.push(entry);
            }
        }
        (looked, left)
    }

    /// Says of blocks where they are. False: none of them is in the log any more.
    fn tell(&self, blocks: Vec<&Entry>, place: impl Fn(&Entry) -> InBundle) -> bool {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let mut is_told = false;
        for entry in blocks {
            if let Some(entry) = index.block(entry.lane.node(), entry.segment.number, entry.at) {
                entry.bundle = place(entry);
                is_told = true;
            }
        }
        is_told
    }
}
