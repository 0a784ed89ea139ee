//! Digits to numbers. It refuses everything that is not a digit: no sign, no white space inside, no rounding,
//! no wrap beyond 64 bits.

use khz_model::Fault;

/// Reads ` *[0-9]+`, followed by `.` and exactly `places` digits when `places` is not 0, as one whole number
/// of `10^-places` steps.
#[inline]
pub fn parse(text: &[u8], places: u8) -> Result<u64, Fault> {
    let text = without_padding(text);
    if places == 0 {
        return digits(text);
    }
    let places = usize::from(places);
    let Some(point) = text.len().checked_sub(places + 1) else { return Err(Fault::Malformed) };
    if point == 0 || text[point] != b'.' {
        return Err(Fault::Malformed);
    }
    let whole = digits(&text[..point])?;
    let rest = digits(&text[point + 1..])?;
    whole
        .checked_mul(10u64.pow(places as u32))
        .and_then(|steps| steps.checked_add(rest))
        .ok_or(Fault::OutOfRange)
}

#[inline]
fn without_padding(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] = text {
        text = rest;
    }
    text
}

/// One or more hexadecimal digits.
pub fn hexadecimal(text: &[u8]) -> Result<u64, Fault> {
    let digit = |&byte: &u8| char::from(byte).to_digit(16).map(u64::from).ok_or(Fault::Malformed);
    if text.is_empty() {
        return Err(Fault::Malformed);
    }
    text.iter().map(digit).try_fold(0u64, |value, digit| {
        let digit = digit?;
        if value >> 60 == 0 { Ok(value << 4 | digit) } else { Err(Fault::OutOfRange) }
    })
}

/// One or more decimal digits.
#[inline]
pub fn digits(text: &[u8]) -> Result<u64, Fault> {
    match text.len() {
        0 => Err(Fault::Malformed),
        1..=19 => short(text),
        _ => long(text),
    }
}

/// Up to 19 digits cannot overflow: eight at a time, then one at a time.
#[inline]
fn short(text: &[u8]) -> Result<u64, Fault> {
    let (eights, rest) = text.as_chunks::<8>();
    let mut value = 0u64;
    for eight in eights {
        value = value * 100_000_000 + eight_digits(u64::from_le_bytes(*eight)).ok_or(Fault::Malformed)?;
    }
    let mut strange = 0u8;
    for &byte in rest {
        let digit = byte.wrapping_sub(b'0');
        strange |= u8::from(digit > 9);
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    if strange == 0 { Ok(value) } else { Err(Fault::Malformed) }
}

#[cold]
fn long(text: &[u8]) -> Result<u64, Fault> {
    if !text.iter().all(u8::is_ascii_digit) {
        return Err(Fault::Malformed);
    }
    let checked = |value: u64, &digit: &u8| value.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    text.iter().try_fold(0u64, checked).ok_or(Fault::OutOfRange)
}

/// Eight ASCII digits in one word, first digit in the lowest byte. Three multiplications join them: into
/// pairs, fours, then all eight.
#[inline]
fn eight_digits(word: u64) -> Option<u64> {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let values = word.wrapping_sub(ZEROS);
    // A byte is a digit when both the byte and the byte plus 6 are within 0x30..=0x3f.
    if (word & 0xF0F0_F0F0_F0F0_F0F0) != ZEROS
        || (values.wrapping_add(0x0606_0606_0606_0606) & 0xF0F0_F0F0_F0F0_F0F0) != 0
    {
        return None;
    }
    Some(eight_values(values))
}

/// Eight bytes of 0 to 9, first digit in the lowest byte, as one number.
#[inline(always)]
fn eight_values(values: u64) -> u64 {
    let pairs = (values.wrapping_mul(10).wrapping_add(values >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    (fours.wrapping_mul(10_000).wrapping_add(fours >> 32)) & 0xFFFF_FFFF
}

/// Reads a number that fills the last `length` bytes of `block`, in the same form as [`parse`], all digits at
/// once and almost without a branch. It accepts blanks before the digits only if `padded`. `None`: it is not
/// such a number, or [`parse`] must decide (more than 16 bytes, or other than 0 or 2 places).
#[inline(always)]
pub(crate) fn at_the_end(block: &[u8; 16], length: usize, places: u8, padded: bool) -> Option<u64> {
    if length == 0 || length > 16 || length <= usize::from(places) + usize::from(places > 0) {
        return None;
    }
    // The number's first byte is now the lowest; the shift drops the bytes before it and appends zeros.
    let mut bytes = u128::from_le_bytes(*block) >> (8 * (16 - length));
    let mut count = length;
    if places == 2 {
        let before_point = 8 * (length - 3);
        if (bytes >> before_point) as u8 != b'.' {
            return None;
        }
        let whole = bytes & !(u128::MAX << before_point);
        bytes = whole | ((u128::from_le_bytes(*block) >> 112) << before_point);
        count = length - 1;
    } else if places != 0 {
        return None;
    }
    let used = !u128::MAX.checked_shl(8 * count as u32).unwrap_or(0);
    // A blank differs from a zero digit in one bit: a lane with bit 4 clear is a blank or an invalid byte.
    let blanks = !bytes & repeat(0x10) & used;
    let blank_lanes = (blanks >> 4) * 0xFF;
    let high_is_3 = (bytes | repeat(0x10)) & repeat(0xF0) & used == repeat(0x30) & used;
    let low = bytes & repeat(0x0F) & used;
    let low_is_decimal = low.wrapping_add(repeat(0x06) & used) & repeat(0xF0) == 0;
    let blanks_are_blank = low & blank_lanes == 0;
    // Blanks come before all digits (lanes are filled from the lowest on), and at least one digit follows. A
    // number with a point has a digit before it.
    let in_front = blank_lanes & blank_lanes.wrapping_add(1) == 0;
    let digits_needed = 8 * (count - usize::from(places)) as u32;
    let a_digit = blank_lanes >> (digits_needed - 8) == 0;
    let allowed = padded | (blanks == 0);
    if !(high_is_3 & low_is_decimal & blanks_are_blank & in_front & a_digit & allowed) {
        return None;
    }
    let digits = low << (8 * (16 - count));
    Some(eight_values(digits as u64) * 100_000_000 + eight_values((digits >> 64) as u64))
}

/// The same byte in every lane.
const fn repeat(byte: u8) -> u128 {
    u128::from_le_bytes([byte; 16])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn strange_text_is_refused() {
        for text in
            ["", " ", "-1", "1 2", "0x10", "1,000", "1.5", "12345678x", "x2345678", "1234567:", "1234567/"]
        {
            assert_eq!(parse(text.as_bytes(), 0), Err(Fault::Malformed), "{text}");
        }
        for text in ["", ".", ".52", "0.5", "0.520", "052", "0..52", "0.5x", "x.52"] {
            assert_eq!(parse(text.as_bytes(), 2), Err(Fault::Malformed), "{text}");
        }
    }

    #[test]
    fn beyond_64_bits_is_out_of_range_not_wrapped() {
        assert_eq!(parse(b"18446744073709551615", 0), Ok(u64::MAX));
        assert_eq!(parse(b"18446744073709551616", 0), Err(Fault::OutOfRange));
        assert_eq!(parse(b"99999999999999999999999", 0), Err(Fault::OutOfRange));
        assert_eq!(parse(b"18446744073709551615.00", 2), Err(Fault::OutOfRange));
    }

    #[test]
    fn fixed_point_is_exact() {
        assert_eq!(parse(b"0.52", 2), Ok(52));
        assert_eq!(parse(b"  873.80", 2), Ok(87_380));
    }

    /// Checks that `at_the_end` returns the same as `parse`, or `None`.
    fn check_at_the_end(before: &str, text: &str, places: u8, padded: bool) -> Result<(), TestCaseError> {
        let whole = format!("{:>16}{before}{text}", "");
        let block: &[u8; 16] = whole.as_bytes().last_chunk().unwrap();
        let expected =
            if !padded && text.starts_with(' ') { None } else { parse(text.as_bytes(), places).ok() };
        let said = at_the_end(block, text.len(), places, padded);
        prop_assert!(said.is_none() || said == expected, "{text:?}: {said:?}, expected {expected:?}");
        if text.len() <= 16 && places != 1 {
            prop_assert_eq!(said, expected, "{:?}", text);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn the_fast_way_agrees_on_numbers(before in "[0-9 :]{0,8}", pad in 0usize..10, n in 0u64..10_000_000_000_000, padded: bool) {
            check_at_the_end(&before, &format!("{:pad$}{n}", ""), 0, padded)?;
            check_at_the_end(&before, &format!("{:pad$}{}.{:02}", "", n / 100, n % 100), 2, padded)?;
        }

        #[test]
        fn the_fast_way_agrees_on_anything(before in "[0-9 :]{0,8}", text in "[0-9 .!*/:x-]{1,18}", places in 0u8..3, padded: bool) {
            check_at_the_end(&before, &text, places, padded)?;
        }

        #[test]
        fn the_fast_way_agrees_on_any_bytes(text in "[ -~]{1,6}", padded: bool) {
            check_at_the_end("", &text, 0, padded)?;
            check_at_the_end("", &text, 2, padded)?;
        }

        #[test]
        fn agrees_with_the_standard_library(n: u64, pad in 0usize..12) {
            let text = format!("{:pad$}{n}", "");
            prop_assert_eq!(parse(text.as_bytes(), 0), Ok(n));
        }

        #[test]
        fn agrees_on_anything(text in "[0-9 x:/.-]{0,24}") {
            let plain = text.trim_start_matches(' ');
            let expected = plain.bytes().all(|b| b.is_ascii_digit()).then(|| plain.parse::<u64>().ok()).flatten();
            prop_assert_eq!(parse(text.as_bytes(), 0).ok(), expected);
        }
    }
}
