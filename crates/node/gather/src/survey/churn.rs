//! How many new series a survey may bring whose names come from outside (files of numbers, sources of a configuration), and how many
//! bytes their names have: each new one takes a slot and bytes of the lanes' schemas, so names that change all the time would take
//! memory, and push the rows of every other source out. It decides; it makes no text.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, RandomState};

use khz_model::Nanos;

use super::text_files::TEXT_FILE_SERIES_MAX;
use super::trees::TREE_INSTANCES_MAX;

/// In this time a survey may bring as many new series as it may have, and as many bytes of names.
pub const NEW_SERIES_TIME: Nanos = Nanos::from_secs(300);
/// The most bytes of names and labels of all files of numbers: 128 for each of [`TEXT_FILE_SERIES_MAX`] numbers.
pub const TEXT_FILE_NAMES_MAX: usize = 1 << 20;
/// The most bytes of names of the instances of a source that a configuration describes: 128 for each of 1,024 instances. All 16 such
/// sources together, with gone instances, stay below half of a schema.
pub const OWN_SOURCE_NAMES_MAX: usize = 128 << 10;
/// The name of a metric counts this much besides its bytes, since it comes with its help, its unit
/// and more.
const METRIC_BYTES: usize = 512;
/// What a series counts besides the bytes of its instance.
const SERIES_BYTES: usize = 16;
/// At a start there is room for all series, and for all of them again with other names.
const ROOMS: usize = 2;

/// What a survey may have at a time, and bring within [`NEW_SERIES_TIME`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub series: usize,
    /// Bytes of names.
    pub bytes: usize,
}

impl Room {
    /// That of all files of numbers.
    pub const OF_TEXT_FILES: Room = Room { series: TEXT_FILE_SERIES_MAX, bytes: TEXT_FILE_NAMES_MAX };
    /// That of a source that a configuration describes.
    pub const OF_OWN_SOURCE: Room = Room { series: TREE_INSTANCES_MAX, bytes: OWN_SOURCE_NAMES_MAX };

    fn times(self, factor: usize) -> Room {
        Room { series: self.series * factor, bytes: self.bytes * factor }
    }

    fn checked_sub(self, other: Room) -> Option<Room> {
        let (series, bytes) = (self.series.checked_sub(other.series)?, self.bytes.checked_sub(other.bytes)?);
        Some(Room { series, bytes })
    }

    fn plus(self, other: Room) -> Room {
        Room {
            series: self.series.saturating_add(other.series),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn at_most(self, most: Room) -> Room {
        Room { series: self.series.min(most.series), bytes: self.bytes.min(most.bytes) }
    }

    /// The part of it that `elapsed` of `time` gives.
    fn share(self, elapsed: Nanos, time: Nanos) -> Room {
        let share = |all: usize| (all as u128 * u128::from(elapsed.0) / u128::from(time.0)) as usize;
        Room { series: share(self.series), bytes: share(self.bytes) }
    }
}

/// A name in a survey: of a metric, or of one of its series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    hash: u64,
    takes: Room,
}

/// Why names are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crowded {
    /// With these names, there would be too many at the same time.
    TooMany,
    /// Too many of them are new.
    TooOften,
}

/// The names that a survey has now, and room for new ones.
pub(super) struct Churn {
    hasher: RandomState,
    /// The most that is allowed at the same time.
    most: Room,
    known: HashSet<u64>,
    /// The names of the text that is being made, and what they take.
    next: HashSet<u64>,
    taken: Room,
    /// The room for names that exist, are known, and are not in the text yet.
    waiting: Room,
    room: Room,
    /// Some names of the text that is being made had no room.
    is_crowded: bool,
    /// When room was added last.
    filled: Nanos,
    /// When the present text was begun, and why names had no room last.
    begun: Nanos,
    crowded: Option<(Nanos, Crowded)>,
}

impl Churn {
    pub fn new(most: Room, now: Nanos) -> Self {
        Churn {
            hasher: RandomState::new(),
            most,
            known: HashSet::new(),
            next: HashSet::new(),
            taken: Room { series: 0, bytes: 0 },
            waiting: Room { series: 0, bytes: 0 },
            room: most.times(ROOMS),
            is_crowded: false,
            filled: now,
            begun: now,
            crowded: None,
        }
    }

    /// Begins another text.
    pub fn begin(&mut self, now: Nanos) {
        // By whole shares of a thousand, so that nothing is lost when texts are made often.
        let step = Nanos(NEW_SERIES_TIME.0 / 1_000);
        let more = Nanos(now.since(self.filled).0 / step.0 * step.0);
        let full = self.most.times(ROOMS);
        self.room = self.room.plus(self.most.share(more, NEW_SERIES_TIME)).at_most(full);
        self.filled.0 += more.0;
        self.begun = now;
        self.next.clear();
        (self.taken, self.waiting) = (Room { series: 0, bytes: 0 }, Room { series: 0, bytes: 0 });
        self.is_crowded = false;
    }

    /// The text will have some of these names. Known names keep their room, and new names get the rest.
    pub fn reserve(&mut self, names: impl IntoIterator<Item = Name>) {
        let mut met = HashSet::new();
        for name in names {
            if self.known.contains(&name.hash) && met.insert(name.hash) {
                self.waiting = self.waiting.plus(name.takes);
            }
        }
    }

    /// A series, with the bytes of its instance.
    pub fn series(&self, one: impl Hash, bytes: usize) -> Name {
        let takes = Room { series: 1, bytes: bytes + SERIES_BYTES };
        Name { hash: self.hasher.hash_one((true, one)), takes }
    }

    /// A name of a metric.
    pub fn metric(&self, name: &str) -> Name {
        let takes = Room { series: 0, bytes: name.len() + METRIC_BYTES };
        Name { hash: self.hasher.hash_one((false, name)), takes }
    }

    /// Takes these names, or none of them.
    pub fn take(&mut self, names: impl IntoIterator<Item = Name>) -> Result<(), Crowded> {
        let (mut all, mut new, mut waiting) = (self.taken, Room { series: 0, bytes: 0 }, self.waiting);
        let names: Vec<Name> = names.into_iter().filter(|name| !self.next.contains(&name.hash)).collect();
        for name in &names {
            all = all.plus(name.takes);
            match self.known.contains(&name.hash) {
                true => waiting = waiting.checked_sub(name.takes).unwrap_or(waiting),
                false => new = new.plus(name.takes),
            }
        }
        let room = match self.most.checked_sub(all.plus(waiting)) {
            Some(_) => self.room.checked_sub(new).ok_or(Crowded::TooOften),
            None => Err(Crowded::TooMany),
        };
        if let Err(why) = room {
            self.is_crowded = true;
            self.crowded = Some((self.begun, why));
        }
        (self.room, self.taken, self.waiting) = (room?, all, waiting);
        self.next.extend(names.iter().map(|name| name.hash));
        Ok(())
    }

    /// Why names had no room in this text or a recent one: the log says so once, and not each time that there is some room for a moment.
    pub fn recent(&self) -> Option<Crowded> {
        self.crowded.filter(|(at, _)| self.begun.since(*at) < NEW_SERIES_TIME).map(|(_, why)| why)
    }

    /// The text is made: its names are those that are known. Returns whether some had no room.
    pub fn end(&mut self) -> bool {
        std::mem::swap(&mut self.known, &mut self.next);
        self.is_crowded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of one series of each name, in this second.
    fn at(churn: &mut Churn, second: u64, names: &[String]) -> Result<(), Crowded> {
        churn.begin(Nanos::from_secs(second));
        let series: Vec<Name> = names.iter().map(|name| churn.series(name, name.len())).collect();
        let said = churn.take(series);
        assert_eq!(churn.end(), said.is_err());
        said
    }

    fn names(generation: usize, count: usize, bytes: usize) -> Vec<String> {
        (0..count).map(|number| format!("{generation}:{number:0bytes$}")).collect()
    }

    #[test]
    fn names_that_change_all_the_time_are_left_out_until_there_is_room() {
        let most = Room { series: 1_000, bytes: 100_000 };
        // Many short names, and few long ones, which take the room of bytes.
        for (many, bytes) in [(1_000, 1), (90, 1_000)] {
            let mut churn = Churn::new(most, Nanos(0));
            let mut at = |second: u64, generation: usize, count: usize| {
                at(&mut churn, second, &names(generation, count, bytes))
            };
            assert_eq!((at(0, 0, many), at(10, 1, many)), (Ok(()), Ok(())));
            assert_eq!(at(20, 1, many), Ok(()), "the same ones cost nothing");
            assert_eq!(at(30, 2, many), Err(Crowded::TooOften), "a third generation within 30 s");
            assert_eq!(at(40, 3, many), Err(Crowded::TooOften));
            assert_eq!(at(40, 3, many / 10), Ok(()), "few of them have room");
            assert_eq!(at(400, 4, many), Ok(()));
            assert_eq!((at(10_000, 5, many), at(10_000, 6, many)), (Ok(()), Ok(())));
            assert_eq!(at(10_000, 7, many / 4), Err(Crowded::TooOften));
        }
    }

    #[test]
    fn new_names_do_not_push_known_ones_out() {
        let mut churn = Churn::new(Room { series: 10, bytes: 10_000 }, Nanos(0));
        let mut text = |names: &[String]| {
            churn.begin(Nanos(0));
            let series: Vec<Name> = names.iter().map(|name| churn.series(name, name.len())).collect();
            churn.reserve(series.iter().copied());
            let said: Vec<bool> = series.into_iter().map(|name| churn.take([name]).is_ok()).collect();
            churn.end();
            said
        };
        let old = names(0, 6, 1);
        assert_eq!(text(&old), [true; 6]);
        // New ones come first, and have what is left.
        let all = [names(1, 6, 1), old].concat();
        assert_eq!(text(&all), [vec![true; 4], vec![false; 2], vec![true; 6]].concat());
        assert_eq!(text(&all[2..]), [vec![true; 2], vec![true; 2], vec![true; 6]].concat(), "two have gone");
    }

    #[test]
    fn people_are_told_until_there_was_room_for_long() {
        let mut churn = Churn::new(Room { series: 10, bytes: 10_000 }, Nanos(0));
        assert_eq!((at(&mut churn, 0, &names(0, 10, 1)), churn.recent()), (Ok(()), None));
        assert_eq!(at(&mut churn, 1, &names(1, 11, 1)), Err(Crowded::TooMany));
        assert_eq!((at(&mut churn, 299, &names(0, 10, 1)), churn.recent()), (Ok(()), Some(Crowded::TooMany)));
        assert_eq!((at(&mut churn, 301, &names(0, 10, 1)), churn.recent()), (Ok(()), None));
    }

    #[test]
    fn more_than_there_may_be_at_a_time_is_left_out_however_long_one_waits() {
        let mut churn = Churn::new(Room { series: 100, bytes: 10_000 }, Nanos(0));
        assert_eq!(at(&mut churn, 0, &names(0, 101, 1)), Err(Crowded::TooMany));
        assert_eq!(at(&mut churn, 9_000, &names(0, 20, 1_000)), Err(Crowded::TooMany));
        assert_eq!(at(&mut churn, 9_000, &names(0, 9, 1_000)), Ok(()));
        churn.begin(Nanos::from_secs(9_010));
        let metrics: Vec<Name> = (0..30).map(|n| churn.metric(&format!("m{n}"))).collect();
        assert_eq!(churn.take(metrics), Err(Crowded::TooMany), "names of metrics take room, too");
        let again = churn.metric("m");
        assert_eq!((0..30).map(|_| churn.take([again])).collect::<Vec<_>>(), [Ok(()); 30]);
    }

    #[test]
    fn whatever_changes_the_bytes_within_any_time_have_a_bound() {
        let most = Room { series: 1_000, bytes: 100_000 };
        for bytes in [1, 30, 500, 4_000] {
            let (mut churn, mut new) = (Churn::new(most, Nanos(0)), 0);
            // Each two seconds all names are new, for an hour.
            for second in (0..3_600).step_by(2) {
                let count = 1_000.min(90_000 / (bytes + SERIES_BYTES));
                for part in names(second, count, bytes).chunks(5) {
                    churn.begin(Nanos::from_secs(second as u64));
                    let series: Vec<Name> = part.iter().map(|name| churn.series(name, name.len())).collect();
                    let takes: usize = series.iter().map(|name| name.takes.bytes).sum();
                    new += if churn.take(series).is_ok() { takes } else { 0 };
                    churn.end();
                }
            }
            let hour = most.bytes * ROOMS + most.bytes * 12;
            assert!(new <= hour, "{new} bytes of names of {bytes} bytes, at most {hour}");
            assert!(new > hour / 100, "{new} bytes of names of {bytes}");
        }
    }
}
