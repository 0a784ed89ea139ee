//! The kernel texts that one reader wants, of any nodes. It writes each change once, after the rows, as fast as
//! the reader reads. It holds only the text that it is writing.

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

/// Memory of one wanted text, here and at its node, with the longest path.
const READ_BYTES: u64 = 1_024;

/// A text that the reader wants.
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
    /// The reader does not want the text any more.
    fn leave(&self, inbox: &Arc<TextInbox>, number: u32) {
        let mut node = self.node.lock();
        let (texts, link) = node.texts();
        texts.leave(self.wanted, inbox, number, link);
    }
}

/// All texts that one reader wants.
#[derive(Default)]
pub(crate) struct ReaderTexts {
    reads: HashMap<u32, Read>,
    inbox: Arc<TextInbox>,
    /// Texts of nodes that have not come yet: node, path, period. After a hub's restart its readers are back before its
    /// nodes.
    early: HashMap<u32, (NodeName, String, Nanos)>,
    /// [`Cluster::appeared`] and [`Cluster::forgotten`] when the nodes were last searched.
    changes: (u64, u64),
    /// Their share of the memory that readers may hold.
    share: Option<Share>,
    /// Texts that were refused.
    refusals: Vec<(u32, Why, String)>,
    saying: Option<TextSender>,
    /// The answer that follows the text being written.
    given: Option<TextGiven>,
    /// Requests that no node answers: for nodes that have not come, and for refused texts.
    unanswered: Vec<TextGiven>,
    /// The text that was written last.
    last: u32,
}

impl ReaderTexts {
    /// The reader wants a text, or wants it at another pace.
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
                format!(
                    "readers hold all of the {limit} bytes that they may: try again when other readers have gone"
                ),
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

    /// True if there is room for one more text, given the texts of all readers.
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

    /// The reader requests that a file is read now.
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

    /// Texts of forgotten nodes wait until a node of the name comes back, which is another node.
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

    /// Searches for nodes that had not come or were forgotten.
    fn find_nodes(&mut self, cluster: &Cluster, who: &Identity) {
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

    /// The reader does not want a text any more.
    pub fn unread(&mut self, number: u32) {
        self.early.remove(&number);
        self.saying.take_if(|saying| saying.number() == number);
        self.given.take_if(|given| given.number == number);
        if let Some(read) = self.reads.remove(&number) {
            read.leave(&self.inbox, number);
        }
    }

    /// True if there is something to write.
    pub fn has_news(&self) -> bool {
        let has_answers = !self.refusals.is_empty() || !self.unanswered.is_empty();
        self.inbox.has_news() || self.saying.is_some() || self.given.is_some() || has_answers
    }

    /// True if a node that appears may bring something to write: the inbox does not show that.
    pub fn is_waiting(&self) -> bool {
        !self.early.is_empty()
    }

    /// Writes news, as far as `out` has room.
    pub fn pump(&mut self, cluster: &Cluster, who: &Identity, out: &mut Vec<u8>) {
        self.find_nodes(cluster, who);
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
            // The text that the request brought is in the news: it came before the answer.
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
