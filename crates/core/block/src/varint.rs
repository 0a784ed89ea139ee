//! LEB128 and zigzag. It reads at most ten bytes. Most numbers have one to four bytes (a hundredth of a
//! second in nanoseconds has four); those cases are unrolled.

/// The largest number has this many bytes.
pub const BYTES_MAX: usize = 10;

/// Appends `value`.
#[inline]
pub fn put(out: &mut Vec<u8>, value: u64) {
    let more = |shift: u32| (value >> shift) as u8 | 0x80;
    if value < 1 << 7 {
        out.push(value as u8);
    } else if value < 1 << 14 {
        out.extend_from_slice(&[more(0), (value >> 7) as u8]);
    } else if value < 1 << 21 {
        out.extend_from_slice(&[more(0), more(7), (value >> 14) as u8]);
    } else {
        put_long(out, value);
    }
}

fn put_long(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number of bytes that [`put`] appends.
#[inline]
pub const fn length(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Reads a number; returns it and the bytes after it.
#[inline]
pub fn get(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let low = |byte: u8| u64::from(byte & 0x7f);
    match *bytes {
        [a, ref rest @ ..] if a < 0x80 => Some((u64::from(a), rest)),
        [a, b, ref rest @ ..] if b < 0x80 => Some((low(a) | low(b) << 7, rest)),
        [a, b, c, ref rest @ ..] if c < 0x80 => Some((low(a) | low(b) << 7 | low(c) << 14, rest)),
        [a, b, c, d, ref rest @ ..] if d < 0x80 => {
            Some((low(a) | low(b) << 7 | low(c) << 14 | low(d) << 21, rest))
        }
        _ => get_long(bytes),
    }
}

fn get_long(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(BYTES_MAX).enumerate() {
        if i == BYTES_MAX - 1 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, &bytes[i + 1..]));
        }
    }
    None
}

/// Turns small differences of either sign into small numbers.
#[inline]
pub const fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

/// What [`zigzag`] was given.
#[inline]
pub const fn unzigzag(folded: u64) -> u64 {
    (folded >> 1) ^ (folded & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers on both sides of every change of length, and between.
    fn numbers() -> impl Strategy<Value = u64> {
        prop_oneof![
            (0u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift),
            (0u32..64, -1i64..=1).prop_map(|(bit, by)| (1u64 << bit).wrapping_add_signed(by)),
        ]
    }

    proptest! {
        #[test]
        fn the_unrolled_cases_and_the_loop_agree(value in numbers(), rest in prop::collection::vec(any::<u8>(), 0..12)) {
            let (mut plain, mut fast) = (Vec::new(), vec![7]);
            put_long(&mut plain, value);
            put(&mut fast, value);
            prop_assert_eq!(&fast[1..], &plain[..]);
            prop_assert_eq!(plain.len(), length(value));
            plain.extend(&rest);
            prop_assert_eq!(get(&plain), Some((value, &rest[..])));
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }

        #[test]
        fn any_bytes_read_alike(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x80u8..], 0..14)) {
            prop_assert_eq!(get(&bytes), get_long(&bytes));
        }
    }
}
