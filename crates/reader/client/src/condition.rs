//! Conditions: when a subscription reports a value. In or out of a range, on crossing a bound, or after a
//! change of at least an amount. Compares values exactly, as integers with decimal places. Pure.

use std::str::FromStr;

use khz_model::{ByteSize, Reading, ValueFormat};

/// Most decimal places of an amount.
const PLACES_MAX: u32 = 18;

/// A number with decimal places, exactly as written: `0.5`, `-17`, `1GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    units: i128,
    places: u32,
}

/// A text that is no amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an amount, as 17, 0.5 or 1GiB")]
pub struct AmountError(String);

impl From<u64> for Amount {
    fn from(units: u64) -> Self {
        Amount { units: i128::from(units), places: 0 }
    }
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        if let Ok(size) = text.parse::<ByteSize>() {
            return Ok(size.0.into());
        }
        let wrong = || AmountError(text[..text.floor_char_boundary(40)].to_owned());
        let (sign, size) = text.strip_prefix('-').map_or((1, text), |size| (-1, size));
        let (whole, rest) = size.split_once('.').unwrap_or((size, ""));
        let digits = format!("{whole}{rest}");
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || rest.len() as u32 > PLACES_MAX || whole.len() > 20 {
            return Err(wrong());
        }
        let units: i128 = digits.parse().map_err(|_| wrong())?;
        Ok(Amount { units: sign * units, places: rest.len() as u32 })
    }
}

impl Amount {
    fn of(value: u64, format: ValueFormat) -> Option<Self> {
        let (units, places) = format.steps(value)?;
        Some(Amount { units, places: u32::from(places).min(PLACES_MAX) })
    }

    /// Both with the same number of decimal places. Amounts have at most 20 digits before the point and 18
    /// after it.
    fn aligned(self, other: Amount) -> (i128, i128) {
        let places = self.places.max(other.places);
        let scaled = |amount: Amount| amount.units.saturating_mul(10i128.pow(places - amount.places));
        (scaled(self), scaled(other))
    }

    fn is_at_least(self, other: Amount) -> bool {
        let (one, two) = self.aligned(other);
        one >= two
    }
}

/// When a value is reported. A value that becomes absent, or comes back, is always reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Condition {
    /// With every row.
    #[default]
    Always,
    /// When it differs from the one before.
    Changed,
    /// While it is in the range (bounds included), and once when it has left it.
    Inside(Amount, Amount),
    /// While it is outside the range, and once when it has entered it.
    Outside(Amount, Amount),
    /// When it rises to the bound or above, or falls below it.
    Crossing(Amount),
    /// When it differs by at least this from the last reported value. The same value is never reported twice.
    ChangedBy(Amount),
    /// When it differs from the last reported value by at least this percentage of that value.
    ChangedByPercent(Amount),
}

/// A condition applied to the values of one series.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    condition: Condition,
    previous: Option<Reading>,
    reported: Option<Reading>,
}

impl Gate {
    /// A gate that has seen no value.
    pub fn new(condition: Condition) -> Self {
        Gate { condition, previous: None, reported: None }
    }

    /// The next value, with its format; true when it is to be reported.
    pub fn passes(&mut self, reading: Reading, format: ValueFormat) -> bool {
        let passes = self.is_worth_reporting(reading, format);
        self.previous = Some(reading);
        if passes {
            self.reported = Some(reading);
        }
        passes
    }

    fn is_worth_reporting(&self, reading: Reading, format: ValueFormat) -> bool {
        let amount = |reading: Option<Reading>| {
            reading.and_then(Reading::value).and_then(|value| Amount::of(value, format))
        };
        let Some(now) = amount(Some(reading)) else {
            // Reports once that there is no number, and why, and each change of labels.
            return matches!(self.condition, Condition::Always) || self.previous != Some(reading);
        };
        let (before, reported) = (amount(self.previous), amount(self.reported));
        let came_back = self.previous.is_some() && before.is_none();
        came_back
            || match self.condition {
                Condition::Always => true,
                Condition::Changed => before != Some(now),
                Condition::Inside(low, high) => {
                    is_inside(now, low, high) || before.is_some_and(|before| is_inside(before, low, high))
                }
                Condition::Outside(low, high) => {
                    !is_inside(now, low, high) || before.is_some_and(|before| !is_inside(before, low, high))
                }
                Condition::Crossing(bound) => {
                    before.is_some_and(|before| before.is_at_least(bound) != now.is_at_least(bound))
                }
                Condition::ChangedBy(amount) => {
                    reported.is_none_or(|reported| differs_by(now, reported, amount))
                }
                Condition::ChangedByPercent(percent) => {
                    reported.is_none_or(|reported| differs_by_percent(now, reported, percent))
                }
            }
    }
}

fn is_inside(value: Amount, low: Amount, high: Amount) -> bool {
    value.is_at_least(low) && high.is_at_least(value)
}

fn differs_by(now: Amount, reported: Amount, amount: Amount) -> bool {
    let (one, two) = now.aligned(reported);
    let difference =
        Amount { units: one.saturating_sub(two).saturating_abs(), places: now.places.max(reported.places) };
    difference.units > 0 && difference.is_at_least(amount)
}

/// Values of one series have the same number of places, so places do not matter here.
fn differs_by_percent(now: Amount, reported: Amount, percent: Amount) -> bool {
    let scale = 100i128.saturating_mul(10i128.pow(percent.places));
    let difference = now.units.saturating_sub(reported.units).saturating_abs();
    let wanted = reported.units.saturating_abs().saturating_mul(percent.units);
    difference > 0 && difference.saturating_mul(scale) >= wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::{Absence, ValueType};

    fn amount(text: &str) -> Amount {
        text.parse().unwrap()
    }

    /// Which of these values, with two decimal places, are reported.
    fn reported(condition: Condition, values: &[u64]) -> Vec<u64> {
        let mut gate = Gate::new(condition);
        let format = ValueFormat { value_type: ValueType::Unsigned, places: 2 };
        values.iter().copied().filter(|&value| gate.passes(Reading::Present(value), format)).collect()
    }

    #[test]
    fn each_condition_reports_the_values_it_describes() {
        let values = [100, 150, 150, 200, 250, 300, 100];
        let between = (amount("1.5"), amount("2.5"));
        assert_eq!(reported(Condition::Always, &values), values);
        assert_eq!(reported(Condition::Changed, &values), [100, 150, 200, 250, 300, 100]);
        assert_eq!(reported(Condition::Inside(between.0, between.1), &values), [150, 150, 200, 250, 300]);
        assert_eq!(reported(Condition::Outside(between.0, between.1), &values), [100, 150, 300, 100]);
        assert_eq!(reported(Condition::Crossing(amount("2")), &values), [200, 100]);
        assert_eq!(reported(Condition::ChangedBy(amount("0.5")), &values), [100, 150, 200, 250, 300, 100]);
        assert_eq!(reported(Condition::ChangedByPercent(amount("50")), &values), [100, 150, 250, 100]);
    }

    #[test]
    fn a_change_of_exactly_the_amount_is_reported_and_the_same_value_never_twice() {
        let values = [100, 149, 150, 150, 101, 100];
        assert_eq!(reported(Condition::ChangedBy(amount("0.5")), &values), [100, 150, 100]);
        assert_eq!(
            reported(Condition::ChangedByPercent(amount("50")), &[100, 149, 150, 76, 75]),
            [100, 150, 75]
        );
        for nothing in [Condition::ChangedBy(amount("0")), Condition::ChangedByPercent(amount("0"))] {
            assert_eq!(reported(nothing, &[7, 7, 8, 8]), [7, 8]);
        }
        // Every change is at least a percentage of 0.
        assert_eq!(reported(Condition::ChangedByPercent(amount("5")), &[0, 0, 1]), [0, 1]);
    }

    #[test]
    fn values_below_zero_meet_bounds_below_zero() {
        let mut gate = Gate::new(Condition::Inside(amount("-1.5"), amount("-0.5")));
        let format = ValueFormat { value_type: ValueType::Signed, places: 1 };
        let passes = [-30i64, -15, -5, -4, 4]
            .map(|value| gate.passes(Reading::Present(value.cast_unsigned()), format));
        assert_eq!(passes, [false, true, true, true, false], "the last of them has left the range");
        let mut gate = Gate::new(Condition::ChangedByPercent(amount("50")));
        let passes = [-10i64, -14, -15, -15, 16]
            .map(|value| gate.passes(Reading::Present(value.cast_unsigned()), format));
        assert_eq!(passes, [true, false, true, false, true]);
    }

    #[test]
    fn labels_and_not_a_number_are_reported_when_they_change() {
        let mut gate = Gate::new(Condition::Crossing(amount("1")));
        let format = ValueFormat { value_type: ValueType::Labels, places: 0 };
        let passes = [1, 1, 2].map(|number| gate.passes(Reading::Labels(number), format));
        assert_eq!(passes, [true, false, true]);
        let mut gate = Gate::new(Condition::ChangedBy(amount("1")));
        let format = ValueFormat { value_type: ValueType::Float, places: 0 };
        let passes = [0.0, 0.5, f64::NAN, f64::NAN, 0.5]
            .map(|value: f64| gate.passes(Reading::Present(value.to_bits()), format));
        assert_eq!(passes, [true, false, true, false, true]);
    }

    #[test]
    fn a_value_that_goes_and_comes_back_is_reported_once() {
        let mut gate = Gate::new(Condition::Inside(amount("5"), amount("6")));
        let gone = Reading::Absent(Absence::InstanceGone);
        let readings = [Reading::Present(1), gone, gone, Reading::Present(1), Reading::Present(1)];
        assert_eq!(
            readings.map(|reading| gate.passes(reading, ValueFormat::WHOLE)),
            [false, true, false, true, false]
        );
    }

    #[test]
    fn amounts_are_exact() {
        assert_eq!(amount("1GiB"), Amount::from(1 << 30));
        assert!(amount("18446744073709551615").is_at_least(Amount::from(u64::MAX)));
        let almost = amount("0.000000000000000001");
        assert!(almost.is_at_least(0.into()) && !Amount::from(0).is_at_least(almost));
        for text in
            ["", ".", "-", "--1", "1-", "1e3", "0.0000000000000000001", "NaN", "999999999999999999999"]
        {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
    }
}
