//! An exact decimal number: an unsigned 64-bit integer and the number of its digits after the point. It never
//! rounds: it prints what the kernel printed, digit for digit.

use std::fmt;

/// `units / 10^places`. The kernel's `0.52` is `Decimal::new(52, 2)` and prints as `0.52`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    units: u64,
    places: u8,
}

/// More places than this never occur: nanoseconds have nine.
pub const PLACES_MAX: u8 = 18;

impl Decimal {
    /// `units` counted in steps of `10^-places`; `places` beyond [`PLACES_MAX`] are taken as [`PLACES_MAX`].
    pub const fn new(units: u64, places: u8) -> Self {
        let places = if places > PLACES_MAX { PLACES_MAX } else { places };
        Decimal { units, places }
    }

    /// The number as the nearest double: for plots and ratios, never for storage.
    pub fn to_f64(self) -> f64 {
        self.units as f64 / 10f64.powi(i32::from(self.places))
    }

    /// The same number divided by a whole number, exact when it divides evenly, otherwise to nine more places.
    pub fn divided_by(self, divisor: u64) -> Self {
        if divisor <= 1 {
            return self;
        }
        if self.units.is_multiple_of(divisor) {
            return Decimal { units: self.units / divisor, places: self.places };
        }
        let mut units = u128::from(self.units);
        let mut places = self.places;
        while places < PLACES_MAX && places < self.places + 9 && !units.is_multiple_of(u128::from(divisor)) {
            units *= 10;
            places += 1;
        }
        match u64::try_from(units / u128::from(divisor)) {
            Ok(units) => Decimal { units, places },
            Err(_) => Decimal { units: self.units / divisor, places: self.places },
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.places == 0 {
            return write!(f, "{}", self.units);
        }
        let step = 10u64.pow(u32::from(self.places));
        let (whole, rest) = (self.units / step, self.units % step);
        write!(f, "{whole}.{rest:0width$}", width = usize::from(self.places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_double_is_the_one_that_the_printed_number_is_read_as(units in 0u64..1 << 53, places in 0..=PLACES_MAX) {
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
