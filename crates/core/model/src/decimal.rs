//! An exact decimal number: a whole number of up to 64 bits, its sign, and the number of its digits after the
//! point. It never rounds: it prints what the kernel printed, digit for digit.

use std::cmp::Ordering;
use std::fmt;

/// `units / 10^places`, or that below zero. The kernel's `0.52` is `Decimal::new(52, 2)` and prints as `0.52`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    units: u64,
    places: u8,
    /// Never true for zero.
    is_negative: bool,
}

/// More places than this never occur: nanoseconds have nine.
pub const PLACES_MAX: u8 = 18;

impl Decimal {
    /// `units` counted in steps of `10^-places`; `places` beyond [`PLACES_MAX`] are taken as [`PLACES_MAX`].
    pub const fn new(units: u64, places: u8) -> Self {
        let places = if places > PLACES_MAX { PLACES_MAX } else { places };
        Decimal { units, places, is_negative: false }
    }

    /// The same for a number that may be below zero.
    pub const fn signed(units: i64, places: u8) -> Self {
        let decimal = Decimal::new(units.unsigned_abs(), places);
        Decimal { is_negative: units < 0, ..decimal }
    }

    /// The same for any whole number of up to 64 bits and a sign; `None` beyond that.
    pub fn of_steps(steps: i128, places: u8) -> Option<Self> {
        let units = u64::try_from(steps.unsigned_abs()).ok()?;
        Some(Decimal { is_negative: steps < 0, ..Decimal::new(units, places) })
    }

    /// The arguments of [`Decimal::of_steps`]: the digits without the point, with their sign, and how many digits
    /// come after the point.
    pub const fn steps_and_places(self) -> (i128, u8) {
        let steps = self.units as i128;
        (if self.is_negative { -steps } else { steps }, self.places)
    }

    /// The double that is nearest to the number, which is the one that its text is read as: for plots, ratios and PromQL, never
    /// for storage.
    pub fn to_f64(self) -> f64 {
        let size = match self.units >> f64::MANTISSA_DIGITS {
            // Both are exact as doubles, so their quotient is rounded once.
            0 => self.units as f64 / 10f64.powi(i32::from(self.places)),
            _ => self.quotient_of_large(),
        };
        if self.is_negative { -size } else { size }
    }

    /// The same for units that no double represents exactly: divided as whole numbers, then rounded
    /// once.
    fn quotient_of_large(self) -> f64 {
        const SHIFT: u32 = 63;
        let step = 10u128.pow(u32::from(self.places));
        let shifted = u128::from(self.units) << SHIFT;
        // 56 bits at least. The last one says that something is left, so that it is not rounded to the even one of two.
        let quotient = (shifted / step) | u128::from(!shifted.is_multiple_of(step));
        quotient as f64 / 2f64.powi(SHIFT as i32)
    }

    /// The same number divided by a whole number, exact when it divides evenly, otherwise to nine more places.
    pub fn divided_by(self, divisor: u64) -> Self {
        if divisor <= 1 {
            return self;
        }
        let (units, places) = self.quotient(divisor);
        Decimal { units, places, is_negative: self.is_negative && units > 0 }
    }

    /// Units and places of the quotient; its sign is left out.
    fn quotient(self, divisor: u64) -> (u64, u8) {
        if self.units.is_multiple_of(divisor) {
            return (self.units / divisor, self.places);
        }
        let mut units = u128::from(self.units);
        let mut places = self.places;
        while places < PLACES_MAX && places < self.places + 9 && !units.is_multiple_of(u128::from(divisor)) {
            units *= 10;
            places += 1;
        }
        match u64::try_from(units / u128::from(divisor)) {
            Ok(units) => (units, places),
            Err(_) => (self.units / divisor, self.places),
        }
    }

    /// The point moved to the right by `digits`, or to the number's end.
    pub(crate) fn shifted(self, digits: u8) -> Self {
        Decimal { places: self.places.saturating_sub(digits), ..self }
    }

    /// The signed number in steps of the most places there are: comparable with any other.
    fn finest_steps(self) -> i128 {
        // At most 2^64 times 10^18, which is less than 2^127.
        let steps = u128::from(self.units) * 10u128.pow(u32::from(PLACES_MAX - self.places));
        if self.is_negative { -steps.cast_signed() } else { steps.cast_signed() }
    }

    /// Compares the numbers, whatever their places are: 1.0 is as large as 1.
    pub fn by_size(&self, other: &Self) -> Ordering {
        if self.places == other.places && !self.is_negative && !other.is_negative {
            return self.units.cmp(&other.units);
        }
        self.finest_steps().cmp(&other.finest_steps())
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative { "-" } else { "" };
        if self.places == 0 {
            return write!(f, "{sign}{}", self.units);
        }
        let step = 10u64.pow(u32::from(self.places));
        let (whole, rest) = (self.units / step, self.units % step);
        write!(f, "{sign}{whole}.{rest:0width$}", width = usize::from(self.places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_double_is_the_one_that_the_printed_number_is_read_as(
            units in prop_oneof![0u64..1 << 53, any::<u64>(), (1u64 << 53) - 9..(1 << 53) + 9], places in 0..=PLACES_MAX,
        ) {
            let number = Decimal::new(units, places);
            prop_assert_eq!(number.to_f64(), number.to_string().parse::<f64>().unwrap(), "{}", number);
        }

        #[test]
        fn a_quotient_is_off_by_less_than_its_last_place(
            units in prop_oneof![any::<u64>(), 0u64..1_000_000], places in 0..=PLACES_MAX, divisor in 1u64..10_000,
        ) {
            let (whole, part) = (Decimal::new(units, places), Decimal::new(units, places).divided_by(divisor));
            prop_assert!(part.places >= places && part.places <= PLACES_MAX.min(places + 9));
            // Whole times 10^(more places), to compare with the quotient's digits.
            let scaled = u128::from(whole.units) * 10u128.pow(u32::from(part.places - places));
            prop_assert_eq!(scaled / u128::from(divisor), u128::from(part.units), "{} / {}", whole, divisor);
            // It ends where it is exact, after nine more places, or where no more digits fit.
            let is_exact = scaled.is_multiple_of(u128::from(divisor));
            let is_full = part.places == PLACES_MAX.min(places + 9);
            let overflows = scaled / u128::from(divisor) * 10 > u128::from(u64::MAX / 1_000_000_000);
            prop_assert!(is_exact || is_full || overflows, "{} / {} = {}", whole, divisor, part);
        }
    }

    proptest! {
        #[test]
        fn numbers_below_zero_are_those_above_it_with_a_sign(units in 1..=i64::MAX, places in 0..=PLACES_MAX, divisor in 1u64..1_000) {
            let (above, below) = (Decimal::signed(units, places), Decimal::signed(-units, places));
            prop_assert_eq!(format!("-{above}"), below.to_string());
            prop_assert_eq!(-above.to_f64(), below.to_f64());
            let (above, below) = (above.divided_by(divisor), below.divided_by(divisor));
            let is_mirrored = below.to_string() == format!("-{above}");
            prop_assert!(is_mirrored || (above.units == 0 && below == above));
        }

        #[test]
        fn numbers_of_different_places_compare_by_size(
            one in any::<i64>(), two in any::<i64>(), one_places in 0..=PLACES_MAX, two_places in 0..=PLACES_MAX,
        ) {
            let (one, two) = (Decimal::signed(one, one_places), Decimal::signed(two, two_places));
            let order = one.by_size(&two);
            prop_assert_eq!(order, two.by_size(&one).reverse());
            if let Some(doubles) = one.to_f64().partial_cmp(&two.to_f64()).filter(|order| order.is_ne()) {
                prop_assert_eq!(order, doubles, "{} and {}", one, two);
            }
        }
    }

    #[test]
    fn the_lowest_number_has_its_text_and_zero_has_no_sign() {
        assert_eq!(Decimal::signed(i64::MIN, 0).to_string(), "-9223372036854775808");
        assert_eq!(Decimal::signed(-5, 3).to_string(), "-0.005");
        assert_eq!(
            (Decimal::signed(0, 1), Decimal::signed(0, 1).to_f64().is_sign_negative()),
            (Decimal::new(0, 1), false)
        );
        assert_eq!(
            Decimal::of_steps(-i128::from(u64::MAX), 0).map(|least| least.to_string()).as_deref(),
            Some("-18446744073709551615")
        );
        assert_eq!(
            (Decimal::of_steps(0, 1), Decimal::of_steps(1 << 64, 0)),
            (Some(Decimal::new(0, 1)), None)
        );
        assert_eq!(Decimal::new(10, 1).by_size(&Decimal::new(1, 0)), Ordering::Equal);
        assert_eq!(Decimal::new(u64::MAX, 0).by_size(&Decimal::new(u64::MAX - 1, 0)), Ordering::Greater);
    }

    #[test]
    fn places_beyond_the_maximum_count_as_the_maximum() {
        assert_eq!(Decimal::new(7, 200), Decimal::new(7, PLACES_MAX));
        assert_eq!(Decimal::new(7, PLACES_MAX).to_string(), "0.000000000000000007");
    }

    #[test]
    fn prints_what_the_kernel_printed() {
        assert_eq!(Decimal::new(52, 2).to_string(), "0.52");
        assert_eq!(Decimal::new(12_345_678, 2).to_string(), "123456.78");
        assert_eq!(Decimal::new(u64::MAX, 0).to_string(), "18446744073709551615");
        assert_eq!(Decimal::new(5, 9).to_string(), "0.000000005");
    }

    #[test]
    fn division_is_exact_where_it_can_be() {
        assert_eq!(Decimal::new(4096, 0).divided_by(1024).to_string(), "4");
        assert_eq!(Decimal::new(1536, 0).divided_by(1024).to_string(), "1.5");
        assert_eq!(Decimal::new(1, 0).divided_by(3).to_string(), "0.333333333");
    }
}
