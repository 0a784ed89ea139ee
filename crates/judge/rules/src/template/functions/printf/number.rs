//! Numbers by verbs of `printf`.

use super::text::{padded, quoted_letter};
use super::verb::Flags;
use crate::template::value::{PLACES_MAX, float, significant, with_exponent};

/// Bits of a double after its first one.
const FRACTION_BITS: u32 = 52;

/// The sign, if one is wanted or needed.
fn sign(flags: &Flags, is_negative: bool) -> &'static str {
    match (is_negative, flags.plus, flags.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    }
}

/// A double.
pub(super) fn double(flags: &Flags, c: char, number: f64) -> String {
    let size = number.abs();
    if !number.is_finite() {
        // Infinity always has its sign, and neither of them gets zeros.
        let plain =
            Flags { zero: false, plus: flags.plus || (number == f64::INFINITY && !flags.space), ..*flags };
        let digits = if number.is_nan() { "NaN" } else { "Inf" };
        return padded(&plain, format!("{}{digits}", sign(&plain, number == f64::NEG_INFINITY)));
    }
    let digits = match c {
        'b' => mantissa(size),
        'f' | 'F' => fixed(size, flags.precision.unwrap_or(6)),
        'e' | 'E' => exponential(size, flags.precision.unwrap_or(6)),
        'x' | 'X' => hexadecimal(size, flags.precision),
        _ => flags.precision.map_or_else(|| float(size), |precision| significant(size, precision)),
    };
    let digits = if matches!(c, 'E' | 'G' | 'X') { digits.to_uppercase() } else { digits };
    let digits = if flags.sharp && c != 'b' { with_point(flags, c, &digits) } else { digits };
    let sign = sign(flags, number.is_sign_negative());
    let missing = flags.width.unwrap_or(0).saturating_sub(sign.len() + digits.len());
    match flags.zero && !flags.minus {
        true => format!("{sign}{}{digits}", "0".repeat(missing)),
        false => padded(&Flags { zero: false, ..*flags }, format!("{sign}{digits}")),
    }
}

/// `%#g`: with a point, and with the zeros that belong to its precision.
fn with_point(flags: &Flags, c: char, text: &str) -> String {
    let exponent = if matches!(c, 'x' | 'X') { ['p', 'P'] } else { ['e', 'E'] };
    let (number, tail) = text.split_at(text.find(exponent).unwrap_or(text.len()));
    let wanted = match c {
        'v' | 'g' | 'G' | 'x' => flags.precision.unwrap_or(6),
        _ => 0,
    };
    let significant = number.chars().filter(|c| *c != '.').skip_while(|c| *c == '0').count();
    let has_point = number.contains('.');
    // A single zero counts as a digit.
    let known = significant + usize::from(!has_point && number == "0");
    let point = if has_point { "" } else { "." };
    format!("{number}{point}{}{tail}", "0".repeat(wanted.saturating_sub(known)))
}

/// A double's digits as a whole number, and its power of two.
fn parts(size: f64) -> (u64, i32) {
    let bits = size.to_bits();
    let (exponent, fraction) = ((bits >> FRACTION_BITS) as i32, bits & ((1 << FRACTION_BITS) - 1));
    match exponent {
        0 => (fraction, -1_022),
        _ => (fraction | (1 << FRACTION_BITS), exponent - 1_023),
    }
}

/// `%b`
fn mantissa(size: f64) -> String {
    let (digits, exponent) = parts(size);
    format!("{digits}p{:+}", exponent - FRACTION_BITS.cast_signed())
}

/// `%x`: digits to the base of 16, with the exponent of 2; `precision` is their number after the point, `None` means all.
fn hexadecimal(size: f64, precision: Option<usize>) -> String {
    let (mut digits, mut exponent) = parts(size);
    if digits == 0 {
        exponent = 0;
    } else {
        // A subnormal number: shift its first digit to 1.
        let zeros = digits.leading_zeros() - (63 - FRACTION_BITS);
        (digits, exponent) = (digits << zeros, exponent - zeros.cast_signed());
    }
    let kept = precision
        .map_or(FRACTION_BITS, |places| u32::try_from(4 * places).unwrap_or(u32::MAX).min(FRACTION_BITS));
    let lost = FRACTION_BITS - kept;
    if lost > 0 {
        // Round to the nearest, and from the middle to the even one.
        let (half, rest) = (1 << (lost - 1), digits & ((1 << lost) - 1));
        digits >>= lost;
        digits += u64::from(rest > half || (rest == half && digits & 1 == 1));
        digits <<= lost;
        if digits >> (FRACTION_BITS + 1) != 0 {
            (digits, exponent) = (digits >> 1, exponent + 1);
        }
    }
    let first = digits >> FRACTION_BITS;
    let fraction = format!("{:013x}", digits & ((1 << FRACTION_BITS) - 1));
    let fraction = match precision {
        None => fraction.trim_end_matches('0').to_owned(),
        Some(places) => {
            let shown = &fraction[..places.min(fraction.len())];
            shown.to_owned() + &"0".repeat(places - shown.len())
        }
    };
    let point = if fraction.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("0x{first}{point}{fraction}p{sign}{:02}", exponent.abs())
}

/// With `places` digits after the point. Rust formats at most some ten thousand, and after [`PLACES_MAX`] all are zero.
fn fixed(size: f64, places: usize) -> String {
    let text = format!("{size:.*}", places.min(PLACES_MAX));
    text + &"0".repeat(places.saturating_sub(PLACES_MAX))
}

fn exponential(size: f64, places: usize) -> String {
    let text = format!("{size:.*e}", places.min(PLACES_MAX));
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = digits.to_owned() + &"0".repeat(places.saturating_sub(PLACES_MAX));
    with_exponent(&digits, exponent.parse().unwrap_or(0))
}

/// At least `places` digits, with zeros on the left.
fn filled(digits: String, places: usize) -> String {
    "0".repeat(places.saturating_sub(digits.len())) + &digits
}

/// A whole number.
pub(super) fn whole(flags: &Flags, c: char, number: i64) -> String {
    let size = number.unsigned_abs();
    let letter = || u32::try_from(number).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
    let digits = match c {
        'c' => return padded(flags, letter().to_string()),
        'q' => return quoted_letter(flags, letter()),
        'U' => return code_point(flags, number),
        'x' => format!("{size:x}"),
        'X' => format!("{size:X}"),
        'o' | 'O' => format!("{size:o}"),
        'b' => format!("{size:b}"),
        _ => size.to_string(),
    };
    let plain = Flags { zero: false, ..*flags };
    let sign = sign(flags, number < 0);
    let places = match flags.precision {
        Some(0) if number == 0 => return padded(&plain, String::new()),
        Some(places) => places,
        // Zeros fill the width.
        None if flags.zero && !flags.minus => flags.width.unwrap_or(0).saturating_sub(sign.len()),
        None => 0,
    };
    let digits = filled(digits, places);
    let prefix = match c {
        'b' if flags.sharp => "0b",
        'o' if flags.sharp && !digits.starts_with('0') => "0",
        'O' if flags.sharp && !digits.starts_with('0') => "0o0",
        'O' => "0o",
        'x' if flags.sharp => "0x",
        'X' if flags.sharp => "0X",
        _ => "",
    };
    padded(&plain, format!("{sign}{prefix}{digits}"))
}

/// `%U`: a number below zero is taken for the one that has its bits.
fn code_point(flags: &Flags, number: i64) -> String {
    let places = flags.precision.unwrap_or(4).max(4);
    let mut text = format!("U+{}", filled(format!("{:X}", number.cast_unsigned()), places));
    let letter = u32::try_from(number).ok().and_then(char::from_u32);
    if let Some(c) = letter.filter(|c| flags.sharp && !crate::template::functions::escape::is_hidden(*c)) {
        text += &format!(" '{c}'");
    }
    padded(&Flags { zero: false, ..*flags }, text)
}
