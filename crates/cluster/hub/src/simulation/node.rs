//! A simulated node: a base lane, a local one, and lanes that interests open. Its series come one after the other, and
//! each
//! lane takes them in with its next row, or a little before.

use std::collections::VecDeque;
use std::rc::Rc;

use khz_link::{Answer, InterestFrame, Lanes};
use khz_model::{Nanos, Pattern, Series};

use super::random::{Random, mix};
use super::tape::{TapeLane, Writer};

/// Lanes that interests may open.
const OPENED_MAX: usize = 40;

/// Where the lanes stand that are always there, and how often the second has a row.
const BASE: usize = 0;
const LOCAL: usize = 1;
const LOCAL_PERIOD: Nanos = Nanos::from_millis(100);

/// The node.
pub struct Node {
    pub name: Rc<str>,
    pub writers: Vec<Writer>,
    /// Its series, and when each new series comes.
    series: Vec<Series>,
    coming: VecDeque<(Nanos, Series)>,
    answers: VecDeque<Answer>,
    changes: u64,
    opened: u64,
    real_offset: i64,
    now: Nanos,
    /// Every lane that it ever had.
    made: Vec<Made>,
}

/// The data from which a lane's rows follow, kept even when the lane is gone.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    pub epoch: u64,
    pub period: Nanos,
    /// When its first row was due.
    pub first: Nanos,
}

impl Made {
    fn of(writer: &Writer) -> Self {
        Made { epoch: writer.lane.epoch, period: khz_link::Lane::period(&writer.lane), first: writer.first }
    }
}

impl Node {
    /// A node with these series from the start.
    pub fn new(name: &str, series: &[Series], base: Nanos, now: Nanos) -> Self {
        let name: Rc<str> = name.into();
        let epoch = name.bytes().fold(11, |hash, byte| mix(hash ^ u64::from(byte)));
        let lane = |lane: &str, epoch, period| {
            let mut writer = Writer::new(&name, lane, epoch, period, vec![Pattern::everything()], now);
            writer.grow(series);
            writer
        };
        let writers = vec![lane("base", epoch, base), lane("local", mix(epoch), LOCAL_PERIOD)];
        Node {
            made: writers.iter().map(Made::of).collect(),
            writers,
            series: series.to_vec(),
            coming: VecDeque::new(),
            answers: VecDeque::new(),
            changes: 0,
            opened: mix(epoch ^ 99),
            real_offset: 1_700_000_000_000_000_000,
            now,
            name,
        }
    }

    /// These series appear: all in one go, or one after the other.
    pub fn gain(&mut self, series: &[Series], at: Nanos, random: &mut Random) {
        let apart = if random.once_in(2) { 0 } else { random.below(40_000_000) };
        let coming = series.iter().enumerate().map(|(n, one)| (Nanos(at.0 + n as u64 * apart), one.clone()));
        self.coming.extend(coming);
        self.coming.make_contiguous().sort_by_key(|(at, _)| *at);
    }

    /// Time passes: rows are written.
    pub fn step(&mut self, now: Nanos, random: &mut Random) {
        self.now = Nanos(now.0 + 1);
        while self.coming.front().is_some_and(|(at, _)| *at <= now) {
            self.series.extend(self.coming.pop_front().map(|(_, series)| series));
            if random.once_in(3) {
                let at = random.below(self.writers.len() as u64) as usize;
                self.writers[at].grow(&self.series);
            }
        }
        self.writers.retain(|writer| !writer.is_gone(now));
        for writer in &mut self.writers {
            writer.write(now, &self.series, self.real_offset);
        }
    }

    /// The program restarts: it finds its devices in another order, and one device has another name.
    pub fn restart(&mut self, renamed: &Series, random: &mut Random) {
        self.writers.retain(|writer| !writer.is_opened);
        self.answers.clear();
        self.changes += 1;
        let place = random.below(self.series.len() as u64) as usize;
        self.series[place] = renamed.clone();
        self.series.rotate_left(place);
        for writer in &mut self.writers {
            writer.renew();
            writer.grow(&self.series);
        }
    }

    /// The program is killed.
    pub fn kill(&mut self) {
        self.writers.retain(|writer| !writer.is_opened);
        self.answers.clear();
        self.changes += 1;
    }

    /// It restarts, and samples its base lane at another rate: all lanes have new rings, and rows that nobody has got are gone. An older
    /// program continues with the rings of other lanes.
    pub fn start_at(&mut self, base: Nanos, is_of_before: bool, now: Nanos) {
        if is_of_before {
            self.writers[LOCAL].renew();
        }
        let lanes = [(BASE, base), (LOCAL, LOCAL_PERIOD)];
        for (at, period) in lanes.into_iter().take(if is_of_before { 1 } else { 2 }) {
            let before = &self.writers[at].lane;
            let epoch = mix(before.epoch ^ 0xBA5E);
            let (name, all) = (khz_link::Lane::name(before).to_owned(), vec![Pattern::everything()]);
            let mut writer = Writer::new(&self.name, &name, epoch, period, all, now);
            writer.grow(&self.series);
            self.made.push(Made::of(&writer));
            self.writers[at] = writer;
        }
    }

    /// Its base lane now.
    pub fn base(&self) -> Made {
        Made::of(&self.writers[BASE])
    }

    /// Every lane that it ever had.
    pub fn made(&self) -> &[Made] {
        &self.made
    }

    /// Removes the series for which `is_gone` is true, and frees their slots: all lanes begin another generation. Some
    /// of those series come back later.
    pub fn renew(&mut self, is_gone: impl Fn(&Series) -> bool, random: &mut Random) {
        let gone: Vec<Series> = self.series.extract_if(.., |series| is_gone(series)).collect();
        for writer in &mut self.writers {
            writer.renew();
            writer.grow(&self.series);
        }
        for series in gone {
            if random.once_in(3) {
                self.gain(&[series], Nanos(self.now.0 + random.below(2_000_000_000)), random);
            }
        }
    }

    /// The generation of its base lane.
    pub fn generation(&self) -> u32 {
        use khz_link::Lane;
        self.writers.first().map_or(0, |writer| writer.lane.generation())
    }

    /// Whether a series is there.
    pub fn has(&self, series: &Series) -> bool {
        self.series.contains(series)
    }

    /// Whether a series is there that the pattern selects.
    pub fn has_some(&self, pattern: &Pattern) -> bool {
        let matches = |series: &Series| pattern.matches_series(&series.metric.name, series.instance.as_ref());
        pattern.matches_node(&self.name) && self.series.iter().any(matches)
    }

    /// Whether the pattern means this node.
    pub fn is_chosen(&self, pattern: &str) -> bool {
        Pattern::new(pattern).is_ok_and(|pattern| pattern.matches_node(&self.name))
    }

    fn open(&mut self, interest: &InterestFrame<'_>) -> Result<u64, &'static str> {
        let patterns: Result<Vec<Pattern>, _> = interest.patterns().map(Pattern::new).collect();
        let patterns = patterns.map_err(|_| "no pattern")?;
        let channel = interest.channel.map(|channel| channel.to_terms()).transpose();
        let channel = channel.map_err(|_| "no channel")?;
        let serves = |writer: &&mut Writer| writer.serves(interest, channel.as_deref(), &patterns);
        if let Some(known) = self.writers.iter_mut().find(serves) {
            known.interests.extend(known.is_opened.then_some(interest.number));
            return Ok(known.lane.epoch);
        }
        if self.writers.len() > OPENED_MAX {
            return Err("too many lanes");
        }
        self.opened = mix(self.opened);
        let name = format!("boost{}", self.opened % 1_000_000);
        let mut writer = Writer::new(&self.name, &name, self.opened, interest.period, patterns, self.now);
        (writer.is_opened, writer.interests) = (true, vec![interest.number]);
        writer.compute(channel);
        writer.grow(&self.series);
        let epoch = writer.lane.epoch;
        self.made.push(Made::of(&writer));
        self.writers.push(writer);
        Ok(epoch)
    }
}

impl Lanes for Node {
    type Lane = TapeLane;

    fn revision(&self) -> u64 {
        self.writers.iter().fold(self.changes, |revision, writer| {
            use khz_link::Lane;
            let lane = &writer.lane;
            let schema = lane.schema_bytes(lane.generation()).unwrap_or(0);
            revision.wrapping_mul(31).wrapping_add(lane.epoch ^ schema.rotate_left(32))
        })
    }

    fn list(&self, each: &mut dyn FnMut(TapeLane)) {
        let shown = self.writers.iter().filter(|writer| writer.is_shown());
        shown.for_each(|writer| each(writer.lane.clone()));
    }

    fn ask(&mut self, interest: &InterestFrame<'_>) {
        let (lane, text) = match self.open(interest) {
            Ok(lane) => (Some(lane), ""),
            Err(text) => (None, text),
        };
        let answer = Answer { interest: interest.number, lane, period: interest.period, text: text.into() };
        self.answers.push_back(answer);
        self.changes += 1;
    }

    fn dismiss(&mut self, number: u32) {
        for writer in &mut self.writers {
            writer.dismiss(number, self.now);
            if writer.is_gone(self.now) {
                writer.close();
            }
        }
        self.writers.retain(|writer| !writer.is_gone(self.now));
        self.changes += 1;
    }

    fn answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }
}
