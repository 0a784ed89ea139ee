//! Channels that a reader has named, and that were changed or removed since: the reader gets the rows of the new definition, under
//! the number of its subscription.

use std::sync::Arc;

use super::{Feed, Reader};
use crate::cluster::Cluster;
use crate::turn::Turn;

impl Reader {
    /// Changes to the present definitions. Lanes of the previous definitions are closed after their last rows; channels that are
    /// no longer possible are refused.
    pub(super) fn follow_definitions(&mut self, cluster: &Arc<Cluster>, out: &mut Vec<u8>) {
        // In this order: a change between the two is found by the next call.
        let revision = cluster.channels.revision();
        if self.revision == revision {
            return;
        }
        // A reader that shows the list learns of the change first: otherwise rows of another lane would come
        // without a reason.
        if self.channels.as_mut().is_some_and(|list| !list.has_said(revision, cluster, out)) {
            return;
        }
        self.revision = revision;
        for at in (0..self.feeds.len()).rev() {
            let Feed { number, pace, named, .. } = &self.feeds[at];
            let (number, pace) = (*number, *pace);
            let Some((name, before)) = named else { continue };
            let (name, found) = (name.clone(), cluster.channels.find(name));
            if found.as_ref().is_ok_and(|interest| interest == before) {
                continue;
            }
            let present = found.and_then(|interest| {
                let feed = self.feed(cluster, number, interest.clone(), pace)?;
                Ok(Feed { named: Some((name, interest)), ..feed })
            });
            let mut before = self.feeds.remove(at);
            before.end(&mut self.numbering, cluster, out);
            match present {
                Ok(feed) => self.feeds.insert(at, feed),
                Err(text) => self.answers.push((number, Err(text))),
            }
        }
    }
}

impl Feed {
    /// Writes the remaining rows, and closes all lanes.
    fn end(&mut self, numbering: &mut super::Numbering, cluster: &Cluster, out: &mut Vec<u8>) {
        self.pump(numbering, cluster, &mut Turn::whole(), out);
        for lane in self.lanes.drain(..) {
            lane.end(out);
        }
    }
}
