//! A stream: packs whole numbers of 64 bits into few bytes, without loss. It knows neither their meaning nor their number. The
//! reader must know both.
//!
//! If all numbers are equal, the stream has that number once. Others become differences: from the lowest number (order 0), from the
//! number before (1) or from the line through the two before (2), whichever is smallest, divided by what divides them
//! all. A difference is a *class*, the length of its bits, and the bits below its first. Classes are packed by entropy
//! (`classes.rs`), the bits are written as they are.

use khz_block::varint::{self, unzigzag, zigzag};

use crate::bits::{BitReader, BitWriter};
use crate::bytes::{Bytes, Read};
use crate::classes;

/// Kinds of streams: the first byte.
const CONSTANT: u8 = 1;
const PLAIN: u8 = 2;
/// Packed with order 0, 1 or 2: the kind minus this one.
const PACKED: u8 = 3;

/// Appends the stream of these numbers.
pub(crate) fn put(numbers: &[u64], out: &mut Vec<u8>) {
    let Some(&first) = numbers.first() else { return };
    if numbers.iter().all(|&number| number == first) {
        out.push(CONSTANT);
        return varint::put(out, first);
    }
    let start = out.len();
    put_packed(numbers, out);
    if out.len() - start > 1 + numbers.len() * 8 {
        out.truncate(start);
        out.push(PLAIN);
        out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }
}

/// Takes a stream of `count` numbers, which must end where `bytes` end.
pub(crate) fn take(bytes: &mut Bytes<'_>, count: usize) -> Read<Vec<u64>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    match bytes.byte()? {
        CONSTANT => Ok(vec![bytes.number()?; count]),
        PLAIN => {
            let plain = bytes.take(count.checked_mul(8).ok_or("a count is beyond its limit")?)?;
            Ok(plain.as_chunks().0.iter().map(|&number| u64::from_le_bytes(number)).collect())
        }
        kind @ PACKED..=5 => take_packed(bytes, kind - PACKED, count),
        _ => Err("a stream of an unknown kind"),
    }
}

/// Appends the stream of this number, `count` times.
pub(crate) fn put_constant(number: u64, count: usize, out: &mut Vec<u8>) {
    if count > 0 {
        out.push(CONSTANT);
        varint::put(out, number);
    }
}

/// Takes a stream that repeats one number; `None`, and nothing is taken: it is another one.
pub(crate) fn take_constant(bytes: &mut Bytes<'_>) -> Option<u64> {
    let mut after = Bytes(bytes.0);
    let number = (after.byte() == Ok(CONSTANT)).then(|| after.number().ok()).flatten()?;
    *bytes = after;
    Some(number)
}

/// The number of a stream that repeats one, without decoding; `None` for other streams.
pub(crate) fn constant(mut bytes: Bytes<'_>) -> Option<u64> {
    (bytes.byte() == Ok(CONSTANT)).then(|| bytes.number().ok()).flatten()
}

/// How differences are taken: order, starting number, divisor, first slope.
struct Plan {
    order: u8,
    base: u64,
    scale: u64,
    slope: u64,
}

impl Plan {
    /// The plan that promises the fewest bytes.
    fn of(numbers: &[u64]) -> Self {
        let first = numbers[0];
        let mut scale = 0;
        for &number in numbers {
            scale = divisor(scale, number.wrapping_sub(first));
            if scale == 1 {
                break;
            }
        }
        // Steps are divided as signed numbers.
        let scale = if scale > i64::MAX as u64 { 1 } else { scale.max(1) };
        let base = numbers.iter().copied().min().unwrap_or(first);
        let slope = steps(numbers[1].wrapping_sub(first), scale);
        let plans = [
            Plan {
                order: 0,
                base,
                scale: if scale_fits(numbers, base, scale) { scale } else { 1 },
                slope: 0,
            },
            Plan { order: 1, base: first, scale, slope: 0 },
            Plan { order: 2, base: first, scale, slope },
        ];
        let cheapest = plans.into_iter().min_by_key(|plan| plan.cost(numbers));
        cheapest.unwrap_or(Plan { order: 0, base: 0, scale: 1, slope: 0 })
    }

    /// Calls `each` with every difference, in zigzag form for orders 1 and 2, so that small negative ones are small
    /// numbers too.
    fn differences(&self, numbers: &[u64], each: impl FnMut(u64)) {
        // Most scales are 1, and a division takes as long as all the rest.
        match self.scale {
            1 => self.differences_by(numbers, |from_base| from_base, |from_base| from_base, each),
            scale => self.differences_by(
                numbers,
                |from_base| from_base / scale,
                |from_base| steps(from_base, scale),
                each,
            ),
        }
    }

    #[inline]
    fn differences_by(
        &self,
        numbers: &[u64],
        unsigned: impl Fn(u64) -> u64,
        signed: impl Fn(u64) -> u64,
        mut each: impl FnMut(u64),
    ) {
        let from_base = numbers.iter().map(|number| number.wrapping_sub(self.base));
        let Plan { order, mut slope, .. } = *self;
        let mut before = 0;
        match order {
            0 => from_base.for_each(|number| each(unsigned(number))),
            1 => from_base.for_each(|number| {
                let at = signed(number);
                each(zigzag(at.wrapping_sub(before)));
                before = at;
            }),
            _ => from_base.enumerate().for_each(|(place, number)| {
                let at = signed(number);
                let expected = if place == 0 { 0 } else { before.wrapping_add(slope) };
                each(zigzag(at.wrapping_sub(expected)));
                if place > 0 {
                    slope = at.wrapping_sub(before);
                }
                before = at;
            }),
        }
    }

    /// Roughly the bits that this plan needs; of many numbers those that a sample needs.
    fn cost(&self, numbers: &[u64]) -> u64 {
        let mut counts = [0u32; classes::COUNT];
        for window in sample(numbers) {
            let base = if self.order == 0 { self.base } else { window[0] };
            Plan { base, ..*self }.differences(window, |difference| counts[classes::of(difference)] += 1);
        }
        classes::cost(&counts)
    }

    /// Rebuilds the numbers from their differences, in place.
    fn rebuild(&self, differences: &mut [u64]) {
        let number = |step: u64| self.base.wrapping_add(step.wrapping_mul(self.scale));
        if self.order == 0 {
            return differences.iter_mut().for_each(|step| *step = number(*step));
        }
        let (mut before, mut slope) = (0u64, self.slope);
        for (place, difference) in differences.iter_mut().enumerate() {
            let expected = if place == 0 { 0 } else { before.wrapping_add(slope) };
            let at = expected.wrapping_add(unzigzag(*difference));
            if self.order == 2 && place > 0 {
                slope = at.wrapping_sub(before);
            }
            before = at;
            *difference = number(at);
        }
    }
}

/// Windows of a sample, and the numbers of each.
const WINDOWS: usize = 4;
const WINDOW: usize = 64;

/// A sample of the numbers: all of them, or some windows if there are many.
fn sample(numbers: &[u64]) -> impl Iterator<Item = &[u64]> {
    let (step, length) = match numbers.len() {
        0..=512 => (numbers.len().max(1), numbers.len()),
        many => (many / WINDOWS, WINDOW),
    };
    numbers.chunks(step).take(WINDOWS).map(move |chunk| &chunk[..length.min(chunk.len())])
}

/// The largest number that divides both; the second is a signed difference.
fn divisor(one: u64, difference: u64) -> u64 {
    let (mut one, mut two) = (one, difference.cast_signed().unsigned_abs());
    if one == 1 {
        return 1;
    }
    while two != 0 {
        (one, two) = (two, one % two);
    }
    one
}

/// A signed difference in steps of `scale`.
fn steps(difference: u64, scale: u64) -> u64 {
    if scale == 1 { difference } else { (difference.cast_signed() / scale.cast_signed()).cast_unsigned() }
}

/// True when the scale divides the unsigned distances from the base too: those beyond 63 bits may not.
fn scale_fits(numbers: &[u64], base: u64, scale: u64) -> bool {
    scale == 1 || numbers.iter().all(|&number| (number - base).is_multiple_of(scale))
}

fn put_packed(numbers: &[u64], out: &mut Vec<u8>) {
    let plan = Plan::of(numbers);
    let (mut differences, mut packed) =
        (Vec::with_capacity(numbers.len()), Vec::with_capacity(numbers.len()));
    plan.differences(numbers, |difference| {
        differences.push(difference);
        packed.push(classes::of(difference) as u8);
    });
    out.push(PACKED + plan.order);
    varint::put(out, plan.base);
    varint::put(out, plan.scale);
    if plan.order == 2 {
        varint::put(out, zigzag(plan.slope));
    }
    classes::put(&packed, out);
    let mut bits = BitWriter::new(out);
    for (&difference, &class) in differences.iter().zip(&packed) {
        bits.put(difference, classes::low_bits(usize::from(class)));
    }
    bits.end();
}

fn take_packed(bytes: &mut Bytes<'_>, order: u8, count: usize) -> Read<Vec<u64>> {
    let (base, scale) = (bytes.number()?, bytes.number()?);
    let slope = if order == 2 { unzigzag(bytes.number()?) } else { 0 };
    let packed = classes::take(bytes, count)?;
    let length: u64 = packed.iter().map(|&class| u64::from(classes::low_bits(class.into()))).sum();
    let low = bytes.take(usize::try_from(length.div_ceil(8)).unwrap_or(usize::MAX))?;
    let mut bits = BitReader::new(low);
    let mut numbers: Vec<u64> = Vec::with_capacity(count);
    numbers.extend(packed.iter().map(|&class| match class {
        0 => 0,
        class => (1 << (class - 1)) | bits.take(u32::from(class) - 1),
    }));
    Plan { order, base, scale, slope }.rebuild(&mut numbers);
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(numbers: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        put(numbers, &mut out);
        out
    }

    fn there_and_back(numbers: &[u64]) {
        let bytes = packed(numbers);
        assert!(bytes.len() <= 11.max(1 + numbers.len() * 8), "no stream is longer than its numbers");
        let mut rest = Bytes(&bytes);
        assert_eq!(take(&mut rest, numbers.len()).as_deref(), Ok(numbers));
        assert_eq!(rest.end(), Ok(()));
    }

    #[test]
    fn a_number_that_repeats_takes_two_bytes() {
        assert_eq!(packed(&[5; 3_600]), [CONSTANT, 5]);
        assert_eq!(constant(Bytes(&[CONSTANT, 5])), Some(5));
        there_and_back(&[5; 3_600]);
        there_and_back(&[]);
        there_and_back(&[u64::MAX]);
    }

    #[test]
    fn a_regular_grid_and_multiples_of_pages_take_next_to_nothing() {
        let grid: Vec<u64> = (0..3_600).map(|n| 1_763_000_000_000_000_000 + n * 1_000_000_000).collect();
        assert!(packed(&grid).len() < 40, "{}", packed(&grid).len());
        let pages: Vec<u64> = (0..3_600).map(|n| 1_000_000 + (n * 7 % 11) * 4_096).collect();
        assert!(packed(&pages).len() < 3_600 * 5 / 8, "{}", packed(&pages).len());
        there_and_back(&grid);
        there_and_back(&pages);
    }

    #[test]
    fn numbers_at_both_ends_come_back() {
        there_and_back(&[0, u64::MAX, 0, u64::MAX]);
        there_and_back(&[1 << 63, 0, 1 << 63]);
        there_and_back(&[0, 1 << 63, 3 << 62, 1 << 62]);
        there_and_back(&[i64::MIN as u64, i64::MAX as u64, 0, 1, u64::MAX]);
        there_and_back(&[1.5f64, -0.0, f64::NAN, f64::INFINITY, 1e-300].map(f64::to_bits));
    }

    /// Walks, counters, multiples, noise, and all of it mixed.
    fn numbers() -> impl Strategy<Value = Vec<u64>> {
        let step = (0u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift);
        (any::<u64>(), 1u64..5_000, prop::collection::vec((0u8..4, step), 1..300)).prop_map(
            |(first, scale, steps)| {
                let mut at = first;
                let mut next = |(way, step): (u8, u64)| {
                    at = match way {
                        0 => at,
                        1 => at.wrapping_add((step % 100) * scale),
                        2 => at.wrapping_sub((step % 7) * scale),
                        _ => step,
                    };
                    at
                };
                steps.into_iter().map(&mut next).collect()
            },
        )
    }

    proptest! {
        #[test]
        fn every_number_comes_back(numbers in numbers()) {
            there_and_back(&numbers);
        }

        #[test]
        fn damaged_bytes_are_refused_or_are_numbers(
            numbers in numbers(),
            hits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4),
            cut in any::<usize>(),
            count in 0usize..400,
        ) {
            let mut bytes = packed(&numbers);
            for (at, byte) in hits {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            bytes.truncate(bytes.len() - cut % 4);
            if let Ok(found) = take(&mut Bytes(&bytes), count) {
                prop_assert_eq!(found.len(), count);
            }
        }
    }
}
