//! Tiers, and the names of files: which time a file has, and which of several files of that time comes later.

use std::fmt;
use std::path::Path;

use khz_model::Nanos;
use khz_model::calendar::Civil;

/// Years of file names: times fit into 64 bits until 2554.
const YEARS: std::ops::RangeInclusive<i64> = 1970..=2500;

/// Files of one resolution, in a folder of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Rows as they were gathered: a file for each hour.
    Raw,
    /// A summary for each minute: a file for each day.
    Minute,
    /// A summary for each hour: a file for each month.
    Hour,
}

impl Tier {
    /// All tiers, finest first.
    pub const ALL: [Tier; 3] = [Tier::Raw, Tier::Minute, Tier::Hour];

    /// The name of its folder.
    pub fn folder(self) -> &'static str {
        match self {
            Tier::Raw => "raw",
            Tier::Minute => "minute",
            Tier::Hour => "hour",
        }
    }

    /// The length of its buckets; 0: rows.
    pub fn resolution(self) -> Nanos {
        match self {
            Tier::Raw => Nanos(0),
            Tier::Minute => Nanos::from_secs(60),
            Tier::Hour => Nanos::from_secs(3_600),
        }
    }

    /// The length of its longest unit.
    pub(crate) fn longest(self) -> Nanos {
        match self {
            Tier::Raw => Nanos::from_secs(3_600),
            Tier::Minute => Nanos::from_secs(86_400),
            Tier::Hour => Nanos::from_secs(31 * 86_400),
        }
    }

    /// The unit to which a file of this tier belongs.
    pub(crate) fn unit_of(self, path: &Path) -> Option<Unit> {
        match Name::of(self, path.file_name()?.to_str()?) {
            Name::Piece(unit, _) => Some(unit),
            Name::Damaged(..) | Name::Part | Name::Foreign => None,
        }
    }

    /// The unit that has this time; `None`: the time is beyond all calendars.
    pub fn unit(self, time: Nanos) -> Option<Unit> {
        let hour = Civil { minute: 0, second: 0, ..Civil::of(time) };
        match self {
            Tier::Raw => Unit::of(self, hour),
            Tier::Minute => Unit::of(self, Civil { hour: 0, ..hour }),
            Tier::Hour => Unit::of(self, Civil { day: 1, hour: 0, ..hour }),
        }
    }
}

/// The time of one file: an hour, a day or a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit {
    /// The tier.
    pub tier: Tier,
    /// When it begins.
    pub begin: Nanos,
    /// When the next one begins.
    pub end: Nanos,
}

impl Unit {
    fn of(tier: Tier, date: Civil) -> Option<Self> {
        let begin = since_1970(date)?;
        let end = match tier {
            Tier::Raw => Nanos(begin.0 + 3_600_000_000_000),
            Tier::Minute => Nanos(begin.0 + 86_400_000_000_000),
            Tier::Hour => since_1970(match date.month {
                12 => Civil { year: date.year + 1, month: 1, ..date },
                month => Civil { month: month + 1, ..date },
            })?,
        };
        Some(Unit { tier, begin, end })
    }

    /// True if it has some of the time from `from` on and before `to`.
    pub fn overlaps(self, from: Nanos, to: Nanos) -> bool {
        self.begin < to && self.end > from
    }

    /// Reads `2026-11-23T14`, `2026-11-23` or `2026-11`.
    pub(crate) fn parse(tier: Tier, text: &str) -> Option<Self> {
        let (date, hour) = match tier {
            Tier::Raw => text.split_once('T')?,
            _ => (text, "0"),
        };
        let mut parts = date.splitn(3, '-');
        let mut number = || parts.next()?.parse::<u32>().ok();
        let (year, month) = (number()?.into(), number()?);
        let day = if tier == Tier::Hour { 1 } else { number()? };
        let hour = hour.parse().ok()?;
        let unit = Unit::of(tier, Civil { year, month, day, hour, minute: 0, second: 0 })?;
        // Signs, missing zeros and further parts are another name.
        (unit.to_string() == text).then_some(unit)
    }
}

/// When a date begins; `None`: there is no such date, or no file can be of it.
fn since_1970(date: Civil) -> Option<Nanos> {
    YEARS
        .contains(&date.year)
        .then(|| date.as_utc())?
        .and_then(|s| Some(Nanos::from_secs(s.try_into().ok()?)))
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, hour, .. } = Civil::of(self.begin);
        match self.tier {
            Tier::Raw => write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}"),
            Tier::Minute => write!(f, "{year:04}-{month:02}-{day:02}"),
            Tier::Hour => write!(f, "{year:04}-{month:02}"),
        }
    }
}

/// What a file's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A piece of a unit: `2026-11-23T14.3.col`.
    Piece(Unit, u32),
    /// A piece that was damaged, and whose whole parts are in another one: `2026-11-23T14.3.col.damaged`.
    Damaged(Unit, u32),
    /// A file that was not finished: `2026-11-23T14.3.col.part`.
    Part,
    /// Nothing of the store.
    Foreign,
}

impl Name {
    pub fn of(tier: Tier, name: &str) -> Self {
        if let Some(whole) = name.strip_suffix(".part") {
            let is_ours = piece(tier, whole).is_some() || whole == super::BEGIN_FILE;
            return if is_ours { Name::Part } else { Name::Foreign };
        }
        if let Some((unit, number)) = name.strip_suffix(".damaged").and_then(|name| piece(tier, name)) {
            return Name::Damaged(unit, number);
        }
        piece(tier, name).map_or(Name::Foreign, |(unit, number)| Name::Piece(unit, number))
    }
}

const NUMBER_MAX: u32 = 999_999_999;

fn piece(tier: Tier, name: &str) -> Option<(Unit, u32)> {
    let (unit, number) = name.strip_suffix(".col")?.rsplit_once('.')?;
    let piece = (Unit::parse(tier, unit)?, number.parse().ok()?);
    // Higher numbers are never reached, and there must be one after the highest.
    (piece.1 <= NUMBER_MAX && piece_name(piece.0, piece.1) == name).then_some(piece)
}

/// The name of a piece.
pub(crate) fn piece_name(unit: Unit, number: u32) -> String {
    format!("{unit}.{number}.col")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_no_others() {
        let time = Nanos(1_795_442_400_000_000_000);
        for (tier, name) in [
            (Tier::Raw, "2026-11-23T14.0.col"),
            (Tier::Minute, "2026-11-23.17.col"),
            (Tier::Hour, "2026-11.999999999.col"),
        ] {
            let Name::Piece(unit, number) = Name::of(tier, name) else { panic!("{name}") };
            assert_eq!(piece_name(unit, number), name);
            assert_eq!(Some(unit), tier.unit(time));
            assert!(unit.begin <= time && time < unit.end);
            assert_eq!(Name::of(tier, &format!("{name}.damaged")), Name::Damaged(unit, number));
            assert_eq!(Name::of(tier, &format!("{name}.part")), Name::Part);
        }
        for name in [
            "",
            ".col",
            "2026-11-23T14.col",
            "2026-11-23T14.00.col",
            "2026-11-23T14.+1.col",
            "2026-11-23T9.0.col",
            "2026-11-23.0.col",
            "2026-11-31T14.0.col",
            "2026-11-23T14.1000000000.col",
            "2026-11-23T14.0.col.bak",
            "+026-11-23T14.0.col",
            "2026-11-23T14.0.col.part.part",
            "notes.part",
            "2026-11-23T24.0.col",
        ] {
            assert_eq!(Name::of(Tier::Raw, name), Name::Foreign, "{name}");
        }
    }

    #[test]
    fn a_month_ends_where_the_next_one_begins() {
        let february = Unit::parse(Tier::Hour, "2028-02").unwrap();
        assert_eq!(february.end.0 - february.begin.0, 29 * 86_400_000_000_000);
        let december = Unit::parse(Tier::Hour, "2027-12").unwrap();
        assert_eq!(Tier::Hour.unit(december.end).unwrap().to_string(), "2028-01");
        assert!(december.overlaps(december.begin, Nanos(december.begin.0 + 1)));
        assert!(!december.overlaps(december.end, Nanos(u64::MAX)));
        assert_eq!(Tier::Raw.unit(Nanos(u64::MAX)), None);
    }
}
