//! The kernel texts that one reader wants, of whichever nodes: each change is told him once, behind his rows, and as far
//! as he reads. It holds no text but the one that is being said.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_link::limits::READS_MAX;
use khz_link::texts::{NoText, ReadFrame, TextGiven, TextSender, Why, is_text_path};
use khz_link::{Reason, Reject};
use khz_model::{Nanos, NodeName, Rate, Share};
use khz_trust::Identity;

use crate::cluster::Cluster;
use crate::node::SharedNode;
use crate::texts::{News, TextInbox};

/// What a wish takes, here and at its node, with the longest path.
const READ_BYTES: u64 = 1_024;

/// A wish of the reader.
struct Read {
    node: Arc<SharedNode>,
    path: String,
    period: Nanos,
    /// The node's number for it.
    wanted: u32,
    /// The version that the reader has.
    version: u32,
}

impl Read {
    /// The reader does not want it any more.
    fn leave(&self, inbox: &Arc<TextInbox>, number: u32) {
        let mut node = self.node.lock();
        let (texts, link) = node.texts();
        texts.leave(self.wanted, inbox, number, link);
    }
}

/// All of them.
#[derive(Default)]
pub(crate) struct ReaderTexts {
    reads: HashMap<u32, Read>,
    inbox: Arc<TextInbox>,
    /// Wishes for nodes that have not come yet: node, path, period. After a hub has begun anew its readers are there before its
    /// nodes.
    early: HashMap<u32, (NodeName, String, Nanos)>,
    /// [`Cluster::appeared`] and [`Cluster::forgotten`] when the nodes were looked up last.
    changes: (u64, u64),
    /// What all of them hold of what readers may.
    share: Option<Share>,
    /// Wishes that came to nothing.
    refusals: Vec<(u32, Why, String)>,
    saying: Option<TextSender>,
    /// What is to be said after the text that is being said.
    given: Option<TextGiven>,
    /// Asks that nobody answers: for nodes that have not come, and for wishes that came to nothing.
    unanswered: Vec<TextGiven>,
    /// The wish that was looked after last.
    last: u32,
}

impl ReaderTexts {
    /// A new wish, or another pace for one that stands.
    pub fn read(&mut self, cluster: &Cluster, who: &Identity, wish: &ReadFrame<'_>) -> Result<(), Reject> {
        if self.reads.len() + self.early.len() >= READS_MAX && !self.reads.contains_key(&wish.number) {
            let text = format!("more than {READS_MAX} kernel texts on one connection");
            return Err(Reject { reason: Reason::Full, text });
        }
        if let Err((why, text)) = self.open(cluster, who, wish) {
            self.refusals.push((wish.number, why, text));
        }
        Ok(())
    }

    fn open(&mut self, cluster: &Cluster, who: &Identity, wish: &ReadFrame<'_>) -> Result<(), (Why, String)> {
        let &ReadFrame { number, node, period, path } = wish;
        let not_allowed = |text: String| (Why::NotAllowed, text);
        let rate =
            Rate::from_period(period).ok_or_else(|| not_allowed("there is no such rate".to_owned()))?;
        if !who.role.may_read_at(rate) {
            return Err(not_allowed(format!("{who} may not read at {rate}")));
        }
        if !path.is_empty() && !is_text_path(path) {
            return Err(not_allowed("that is not the name of a file below /proc".to_owned()));
        }
        let name =
            NodeName::new(node).map_err(|error| (Why::Missing, format!("'{node}': {}", error.problem)))?;
        self.early.remove(&number);
        if !self.reads.contains_key(&number) && !self.has_room(cluster) {
            let limit = cluster.follow_bytes_max();
            return Err((
                Why::TooMany,
                format!("readers hold the {limit} bytes that they may; try again when others have gone"),
            ));
        }
        let Some(shared) = cluster.node(&name) else {
            self.early.insert(number, (name, path.to_owned(), period));
            return Ok(());
        };
        if let Some(read) = self.reads.get_mut(&number) {
            if read.path == path && Arc::ptr_eq(&read.node, &shared) {
                read.period = period;
                let mut node = shared.lock();
                let (texts, link) = node.texts();
                texts.pace(read.wanted, &self.inbox, number, period, link);
                return Ok(());
            }
            self.unread(number);
        }
        let wanted = {
            let mut node = shared.lock();
            let (texts, link) = node.texts();
            texts.want(path, (&self.inbox, number, period), link, &cluster.text_bytes)?
        };
        self.reads.insert(number, Read { node: shared, path: path.to_owned(), period, wanted, version: 0 });
        Ok(())
    }

    /// Whether there is room for one wish more beside what all readers hold.
    fn has_room(&mut self, cluster: &Cluster) -> bool {
        let held = (self.reads.len() + self.early.len() + 1) as u64 * READ_BYTES;
        match &self.share {
            Some(share) if held <= share.bytes() => true,
            Some(share) => cluster.may_follow(READ_BYTES) && share.set(held),
            None => {
                self.share = cluster.may_follow(held).then(|| cluster.follow_bytes.take(held)).flatten();
                self.share.is_some()
            }
        }
    }

    /// A file that is wanted is to be read at once.
    pub fn ask(&mut self, number: u32, ask: u32) {
        match self.reads.get(&number) {
            Some(read) => {
                let mut node = read.node.lock();
                let (texts, link) = node.texts();
                texts.request(read.wanted, &self.inbox, (number, ask), link);
            }
            None => self.unanswered.push(TextGiven { number, ask, is_read: false }),
        }
    }

    /// What is wanted of nodes that were forgotten waits for those that come back: these are others.
    fn put_back_forgotten(&mut self) {
        let is_gone = |node: &SharedNode| !node.up.load(Ordering::Relaxed) && node.is_forgotten();
        let reads = self.reads.iter().filter(|(_, read)| is_gone(&read.node));
        let forgotten: Vec<_> =
            reads.map(|(&n, read)| (n, (read.node.name.clone(), read.path.clone(), read.period))).collect();
        for (number, wish) in forgotten {
            self.unread(number);
            self.early.insert(number, wish);
        }
    }

    /// Looks again for nodes that had not come, and for those that were forgotten: one that comes back is another.
    fn look_for_nodes(&mut self, cluster: &Cluster, who: &Identity) {
        let changes = (cluster.appeared(), cluster.forgotten());
        let before = std::mem::replace(&mut self.changes, changes);
        if before == changes {
            return;
        }
        if before.1 != changes.1 {
            self.put_back_forgotten();
        }
        let come: Vec<_> = self.early.extract_if(|_, (node, ..)| cluster.node(node).is_some()).collect();
        for (number, (node, path, period)) in come {
            let wish = ReadFrame { number, node: node.as_str(), period, path: &path };
            if let Err((why, text)) = self.open(cluster, who, &wish) {
                self.refusals.push((number, why, text));
            }
        }
    }

    /// A wish is taken back.
    pub fn unread(&mut self, number: u32) {
        self.early.remove(&number);
        self.saying.take_if(|saying| saying.number() == number);
        self.given.take_if(|given| given.number == number);
        if let Some(read) = self.reads.remove(&number) {
            read.leave(&self.inbox, number);
        }
    }

    /// True where there is something to say.
    pub fn has_news(&self) -> bool {
        let has_answers = !self.refusals.is_empty() || !self.unanswered.is_empty();
        self.inbox.has_news() || self.saying.is_some() || self.given.is_some() || has_answers
    }

    /// True where there may be something to say later, though nobody will tell.
    pub fn is_waiting(&self) -> bool {
        !self.early.is_empty()
    }

    /// Says it, as far as `out` has room.
    pub fn pump(&mut self, cluster: &Cluster, who: &Identity, out: &mut Vec<u8>) {
        self.look_for_nodes(cluster, who);
        for (number, why, text) in self.refusals.drain(..) {
            NoText { number, why, text: &text }.put(out);
        }
        self.unanswered.drain(..).for_each(|given| given.put(out));
        while out.len() <= cluster.out_bytes_max() {
            if let Some(saying) = &mut self.saying {
                if !saying.say(out) {
                    self.saying = None;
                }
                continue;
            }
            if let Some(given) = self.given.take() {
                given.put(out);
                continue;
            }
            let Some(number) = self.inbox.take(self.last) else { return };
            self.last = number;
            let Some(read) = self.reads.get_mut(&number) else { continue };
            let mut node = read.node.lock();
            let (texts, _) = node.texts();
            let news = texts.news(read.wanted, read.version);
            // What the ask has brought is in the news: it came before the answer.
            self.given = texts.take_answer(read.wanted, &self.inbox, number);
            drop(node);
            match news {
                News::Text(text) => {
                    read.version = text.version;
                    self.saying = Some(TextSender::new(number, text));
                }
                News::None(why, text) => NoText { number, why, text: &text }.put(out),
                News::Nothing => {}
            }
        }
    }
}

impl Drop for ReaderTexts {
    fn drop(&mut self) {
        for (number, read) in self.reads.drain() {
            read.leave(&self.inbox, number);
        }
    }
}
