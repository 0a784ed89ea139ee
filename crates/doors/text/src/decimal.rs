//! Writes decimals straight into bytes: the digits that [`khz_model::Decimal`] prints, without a formatter.

use khz_model::decimal::PLACES_MAX;

/// The longest decimal: twenty digits, a point and a zero before it.
pub(crate) const DECIMAL_BYTES_MAX: usize = 24;

/// Writes a value with this many decimal places to the start of `out`; returns its length.
#[inline]
pub(crate) fn put(out: &mut [u8; DECIMAL_BYTES_MAX], value: u64, places: u8) -> usize {
    // Writes the digits from the last to the first. The second half is room for a copy of fixed length, which
    // needs no loop.
    let mut digits = [0u8; 2 * DECIMAL_BYTES_MAX];
    let mut at = DECIMAL_BYTES_MAX;
    let mut rest = value;
    if places > 0 {
        for _ in 0..places.min(PLACES_MAX) {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        at -= 1;
        digits[at] = b'.';
    }
    while rest >= 100 {
        at -= 2;
        let pair = 2 * (rest % 100) as usize;
        digits[at] = PAIRS[pair];
        digits[at + 1] = PAIRS[pair + 1];
        rest /= 100;
    }
    if rest >= 10 {
        at -= 2;
        digits[at] = PAIRS[2 * rest as usize];
        digits[at + 1] = PAIRS[2 * rest as usize + 1];
    } else {
        at -= 1;
        digits[at] = b'0' + rest as u8;
    }
    out.copy_from_slice(&digits[at..at + DECIMAL_BYTES_MAX]);
    DECIMAL_BYTES_MAX - at
}

/// "00", "01", ... "99".
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut n = 0;
    while n < 100 {
        pairs[2 * n] = b'0' + (n / 10) as u8;
        pairs[2 * n + 1] = b'0' + (n % 10) as u8;
        n += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::Decimal;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn digits_are_those_that_the_model_prints(value: u64, shift in 0u32..64, places in 0u8..25) {
            let value = value >> shift;
            let mut out = [0; DECIMAL_BYTES_MAX];
            let length = put(&mut out, value, places);
            prop_assert_eq!(std::str::from_utf8(&out[..length]).unwrap(), Decimal::new(value, places).to_string());
        }
    }

    #[test]
    fn the_longest_fit() {
        for places in [0, 1, PLACES_MAX] {
            let mut out = [0; DECIMAL_BYTES_MAX];
            let length = put(&mut out, u64::MAX, places);
            assert_eq!(
                std::str::from_utf8(&out[..length]).unwrap(),
                Decimal::new(u64::MAX, places).to_string()
            );
        }
    }
}
