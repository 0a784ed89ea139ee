//! Quantities that people write and programs count in: nanoseconds, rates, sizes, and the stamp of a row. A
//! person writes a number with its unit ("5s", "100Hz", "64MiB"). A bare number is refused, with two exceptions: 0 as a
//! time or a size, and a rate (100 is 100 Hz).

use std::fmt;
use std::str::FromStr;

/// A span of time, or an instant of a named clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// One second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);

    /// `12:03:11`: the time of day in UTC, of a moment since 1970.
    pub fn time_of_day(self) -> String {
        let seconds = self.0 / Nanos::SECOND.0;
        format!("{:02}:{:02}:{:02}", seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60)
    }

    /// Seconds with nine places: `12.000000000`.
    pub fn seconds_text(self) -> String {
        format!("{}.{:09}", self.0 / Nanos::SECOND.0, self.0 % Nanos::SECOND.0)
    }

    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Nanos(n.saturating_mul(1_000_000))
    }

    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Nanos(n.saturating_mul(1_000))
    }

    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Nanos(n.saturating_mul(1_000_000_000))
    }

    /// As seconds, for ratios and plots.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The difference, or zero when `earlier` is not earlier.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl From<Nanos> for std::time::Duration {
    fn from(n: Nanos) -> Self {
        std::time::Duration::from_nanos(n.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [(u64, &str); 4] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
        for (step, unit) in STEPS {
            if self.0 >= step && self.0.is_multiple_of(step) {
                return write!(f, "{}{unit}", self.0 / step);
            }
        }
        if self.0 == 0 { f.write_str("0s") } else { write!(f, "{}ns", self.0) }
    }
}

/// How often something is sampled, held as the period of its ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    period: Nanos,
}

impl Rate {
    /// The slowest rate that a reader may ask for: once a day.
    pub const PERIOD_MAX: Nanos = Nanos::from_secs(86_400);
    /// The fastest rate that a reader may ask for: 10,000 Hz. An agent grants at most its own ceiling.
    pub const PERIOD_MIN: Nanos = Nanos::from_micros(100);

    /// `n` ticks a second; `None` for 0 and beyond 10,000.
    pub fn from_hz(n: u64) -> Option<Self> {
        1_000_000_000u64.checked_div(n).and_then(|period| Self::from_period(Nanos(period)))
    }

    /// A tick every `period`; `None` outside [`Rate::PERIOD_MIN`]..=[`Rate::PERIOD_MAX`].
    pub fn from_period(period: Nanos) -> Option<Self> {
        (Self::PERIOD_MIN <= period && period <= Self::PERIOD_MAX).then_some(Rate { period })
    }

    /// Time between two ticks.
    pub const fn period(self) -> Nanos {
        self.period
    }

    /// Ticks a second.
    pub fn hz(self) -> f64 {
        1e9 / self.period.0 as f64
    }

    /// Whether it is faster than a ceiling.
    pub fn is_above(self, ceiling: Rate) -> bool {
        self.period < ceiling.period
    }

    /// The slower of the two.
    pub fn at_most(self, ceiling: Rate) -> Rate {
        if self.is_above(ceiling) { ceiling } else { self }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hz = self.hz();
        let rounded = hz.round();
        if rounded >= 1.0 && 1_000_000_000 / (rounded as u64) == self.period.0 {
            write!(f, "{rounded}Hz")
        } else {
            // The text must mean the same when it is read again: people paste a printed configuration.
            let shown = format!("{hz:.3}Hz");
            let is_exact = self.period <= Nanos::SECOND && shown.parse() == Ok(*self);
            if is_exact { f.write_str(&shown) } else { write!(f, "every {}", self.period) }
        }
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [(u64, &str); 4] =
            [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        for (step, unit) in STEPS {
            if self.0 >= step && self.0.is_multiple_of(step) {
                return write!(f, "{}{unit}", self.0 / step);
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// When a row was gathered: the monotonic clock that also counts during suspend, and the distance of the wall
/// clock from it at that moment. Rates use `boot` alone, so a jump of the wall clock cannot change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Stamp {
    /// CLOCK_BOOTTIME, nanoseconds.
    pub boot: Nanos,
    /// CLOCK_REALTIME minus CLOCK_BOOTTIME, nanoseconds.
    pub real_offset: i64,
}

impl Stamp {
    /// Nanoseconds since 1970-01-01 UTC, by this node's wall clock at that moment.
    pub fn real(self) -> Nanos {
        Nanos(self.boot.0.saturating_add_signed(self.real_offset))
    }

    /// Seconds since 1970 with nine places: `"1763690000.123456789"`.
    pub fn real_text(self) -> String {
        self.real().seconds_text()
    }

    /// Seconds since boot with nine places, for differences that a jump of the wall clock must not change.
    pub fn boot_text(self) -> String {
        self.boot.seconds_text()
    }
}

/// A quantity that could not be read: what was written, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The number or its unit is not understood.
    #[error("'{text}' is not {expected}")]
    Malformed {
        /// What was written.
        text: String,
        /// What would have been right, with an example.
        expected: &'static str,
    },
    /// Understood, but outside the possible range.
    #[error("'{text}' is out of range: {limits}")]
    OutOfRange {
        /// What was written.
        text: String,
        /// The possible range.
        limits: &'static str,
    },
}

const DURATION_HELP: &str = "a duration: write it with its unit, as 5s, 100ms, 10m, 2h or 21d";
const RATE_HELP: &str = "a rate: write it with its unit, as 100Hz or 1kHz, or as a period, as 5s";
const RATE_LIMITS: &str = "a rate is above 0 and at most 10000Hz; the slowest is once a day";
const SIZE_HELP: &str = "a size: write it with its unit, as 512KiB or 64MiB";

/// Splits "12.5ms" into 12.5 and "ms".
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    Some((number, text[split..].trim_start()))
}

fn malformed(text: &str, expected: &'static str) -> QuantityError {
    QuantityError::Malformed { text: text.to_owned(), expected }
}

impl FromStr for Nanos {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (number, unit) = number_and_unit(text).ok_or_else(|| malformed(text, DURATION_HELP))?;
        let step = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3_600e9,
            "d" => 86_400e9,
            "y" => 365.0 * 86_400e9,
            "" if number == 0.0 => 1.0,
            _ => return Err(malformed(text, DURATION_HELP)),
        };
        let nanos = number * step;
        if nanos > u64::MAX as f64 / 2.0 {
            return Err(QuantityError::OutOfRange { text: text.to_owned(), limits: "at most 292 years" });
        }
        Ok(Nanos(nanos.round() as u64))
    }
}

impl FromStr for Rate {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let out_of_range = || QuantityError::OutOfRange { text: text.to_owned(), limits: RATE_LIMITS };
        let (number, unit) = number_and_unit(text).ok_or_else(|| malformed(text, RATE_HELP))?;
        let hz = match unit {
            // On a command line `--rate 100` is unambiguous, so Hz may be left out.
            "Hz" | "hz" | "" => number,
            "kHz" | "khz" => number * 1e3,
            "MHz" => number * 1e6,
            "GHz" => number * 1e9,
            _ => {
                let period = Nanos::from_str(text).map_err(|_| malformed(text, RATE_HELP))?;
                return Rate::from_period(period).ok_or_else(out_of_range);
            }
        };
        if hz <= 0.0 {
            return Err(out_of_range());
        }
        Rate::from_period(Nanos((1e9 / hz) as u64)).ok_or_else(out_of_range)
    }
}

impl FromStr for ByteSize {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (number, unit) = number_and_unit(text).ok_or_else(|| malformed(text, SIZE_HELP))?;
        let step = match unit {
            "B" => 1.0,
            "KiB" | "K" => 1024.0,
            "MiB" | "M" => 1_048_576.0,
            "GiB" | "G" => 1_073_741_824.0,
            "TiB" | "T" => 1_099_511_627_776.0,
            "kB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "" if number == 0.0 => 1.0,
            _ => return Err(malformed(text, SIZE_HELP)),
        };
        let bytes = number * step;
        if bytes >= u64::MAX as f64 {
            return Err(QuantityError::OutOfRange { text: text.to_owned(), limits: "at most 2^64 bytes" });
        }
        Ok(ByteSize(bytes as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, period) in
            [("100Hz", 10_000_000), ("1kHz", 1_000_000), ("5s", 5_000_000_000), ("3", 333_333_333)]
        {
            assert_eq!(text.parse::<Rate>().unwrap().period(), Nanos(period), "{text}");
        }
        for text in ["0", "0Hz", "1e9", "1000000000", "-5", "fast", "20kHz", "2000d"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        for text in ["1MHz", "3GHz", "20kHz"] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains("at most 10000Hz"), "{error}");
        }
    }

    #[test]
    fn quantities_print_as_they_are_written() {
        for text in ["100Hz", "1Hz", "3Hz", "1000Hz", "every 5s"] {
            assert_eq!(text.trim_start_matches("every ").parse::<Rate>().unwrap().to_string(), text);
        }
        for text in ["5s", "100ms", "100us", "7ns"] {
            assert_eq!(text.parse::<Nanos>().unwrap().to_string(), text);
        }
        for text in ["64MiB", "5KiB", "17B"] {
            assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_rate_without_a_round_number_is_read_back_unchanged() {
        for (text, shown) in [("1.1ms", "every 1100us"), ("1.5Hz", "1.500Hz"), ("1.5s", "every 1500ms")] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate.to_string(), shown);
            assert_eq!(shown.trim_start_matches("every ").parse(), Ok(rate), "{text}");
        }
    }

    #[test]
    fn every_unit_has_its_value_and_unknown_units_are_refused() {
        let spans = [
            ("1ns", 1),
            ("2us", 2_000),
            ("2µs", 2_000),
            ("2ms", 2_000_000),
            ("1.5s", 1_500_000_000),
            ("10m", 600_000_000_000),
            ("2min", 120_000_000_000),
            ("2 h", 7_200_000_000_000),
            ("1d", 86_400_000_000_000),
            ("0.6ns", 1),
            ("0", 0),
        ];
        for (text, nanos) in spans {
            assert_eq!(text.parse(), Ok(Nanos(nanos)), "{text}");
        }
        let sizes = [
            ("7B", 7),
            ("2KiB", 2 << 10),
            ("2K", 2 << 10),
            ("2MiB", 2 << 20),
            ("2M", 2 << 20),
            ("2GiB", 2 << 30),
            ("2G", 2 << 30),
            ("2TiB", 2 << 40),
            ("2T", 2 << 40),
            ("2kB", 2_000),
            ("2MB", 2_000_000),
            ("1.5GB", 1_500_000_000),
            ("0", 0),
        ];
        for (text, bytes) in sizes {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for (text, micros) in
            [("2Hz", 500_000), ("2hz", 500_000), ("2kHz", 500), ("2khz", 500), ("2ms", 2_000)]
        {
            assert_eq!(text.parse::<Rate>().map(Rate::period), Ok(Nanos::from_micros(micros)), "{text}");
        }
        for text in ["5", "5x", "s", "", "-5s", "1.2.3s", "5S"] {
            assert!(matches!(text.parse::<Nanos>(), Err(QuantityError::Malformed { .. })), "{text}");
        }
        for text in ["5", "5x", "5kb", "B", "-5B"] {
            assert!(matches!(text.parse::<ByteSize>(), Err(QuantityError::Malformed { .. })), "{text}");
        }
    }

    #[test]
    fn values_beyond_the_range_are_refused_and_the_last_valid_ones_are_not() {
        assert!(matches!("107000d".parse::<Nanos>(), Err(QuantityError::OutOfRange { .. })));
        assert_eq!("106000d".parse(), Ok(Nanos::from_secs(106_000 * 86_400)));
        assert!(matches!("16777216TiB".parse::<ByteSize>(), Err(QuantityError::OutOfRange { .. })));
        assert_eq!("16777215TiB".parse(), Ok(ByteSize(16_777_215 << 40)));
        let rate = |text: &str| text.parse::<Rate>().map(Rate::period);
        assert_eq!((rate("10kHz"), rate("1d")), (Ok(Rate::PERIOD_MIN), Ok(Rate::PERIOD_MAX)));
        for text in ["10001Hz", "99us", "86401s", "0Hz", "0s"] {
            assert!(matches!(rate(text), Err(QuantityError::OutOfRange { .. })), "{text}");
        }
        assert_eq!((Rate::from_hz(0), Rate::from_hz(10_001)), (None, None));
        assert_eq!(Rate::from_hz(10_000).map(Rate::period), Some(Rate::PERIOD_MIN));
    }

    #[test]
    fn a_quantity_is_shown_in_the_largest_unit_that_has_a_whole_number_of_it() {
        for (nanos, shown) in [
            (0, "0s"),
            (1, "1ns"),
            (999, "999ns"),
            (1_000, "1us"),
            (1_001, "1001ns"),
            (60_000_000_000, "60s"),
        ] {
            assert_eq!(Nanos(nanos).to_string(), shown);
        }
        for (bytes, shown) in [
            (0, "0B"),
            (1_023, "1023B"),
            (1 << 10, "1KiB"),
            (1_025, "1025B"),
            (3 << 30, "3GiB"),
            (1 << 40, "1TiB"),
        ] {
            assert_eq!(ByteSize(bytes).to_string(), shown);
        }
    }

    #[test]
    fn spans_rates_and_seconds_are_counted_in_their_units() {
        assert_eq!(
            [Nanos::from_micros(3), Nanos::from_millis(3), Nanos::from_secs(3)].map(|span| span.0),
            [3_000, 3_000_000, 3_000_000_000]
        );
        assert_eq!(
            (Nanos::from_millis(1_500).as_secs_f64(), Nanos(7).since(Nanos(3)), Nanos(3).since(Nanos(7))),
            (1.5, Nanos(4), Nanos(0))
        );
        assert_eq!(std::time::Duration::from(Nanos(1_500)), std::time::Duration::from_nanos(1_500));
        let [slow, fast] = [2, 100].map(|hz| Rate::from_hz(hz).unwrap());
        assert_eq!((slow.hz(), fast.hz()), (2.0, 100.0));
        assert_eq!((slow.at_most(fast), fast.at_most(slow), fast.at_most(fast)), (slow, slow, fast));
        assert_eq!((slow.is_above(fast), fast.is_above(slow), fast.is_above(fast)), (false, true, false));
        let stamp = Stamp { boot: Nanos(5_000_000_001), real_offset: -10_000_000_000 };
        assert_eq!(
            (stamp.real(), stamp.boot_text().as_str()),
            (Nanos(0), "5.000000001"),
            "no time is before 1970"
        );
    }

    #[test]
    fn a_bare_number_is_no_duration_and_the_error_says_what_is() {
        let error = "5".parse::<Nanos>().unwrap_err().to_string();
        assert_eq!(error, "'5' is not a duration: write it with its unit, as 5s, 100ms, 10m, 2h or 21d");
    }

    #[test]
    fn a_stamp_prints_seconds_with_nanoseconds() {
        let stamp = Stamp { boot: Nanos(5_000_000_001), real_offset: 1_000_000_000_000 };
        assert_eq!(stamp.real_text(), "1005.000000001");
    }
}
