//! The channels of one simulated node: each takes the rows that the node would gather, executes its handler on them as an agent
//! does, and writes what is to be sent into a ring of its own. A channel without a reader lives on for a while, as at an agent.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use khz_gather::{CHANNEL_LINGER, ChannelRows};
use khz_link::Lane;
use khz_model::{Budget, ByteSize, ChannelTerms, Nanos, NodeName, Pattern, Stamp};

use crate::made_ring::MadeRing;
use crate::played::Played;

/// Channels of one node at once, those without a reader among them: a simulation tries some channels on many nodes.
const CHANNELS_MAX: usize = 16;

/// What the windows of a node's channels may hold: a sixteenth of what an agent's may, since thousands of nodes share one
/// process.
const WINDOWS_BYTES: ByteSize = ByteSize(1 << 20);

/// Ticks that have passed since longer are skipped, as an agent skips those that it has missed.
const LATE_MAX: Nanos = Nanos::from_secs(2);

/// All channels of one node.
pub struct Channels {
    all: Vec<Channel>,
    budget: Budget,
}

struct Channel {
    terms: Arc<ChannelTerms>,
    patterns: Vec<Pattern>,
    rows: ChannelRows,
    /// What its readings are, and since when.
    played: Played,
    /// The next tick, in periods of the reel since the start.
    next: u64,
    ring: MadeRing,
    /// The interests that it serves.
    readers: Vec<u32>,
    /// When the last of them went.
    unread_since: Option<Nanos>,
}

/// Why a node does not execute a channel.
#[derive(Debug)]
pub struct Refusal {
    pub text: String,
    /// It may be possible when others have gone.
    pub is_for_now: bool,
}

impl Default for Channels {
    fn default() -> Self {
        Channels { all: Vec::new(), budget: Budget::new(WINDOWS_BYTES, Arc::new(AtomicU64::new(0))) }
    }
}

impl Channels {
    /// The lane of a channel that runs already, which serves this interest from now on, too.
    pub fn share(
        &mut self,
        interest: u32,
        terms: &ChannelTerms,
        patterns: &[Pattern],
        period: Nanos,
    ) -> Option<u64> {
        let is_it = |one: &&mut Channel| {
            *one.terms == *terms && one.patterns == patterns && one.played.reel.period == period
        };
        let channel = self.all.iter_mut().find(is_it)?;
        channel.readers.push(interest);
        channel.unread_since = None;
        channel.rows.read_again();
        Some(channel.ring.id())
    }

    /// Begins with a channel for an interest: the number of the interest, the id of its lane, and the epoch.
    ///
    /// # Errors
    /// Returns why this node does not execute it.
    pub fn open(
        &mut self,
        (interest, id, epoch): (u32, u64, u64),
        terms: Arc<ChannelTerms>,
        patterns: Vec<Pattern>,
        node: &NodeName,
        played: Played,
    ) -> Result<(), Refusal> {
        if self.all.len() >= CHANNELS_MAX {
            self.all.retain(|channel| channel.unread_since.is_none());
        }
        if self.all.len() >= CHANNELS_MAX {
            let text = format!("a simulated node executes {CHANNELS_MAX} channels at most");
            return Err(Refusal { text, is_for_now: true });
        }
        let (series, period) = (played.reel.series(), played.reel.period);
        let rows = || ChannelRows::new(terms.clone(), &patterns, node, series, period, &self.budget);
        let rows = match rows() {
            // Channels without a reader give way at once.
            Err(_) if self.all.iter().any(|channel| channel.unread_since.is_some()) => {
                self.all.retain(|channel| channel.unread_since.is_none());
                rows()
            }
            made => made,
        };
        let rows =
            rows.map_err(|error| Refusal { text: error.to_string(), is_for_now: error.is_for_now() })?;
        let ring = MadeRing::new(id, self.name_of(&terms), epoch, period);
        let (readers, unread_since) = (vec![interest], None);
        // A row of the tick before now would be made before the hub is offered the lane: it would belong to nobody, and of an event
        // or a deadband there might be no other.
        let channel = Channel { terms, patterns, rows, played, next: 1, ring, readers, unread_since };
        // Readers know its columns, and which row comes next, before its first row.
        channel.describe();
        self.all.push(channel);
        Ok(())
    }

    /// The name of a channel's lane; those of other rates and series have a number.
    fn name_of(&self, terms: &ChannelTerms) -> String {
        let first = terms.name.metric();
        let is_free = |name: &String| self.all.iter().all(|one| one.ring.name() != name);
        let numbered = (2..).map(|number| format!("{first}.{number}"));
        [first.to_string()].into_iter().chain(numbered).find(is_free).unwrap_or_default()
    }

    /// An interest has ended: when none is left, the channel gives way to others.
    pub fn dismiss(&mut self, interest: u32, now: Nanos) {
        for channel in &mut self.all {
            let before = channel.readers.len();
            channel.readers.retain(|known| *known != interest);
            if channel.readers.is_empty() && before > 0 {
                channel.unread_since = Some(now);
            }
        }
    }

    /// Executes all channels up to now, and ends those that nobody has read for a while. Returns whether lanes have changed in
    /// anything but their rows.
    pub fn advance(&mut self, now: Stamp) -> bool {
        let before = self.all.len();
        self.all.retain(|one| one.unread_since.is_none_or(|since| now.boot.since(since) < CHANNEL_LINGER));
        let has_changed = self.all.iter_mut().fold(false, |changed, one| one.advance(now.boot) | changed);
        has_changed || self.all.len() != before
    }

    /// When one of them takes its next row.
    pub fn next_tick(&self) -> Option<Nanos> {
        self.all.iter().map(|channel| channel.played.stamp(channel.next).boot).min()
    }

    /// Their lanes.
    pub fn rings(&self) -> impl Iterator<Item = &MadeRing> {
        self.all.iter().map(|channel| &channel.ring)
    }
}

impl Channel {
    /// Takes the rows up to now. Returns whether its lane has other slots or another period then.
    fn advance(&mut self, now: Nanos) -> bool {
        let (slots, period) = (self.ring.slots(), self.ring.period());
        let late = now.since(self.played.stamp(self.next).boot).0.saturating_sub(LATE_MAX.0);
        self.next += late.div_ceil(self.played.reel.period.0);
        while self.played.stamp(self.next).boot <= now {
            self.take(self.next);
        }
        (self.ring.slots(), self.ring.period()) != (slots, period)
    }

    /// Takes the row of this tick.
    fn take(&mut self, tick: u64) {
        let played = &self.played;
        let sent = self.rows.row(played.stamp(tick), |slot| played.reading(tick, slot));
        if !sent.is_empty() {
            self.describe();
        }
        sent.iter().for_each(|(stamp, cells)| self.ring.write(*stamp, cells));
        let slower = u64::from(self.rows.slower());
        self.ring.set_period(Nanos(self.played.reel.period.0.saturating_mul(slower)));
        self.next = tick + slower;
    }

    /// Publishes the meaning of slots that are new.
    fn describe(&self) {
        for slot in self.ring.slots()..self.rows.slots() {
            if !self.rows.series(slot).is_some_and(|series| self.ring.describe(series)) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::recording_of;
    use crate::reel::Reel;
    use crate::variation::Variation;
    use khz_model::ChannelName;
    use khz_plan::{Handler, Over, Values, When};
    use std::rc::Rc;

    const START: Stamp = Stamp { boot: Nanos::from_secs(1_000), real_offset: 0 };

    fn at(ms: u64) -> Stamp {
        Stamp { boot: Nanos(START.boot.0 + ms * 1_000_000), ..START }
    }

    fn played(period_ms: u64) -> Played {
        let recording = Arc::new(recording_of(20, 50, |tick, slot| (0, 1_000 + tick * slot as u64)));
        let reel = Rc::new(Reel::unencoded(recording, Nanos::from_millis(period_ms)));
        Played::new(reel, 0, Variation::default(), START, (&[], Nanos(0)))
    }

    fn terms(name: &str, handler: &Handler) -> Arc<ChannelTerms> {
        let name = ChannelName::new(name).unwrap();
        Arc::new(ChannelTerms { name, handler: handler.to_bytes().unwrap().into() })
    }

    fn open(channels: &mut Channels, number: u32, handler: &Handler) -> Result<(), Refusal> {
        let terms = terms(&format!("c{number}"), handler);
        let (node, patterns) = (NodeName::new("n1").unwrap(), vec![Pattern::everything()]);
        channels.open((number, u64::from(number), 7), terms, patterns, &node, played(10))
    }

    fn rows(channels: &Channels) -> Vec<u64> {
        channels.rings().map(MadeRing::rows).collect()
    }

    #[test]
    fn a_channel_takes_each_tick_once_and_skips_what_is_long_past() {
        let mut channels = Channels::default();
        open(&mut channels, 1, &Handler::default()).unwrap();
        assert!(channels.rings().all(|ring| ring.slots() > 0), "its slots are known before its first row");
        channels.advance(at(0));
        let first = Some(at(10).boot);
        assert_eq!(
            (rows(&channels), channels.next_tick()),
            (vec![0], first),
            "the hub is offered the lane first"
        );
        assert!(!channels.advance(at(95)));
        assert_eq!((rows(&channels), channels.next_tick()), (vec![9], Some(at(100).boot)));
        channels.advance(at(3_600_000));
        assert!((10..=210).contains(&rows(&channels)[0]), "{:?}", rows(&channels));
        assert_eq!(channels.next_tick(), Some(at(3_600_010).boot));
    }

    #[test]
    fn a_channel_without_readers_lives_on_for_a_while_and_the_next_reader_takes_it_over() {
        let mut channels = Channels::default();
        let handler = Handler::default();
        open(&mut channels, 1, &handler).unwrap();
        channels.dismiss(1, at(0).boot);
        channels.advance(at(30_000));
        let (same, other) = (terms("c1", &handler), terms("c2", &handler));
        let period = Nanos::from_millis(10);
        let everything = [Pattern::everything()];
        assert_eq!(channels.share(5, &same, &everything, period), Some(1));
        assert_eq!(channels.share(6, &other, &everything, period), None, "another name");
        assert_eq!(channels.share(6, &same, &everything, Nanos::SECOND), None, "another rate");
        channels.advance(at(90_000));
        channels.dismiss(5, at(90_000).boot);
        assert!(!channels.advance(at(149_000)));
        assert!(channels.advance(at(151_000)) && channels.rings().next().is_none());
    }

    #[test]
    fn channels_and_their_windows_have_a_limit_at_each_node() {
        let mut channels = Channels::default();
        for number in 1..=CHANNELS_MAX as u32 {
            open(&mut channels, number, &Handler::default()).unwrap();
        }
        let error = open(&mut channels, 99, &Handler::default()).unwrap_err();
        assert!(error.is_for_now && error.text.contains("16 channels at most"), "{error:?}");
        // One that nobody reads makes room.
        channels.dismiss(1, at(0).boot);
        open(&mut channels, 99, &Handler::default()).unwrap();
        let mut wide = Channels::default();
        let values = Values::Each { over: Over::Avg, length: Nanos::from_secs(30) };
        let error = open(&mut wide, 1, &Handler { values, ..Handler::default() }).unwrap_err();
        assert!(!error.is_for_now && error.text.contains("may hold 1MiB"), "{error:?}");
        // One that nobody reads gives its memory back at once.
        let mut tight = Channels::default();
        let values = Values::Each { over: Over::Avg, length: Nanos::from_secs(4) };
        let handler = Handler { values, ..Handler::default() };
        let full = (1..).find(|&number| open(&mut tight, number, &handler).is_err()).unwrap();
        assert!(full > 1 && full <= CHANNELS_MAX as u32);
        tight.dismiss(1, at(0).boot);
        open(&mut tight, full, &handler).unwrap();
        let broken = terms("x", &Handler::default());
        let broken = Arc::new(ChannelTerms { handler: vec![9, 9].into(), ..(*broken).clone() });
        let node = NodeName::new("n1").unwrap();
        assert!(wide.open((1, 1, 1), broken, vec![], &node, played(10)).is_err());
    }

    #[test]
    fn a_condition_that_does_not_hold_slows_a_node_down() {
        let mut channels = Channels::default();
        let series = played(10).reel.series()[0].metric.name.to_string();
        let plan = khz_promql::compile(&format!("{{\"{series}\"}} < 0")).unwrap();
        let when = When { plan: Some(plan), ..When::default() };
        let effect = khz_plan::Effect::SlowsDown(10);
        open(&mut channels, 1, &Handler { when: Some(when), effect, ..Handler::default() }).unwrap();
        channels.advance(at(10));
        assert_eq!(channels.next_tick(), Some(at(110).boot));
        assert_eq!(channels.rings().next().map(Lane::period), Some(Nanos::from_millis(100)));
        channels.advance(at(1_000));
        assert_eq!(rows(&channels), [10]);
    }
}
