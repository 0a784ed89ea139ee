//! A reader on a link: another hub, a recorder, a program. It sends interests and gets, for each node that an
//! interest speaks of, a lane of its own with the columns that it selects, encoded as blocks.

use std::sync::Arc;

use khz_block::{Decoder, Encoder, HEADER_BYTES, SchemaEncoder};
use khz_link::frame::kind;
use khz_link::{End, InterestFrame, LaneOffer, Reason, Reject, Told, put};
use khz_model::{Interest, Misses, Nanos, Pattern, Rate, Reading, Row, Series, Stamp};
use khz_trust::Identity;
use ring::digest::{SHA256, digest};

use crate::cluster::Cluster;
use crate::counts::Counts;
use crate::follow::{Columns, Follower, Seen};
use crate::limits::INTERESTS_MAX;
use crate::query::{ClusterSubscription, HubQuery, Pace};
use crate::reader_texts::ReaderTexts;
use crate::roster::Roster;

/// Somebody who wants rows.
pub(crate) struct Reader {
    pub identity: Identity,
    /// It is a hub that gets its nodes from here.
    pub is_hub: bool,
    feeds: Vec<Feed>,
    lanes_made: u32,
    /// Where the epochs of its lanes begin.
    epochs: u64,
    /// Answers that wait for the next pump: there is no room for them where interests come in.
    answers: Vec<(u32, Result<Rate, String>)>,
    /// What of an interest nobody has, said behind its answer.
    remarks: Vec<(u32, String)>,
    /// It wants to know how the nodes are.
    roster: Option<Roster>,
    /// Kernel texts that it wants.
    pub texts: ReaderTexts,
}

/// One interest of a reader.
struct Feed {
    number: u32,
    pace: Pace,
    subscription: ClusterSubscription,
    lanes: Vec<FeedLane>,
    /// The follower that is looked after first.
    next: usize,
    /// It, or a lane of it, was not wanted a moment ago: nobody waits for the next flush to see the newest row.
    fresh: bool,
}

/// The lane of one node for one interest.
struct FeedLane {
    number: u32,
    epoch: u64,
    wanted: bool,
    /// Nothing more comes in it.
    is_over: bool,
    generation: u32,
    columns: Option<Arc<Vec<Series>>>,
    /// The row that was the newest when the lane was offered: it is the first to be sent when the lane is wanted.
    held: Option<Row>,
    /// Columns that the schema has room for.
    width: usize,
    encoder: Encoder,
    schema: Vec<u8>,
    /// How much of the schema was sent.
    schema_sent: usize,
    /// The row under construction, kept for its memory.
    bytes: Vec<u8>,
}

impl Reader {
    pub fn new(identity: Identity, is_hub: bool, epochs: u64) -> Self {
        Reader {
            identity,
            is_hub,
            feeds: Vec::new(),
            lanes_made: 0,
            epochs,
            answers: Vec::new(),
            remarks: Vec::new(),
            roster: None,
            texts: ReaderTexts::default(),
        }
    }

    /// A new interest.
    pub fn interest(&mut self, cluster: &Arc<Cluster>, frame: &InterestFrame<'_>) -> Result<(), Reject> {
        if self.feeds.len() >= INTERESTS_MAX {
            let text = format!("more than {INTERESTS_MAX} interests on one connection");
            return Err(Reject { reason: Reason::Full, text });
        }
        let answer = self.open(cluster, frame);
        self.answers.push((frame.number, answer));
        Ok(())
    }

    fn open(&mut self, cluster: &Arc<Cluster>, frame: &InterestFrame<'_>) -> Result<Rate, String> {
        let rate = Rate::from_period(frame.period).ok_or("no such rate")?;
        if !self.identity.role.may_read_at(rate) {
            return Err(format!(
                "{} may not read at {rate}: above 100Hz the operator role is needed",
                self.identity
            ));
        }
        let ceiling = cluster.settings.rate_max;
        if rate.period() < ceiling.period() {
            return Err(format!("{rate} is above this hub's ceiling of {ceiling}"));
        }
        let patterns: Result<Vec<Pattern>, _> = frame.patterns().map(Pattern::new).collect();
        let patterns = patterns.map_err(|error| error.to_string())?;
        let misses = Misses::of(&&HubQuery::new(cluster.clone()), &patterns).sentences();
        self.remarks.extend(misses.into_iter().map(|text| (frame.number, text)));
        let interest = Interest { patterns, rate, exact: frame.exact };
        let pace = match (frame.past, frame.prompt) {
            (true, _) => Pace::Past,
            (false, true) => Pace::Prompt,
            (false, false) => Pace::Flushed,
        };
        let subscription = ClusterSubscription::new(cluster.clone(), interest, pace);
        let subscription = subscription.map_err(|error| error.to_string())?;
        self.dismiss(frame.number);
        self.feeds.push(Feed {
            number: frame.number,
            pace,
            subscription,
            lanes: Vec::new(),
            next: 0,
            fresh: true,
        });
        Ok(rate)
    }

    /// An interest is taken back.
    pub fn dismiss(&mut self, number: u32) {
        self.feeds.retain(|feed| feed.number != number);
    }

    /// Wants to know how the nodes are, or does not any more.
    pub fn roster(&mut self, wanted: bool) {
        match wanted {
            true if self.roster.is_none() => self.roster = Some(Roster::new()),
            true => {}
            false => self.roster = None,
        }
    }

    /// A lane that was offered is wanted; one of the past, so far back.
    pub fn want(&mut self, lane: u32, span: Nanos) {
        self.set_wanted(lane, true);
        for feed in self.feeds.iter_mut().filter(|feed| feed.pace == Pace::Past) {
            let Some(at) = feed.lanes.iter().position(|known| known.number == lane) else { continue };
            feed.lanes[at].held = None;
            if let Some(follower) = feed.subscription.followers().get_mut(at) {
                follower.rewind(span);
            }
        }
    }

    /// It is not wanted any more.
    pub fn leave(&mut self, lane: u32) {
        self.set_wanted(lane, false);
    }

    fn set_wanted(&mut self, number: u32, wanted: bool) {
        for feed in &mut self.feeds {
            let Some(at) = feed.lanes.iter().position(|lane| lane.number == number) else { continue };
            let was_wanted = std::mem::replace(&mut feed.lanes[at].wanted, wanted);
            if wanted && !was_wanted {
                feed.fresh = true;
            }
        }
    }

    /// True where some interest wants every row at once.
    pub fn is_prompt(&self) -> bool {
        self.feeds.iter().any(|feed| feed.pace == Pace::Prompt)
    }

    /// True where nothing waits for a flush.
    pub fn is_all_prompt(&self) -> bool {
        self.roster.is_none() && self.feeds.iter().all(|feed| feed.pace == Pace::Prompt)
    }

    /// True where an interest waits for its answer, or for its first rows.
    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty() || self.feeds.iter().any(|feed| feed.fresh) || self.texts.has_news()
    }

    /// True where there is something to look for.
    pub fn is_busy(&self) -> bool {
        let has_rows = !self.feeds.is_empty() || !self.answers.is_empty() || self.roster.is_some();
        has_rows || self.texts.has_news() || self.texts.is_waiting()
    }

    /// When it wants to hear of something that does not come: how the nodes are.
    pub fn next_timed(&self) -> Option<Nanos> {
        self.roster.as_ref().map(Roster::next)
    }

    /// Says what there is to say: answers, lanes, and the rows that came since; nothing while `out` is full. `true`: there
    /// is more, whether anything comes or not.
    pub fn pump(&mut self, cluster: &Cluster, prompt_only: bool, out: &mut Vec<u8>) -> bool {
        let mut has_more = false;
        for (interest, answer) in self.answers.drain(..) {
            let (granted, period, text) = match &answer {
                Ok(rate) => (true, rate.period(), ""),
                Err(text) => (false, Nanos(0), text.as_str()),
            };
            Told { interest, granted, period, text, lane: 0 }.put(out);
        }
        for (interest, text) in self.remarks.drain(..) {
            Told { interest, granted: true, period: Nanos(0), text: &text, lane: 0 }.put(out);
        }
        let out_max = cluster.out_bytes_max();
        if let Some(roster) = self.roster.as_mut().filter(|_| !prompt_only) {
            roster.pump(cluster, out);
        }
        let is_due = |feed: &&mut Feed| feed.pace == Pace::Prompt || feed.fresh || !prompt_only;
        for feed in self.feeds.iter_mut().filter(is_due) {
            feed.fresh = false;
            let (number, pace) = (feed.number, feed.pace);
            let followers = feed.subscription.followers();
            while feed.lanes.len() < followers.len() {
                self.lanes_made += 1;
                feed.lanes.push(FeedLane::new(self.lanes_made, self.epochs));
            }
            // A reader that is behind goes on where it stopped, so that no node waits behind the others for ever.
            let (all, first) = (followers.len(), feed.next);
            for index in (0..all).map(|n| (first + n) % all) {
                if out.len() > out_max {
                    feed.next = index;
                    return true;
                }
                let (lane, follower) = (&mut feed.lanes[index], &mut followers[index]);
                if lane.is_over {
                    continue;
                }
                has_more |= lane.pump(number, follower, cluster, out);
                if pace == Pace::Past && lane.wanted && follower.is_caught_up() {
                    lane.close(out);
                }
            }
        }
        self.texts.pump(cluster, &self.identity, out);
        has_more
    }
}

impl FeedLane {
    fn new(number: u32, epochs: u64) -> Self {
        FeedLane {
            number,
            epoch: epochs.wrapping_add(u64::from(number)),
            wanted: false,
            is_over: false,
            generation: 0,
            columns: None,
            held: None,
            width: 0,
            encoder: Encoder::new(number as u16, 0, Nanos::SECOND),
            schema: Vec::new(),
            schema_sent: 0,
            bytes: Vec::new(),
        }
    }

    /// Says what has come; `true`: that is not all.
    fn pump(&mut self, interest: u32, follower: &mut Follower, cluster: &Cluster, out: &mut Vec<u8>) -> bool {
        if self.columns.is_some() && !self.wanted {
            return false;
        }
        let node = follower.node.name.clone();
        let (mut rows, mut sent) = (None, 0);
        if let Some(row) = self.held.take_if(|_| self.wanted) {
            self.begin_block(row.stamp, |column| row.readings[column], &mut rows, out);
            self.put_row(&mut rows, out);
            sent += 1;
        }
        follower.look(|seen| match seen {
            Seen::Columns(columns, period) => {
                self.end_block(&mut rows, out);
                self.offer(interest, node.as_str(), &columns.series, period, out);
            }
            Seen::Row(columns, decoder, all_changes) if !columns.is_empty() && self.wanted => {
                self.row(columns, decoder, all_changes, &mut rows, out);
                sent += 1;
            }
            Seen::Row(columns, decoder, _) => self.held = (!columns.is_empty()).then(|| columns.row(decoder)),
            Seen::Lost(lost) => {
                self.end_block(&mut rows, out);
                self.lose(lost, out);
                Counts::add(&cluster.counts.reader_lost, lost);
            }
        });
        close(rows, out);
        Counts::add(&cluster.counts.reader_rows, sent);
        if let Some(notice) = follower.take_notice() {
            Told {
                interest,
                granted: true,
                period: Nanos(0),
                text: &format!("{node}: {}", notice.text),
                lane: 0,
            }
            .put(out);
        }
        !follower.is_caught_up()
    }

    /// Tells the reader what the columns are from here on.
    fn offer(
        &mut self,
        interest: u32,
        node: &str,
        series: &Arc<Vec<Series>>,
        period: Nanos,
        out: &mut Vec<u8>,
    ) {
        let mut schema = Vec::new();
        let mut encoder = SchemaEncoder::new();
        // A schema has its limits; a reader that asks for more than one holds gets the first.
        self.width = series.iter().take_while(|one| encoder.append(one, &mut schema).is_ok()).count();
        let hash = digest(&SHA256, &schema);
        let mut schema_hash = [0; 16];
        schema_hash.copy_from_slice(&hash.as_ref()[..16]);
        self.generation += 1;
        let next_row = self.encoder.rows();
        self.encoder = Encoder::new(self.number as u16, self.generation, period);
        self.encoder.resume(next_row, self.generation);
        self.columns = Some(series.clone());
        let offer = LaneOffer {
            lane: self.number,
            node,
            name: &format!("interest{interest}"),
            epoch: self.epoch,
            generation: self.generation,
            period,
            interest,
            oldest_row: next_row,
            next_row,
            schema_bytes: schema.len() as u64,
            schema_hash,
        };
        offer.put(out);
        (self.schema, self.schema_sent) = (schema, 0);
    }

    fn row(
        &mut self,
        columns: &Columns,
        decoder: &Decoder,
        all_changes: bool,
        rows: &mut Option<put::Open>,
        out: &mut Vec<u8>,
    ) {
        let (stamp, width) = (decoder.stamp(), self.width);
        if self.encoder.rows_open() > 0 && self.encoder.wants_new_block(stamp) {
            self.end_block(rows, out);
        }
        if self.encoder.rows_open() == 0 {
            self.begin_block(stamp, |column| columns.reading(decoder, column), rows, out);
        } else {
            self.bytes.clear();
            let reading = |column: usize| parts(columns.reading(decoder, column));
            if all_changes {
                let changed = columns.changed(decoder).take_while(|&column| column < width);
                self.encoder.delta_row(stamp, changed, reading, &mut self.bytes);
            } else {
                self.encoder.delta_row(stamp, 0..width, reading, &mut self.bytes);
            }
            if rows.is_none() {
                *rows = Some(put::open_lane(out, kind::ROWS, self.number));
            }
        }
        self.put_row(rows, out);
    }

    /// Puts the first row of a block under construction.
    fn begin_block(
        &mut self,
        stamp: Stamp,
        reading: impl Fn(usize) -> Reading,
        rows: &mut Option<put::Open>,
        out: &mut Vec<u8>,
    ) {
        self.send_schema(out);
        self.bytes.clear();
        self.encoder.key_row(stamp, self.width, |column| parts(reading(column)), &mut self.bytes);
        *rows = Some(put::open_lane(out, kind::BLOCK, self.number));
    }

    /// Says the row that was constructed, in as many frames as it needs.
    fn put_row(&self, rows: &mut Option<put::Open>, out: &mut Vec<u8>) {
        for piece in self.bytes.chunks(PIECE) {
            // A frame has its limit: what does not fit goes on in another.
            if rows.is_none() {
                *rows = Some(put::open_lane(out, kind::ROWS, self.number));
            }
            out.extend_from_slice(piece);
            if self.bytes.len() > PIECE {
                close(rows.take(), out);
            }
        }
        if out.len() > PIECE {
            close(rows.take(), out);
        }
    }

    fn send_schema(&mut self, out: &mut Vec<u8>) {
        while self.schema_sent < self.schema.len() {
            let end = self.schema.len().min(self.schema_sent + PIECE);
            let frame = put::open_schema(out, self.number, self.generation, self.schema_sent as u64);
            out.extend_from_slice(&self.schema[self.schema_sent..end]);
            frame.close(out);
            self.schema_sent = end;
        }
        self.schema = Vec::new();
        self.schema_sent = 0;
    }

    fn end_block(&mut self, rows: &mut Option<put::Open>, out: &mut Vec<u8>) {
        close(rows.take(), out);
        let Some((count, bytes, crc)) = self.encoder.close().and_then(|header| header.closed) else { return };
        debug_assert!(bytes as usize >= HEADER_BYTES || count > 0);
        End { lane: self.number, rows: count, bytes, crc }.put(out);
    }

    /// All rows of the past are said.
    fn close(&mut self, out: &mut Vec<u8>) {
        self.end_block(&mut None, out);
        put::closed(out, self.number);
        self.is_over = true;
    }

    /// Rows that were overwritten before they could be sent take numbers too.
    fn lose(&mut self, lost: u64, out: &mut Vec<u8>) {
        let from = self.encoder.rows();
        put::lost(out, self.number, from, from + lost);
        self.encoder.resume(from + lost, self.generation);
    }
}

/// Rows are put into frames of about this size.
const PIECE: usize = 64 << 10;

fn parts(reading: Reading) -> (u8, u64) {
    (reading.state(), reading.bits())
}

fn close(rows: Option<put::Open>, out: &mut [u8]) {
    if let Some(frame) = rows {
        frame.close(out);
    }
}
