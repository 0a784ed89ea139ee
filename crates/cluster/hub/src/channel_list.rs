//! The list of channels, for a reader that shows it: it writes the whole list when the reader wants it, and again after every
//! change. While it writes a list, it keeps only the rest.

use khz_link::DefinitionFrame;
use khz_link::definition;
use khz_model::Nanos;

use crate::channels::KnownChannel;
use crate::clock;
use crate::cluster::Cluster;

/// Time between two checks whether something has changed.
const PERIOD: Nanos = Nanos::SECOND;

/// One reader's place in the list.
#[derive(Debug)]
pub(crate) struct ChannelList {
    next: Nanos,
    /// The revision that was written last.
    written: Option<u64>,
    /// The names that must still be written, the last one first, and the number of channels in the
    /// list.
    rest: Option<(Vec<KnownChannel>, usize)>,
}

impl ChannelList {
    /// The list is due now.
    pub fn new() -> Self {
        ChannelList { next: Nanos(0), written: None, rest: None }
    }

    /// When to check again.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Writes what is due, unless `out` is full.
    pub fn pump(&mut self, cluster: &Cluster, out: &mut Vec<u8>) {
        let now = clock::boot();
        if now < self.next {
            return;
        }
        if self.rest.is_none() {
            self.begin(cluster, now);
        }
        let Some((rest, count)) = &mut self.rest else { return };
        while out.len() <= cluster.out_bytes_max() {
            let Some(KnownChannel { name, json }) = rest.pop() else {
                definition::put_end(out, *count);
                self.rest = None;
                self.next = Nanos(now.0 + PERIOD.0);
                return;
            };
            DefinitionFrame { name: &name, json: &json }.put(out);
        }
    }

    /// Writes the list of this revision now, unless it is already written. `false`: there is no room for the
    /// whole list.
    pub fn has_said(&mut self, revision: u64, cluster: &Cluster, out: &mut Vec<u8>) -> bool {
        if self.rest.is_some() || self.written < Some(revision) {
            self.next = Nanos(0);
            self.pump(cluster, out);
        }
        self.rest.is_none() && self.written >= Some(revision)
    }

    /// Takes the list if it has changed.
    fn begin(&mut self, cluster: &Cluster, now: Nanos) {
        // In this order: a change between the two is found by the next check.
        let revision = cluster.channels.revision();
        if self.written == Some(revision) {
            self.next = Nanos(now.0 + PERIOD.0);
            return;
        }
        let mut list = cluster.channels.list();
        list.reverse();
        let count = list.len();
        (self.written, self.rest) = (Some(revision), Some((list, count)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use khz_link::{Frame, frame, limits::FRAME_MAX};
    use khz_model::{ByteSize, ChannelName, Interest, Rate};

    use super::*;
    use crate::channels::KnownChannels;
    use crate::cluster::Settings;

    /// As many channels as the revision says.
    struct Growing(AtomicU64);

    impl KnownChannels for Growing {
        fn find(&self, _: &ChannelName) -> Option<Interest> {
            None
        }
        fn revision(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
        fn list(&self) -> Vec<KnownChannel> {
            let channel = |n| KnownChannel { name: format!("c{n}"), json: format!("{{\"name\":\"c{n}\"}}") };
            (0..self.revision()).map(channel).collect()
        }
    }

    /// The names in these bytes, and their number if the list ends there.
    fn listed(bytes: &[u8]) -> (Vec<String>, Option<u64>) {
        let (mut at, mut names, mut end) = (0, Vec::new(), None);
        while let Some(found) = frame::split(&bytes[at..], FRAME_MAX).expect("whole frames") {
            match Frame::decode(found.kind, found.body).expect("a frame") {
                Frame::Definition(defined) => {
                    assert_eq!(defined.json, format!("{{\"name\":\"{}\"}}", defined.name));
                    names.push(defined.name.to_owned());
                }
                Frame::Definitions { count } => end = Some(count),
                other => panic!("{other:?}"),
            }
            at += found.length;
        }
        (names, end)
    }

    fn at(seconds: u64) {
        clock::played::NOW.set(Some(Nanos::from_secs(1_000 + seconds)));
    }

    #[test]
    fn the_list_comes_whole_and_again_only_after_a_change_and_a_slow_reader_goes_on_where_it_was() {
        let rate_max = Rate::from_hz(1_000).expect("a rate");
        let cluster = Cluster::new(Settings { name: "hub".into(), history: ByteSize(0), rate_max }, [7; 16]);
        let kept = Arc::new(Growing(AtomicU64::new(2)));
        cluster.know_channels(kept.clone());
        let (mut list, mut out) = (ChannelList::new(), Vec::new());
        at(0);
        list.pump(&cluster, &mut out);
        assert_eq!(listed(&out), (vec!["c0".to_owned(), "c1".to_owned()], Some(2)));
        out.clear();
        at(1);
        list.pump(&cluster, &mut out);
        assert!(out.is_empty(), "nothing has changed");
        kept.0.store(3, Ordering::Relaxed);
        list.pump(&cluster, &mut out);
        assert!(out.is_empty(), "it is not due");
        at(2);
        // The list stops when `out` is full, and continues there.
        let full = cluster.out_bytes_max();
        out = vec![0; full];
        list.pump(&cluster, &mut out);
        assert_eq!(listed(&out.split_off(full)), (vec!["c0".to_owned()], None));
        out.clear();
        list.pump(&cluster, &mut out);
        assert_eq!(listed(&out), (vec!["c1".to_owned(), "c2".to_owned()], Some(3)));
        clock::played::NOW.set(None);
    }

    #[test]
    fn where_nobody_keeps_channels_the_list_is_empty_and_ends() {
        let rate_max = Rate::from_hz(1_000).expect("a rate");
        let cluster = Cluster::new(Settings { name: "hub".into(), history: ByteSize(0), rate_max }, [7; 16]);
        let mut out = Vec::new();
        at(0);
        ChannelList::new().pump(&cluster, &mut out);
        assert_eq!(listed(&out), (vec![], Some(0)));
        clock::played::NOW.set(None);
    }
}
