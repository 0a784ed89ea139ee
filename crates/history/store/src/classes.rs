//! Classes of differences, packed by how often each occurs: an asymmetric numeral system with ranges (rANS, Duda
//! 2013). It knows nothing of the differences but their class, the length of their bits.

use khz_block::varint;

use crate::bytes::{Bytes, Read};

/// Classes: lengths from 0 to 64 bits.
pub(crate) const COUNT: usize = 65;
/// The state of the coder stays at this number or above between two classes; it moves 16 bits at a time.
const STATE_MIN: u32 = 1 << 16;
/// The frequencies of all classes add up to two to this power at most: more would gain less than a table of this size
/// costs to build.
const PRECISION_MAX: u32 = 11;
/// And at least: room for every class.
const PRECISION_MIN: u32 = 7;

/// The class of a difference.
#[inline]
pub(crate) const fn of(difference: u64) -> usize {
    (64 - difference.leading_zeros()) as usize
}

/// The bits of a difference that its class does not tell.
#[inline]
pub(crate) const fn low_bits(class: usize) -> u32 {
    (class as u32).saturating_sub(1)
}

/// The frequencies of many classes need no more digits than there are classes.
fn precision(count: usize) -> u32 {
    (usize::BITS - count.leading_zeros()).clamp(PRECISION_MIN, PRECISION_MAX)
}

/// Roughly the bits that differences with these classes take, packed.
pub(crate) fn cost(counts: &[u32; COUNT]) -> u64 {
    let total: u32 = counts.iter().sum();
    let mut bits = 0.0;
    for (class, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let of_class = (f64::from(total) / f64::from(count)).log2() + f64::from(low_bits(class));
        bits += f64::from(count) * of_class + TABLE_BITS;
    }
    bits as u64
}

/// The bits that a class takes in the table of frequencies.
const TABLE_BITS: f64 = 12.0;

/// How often each class occurs, in parts of two to the precision.
struct Table {
    precision: u32,
    frequencies: [u32; COUNT],
}

impl Table {
    /// Scales counts so that they add up exactly, and no class that occurs has 0.
    fn of(counts: &[u32; COUNT], precision: u32) -> Self {
        let (total, whole) =
            (counts.iter().map(|&count| u64::from(count)).sum::<u64>().max(1), 1u64 << precision);
        let mut frequencies = counts.map(|count| match count {
            0 => 0,
            count => (((u64::from(count) * whole + total / 2) / total) as u32).max(1),
        });
        // The most frequent class takes the rounding error.
        let mut sum: u32 = frequencies.iter().sum();
        while u64::from(sum) != whole {
            let largest = (0..COUNT).max_by_key(|&class| frequencies[class]).unwrap_or(0);
            let gap = whole as i64 - i64::from(sum);
            let by = gap.max(-i64::from(frequencies[largest] / 2));
            frequencies[largest] = frequencies[largest].saturating_add_signed(by as i32);
            sum = sum.saturating_add_signed(by as i32);
        }
        Table { precision, frequencies }
    }

    fn put(&self, out: &mut Vec<u8>) {
        let occurs = |class: &usize| self.frequencies[*class] > 0;
        let first = (0..COUNT).find(occurs).unwrap_or(0);
        let last = (0..COUNT).rfind(occurs).unwrap_or(0);
        out.extend_from_slice(&[first as u8, last as u8]);
        for frequency in &self.frequencies[first..last] {
            varint::put(out, u64::from(*frequency));
        }
    }

    /// The frequency of the last class is what the others leave.
    fn take(bytes: &mut Bytes<'_>, precision: u32) -> Read<Self> {
        let (first, last) = (usize::from(bytes.byte()?), usize::from(bytes.byte()?));
        if first > last || last >= COUNT {
            return Err("a class is beyond 64 bits");
        }
        let mut frequencies = [0; COUNT];
        let mut left = 1usize << precision;
        for frequency in &mut frequencies[first..last] {
            let taken = bytes.count(left)?;
            *frequency = taken as u32;
            left -= taken;
        }
        frequencies[last] = left as u32;
        Ok(Table { precision, frequencies })
    }

    fn coders(&self) -> [Coder; COUNT] {
        let mut start = 0;
        self.frequencies.map(|frequency| {
            let coder = Coder::of(frequency, start, self.precision);
            start += frequency;
            coder
        })
    }

    /// For every number below two to the precision: its class, the class's frequency, its place in the range.
    fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::with_capacity(1 << self.precision);
        for (class, &frequency) in self.frequencies.iter().enumerate() {
            let first = Slot::of(class, frequency).0;
            slots.extend((0..frequency).map(|place| Slot(first + (place << PLACE_SHIFT))));
        }
        slots
    }
}

/// A class, its frequency and a place in its range, in one number: a table of them is made for each stream.
#[derive(Clone, Copy)]
struct Slot(u32);

/// A class is below 2^7, ...
const FREQUENCY_SHIFT: u32 = 7;
/// ... and a frequency is at most two to the highest precision.
const PLACE_SHIFT: u32 = FREQUENCY_SHIFT + PRECISION_MAX + 1;

impl Slot {
    /// The first place of a class.
    fn of(class: usize, frequency: u32) -> Self {
        Slot(class as u32 | frequency << FREQUENCY_SHIFT)
    }

    fn class(self) -> u8 {
        self.0 as u8 & ((1 << FREQUENCY_SHIFT) - 1)
    }

    fn frequency(self) -> u32 {
        self.0 >> FREQUENCY_SHIFT & ((1 << (PRECISION_MAX + 1)) - 1)
    }

    fn place(self) -> u32 {
        self.0 >> PLACE_SHIFT
    }
}

/// Long streams have several coders, which take turns: their steps depend on each other less, so a processor overlaps
/// them. Each costs four bytes, which short streams would feel.
const CODERS: usize = 4;
/// Streams of this length and more have them.
const LONG: usize = 2_048;

/// Appends these classes.
pub(crate) fn put(classes: &[u8], out: &mut Vec<u8>) {
    let mut counts = [0u32; COUNT];
    for &class in classes {
        counts[usize::from(class)] += 1;
    }
    let table = Table::of(&counts, precision(classes.len()));
    table.put(out);
    match classes.len() {
        LONG.. => put_coded::<CODERS>(classes, &table, out),
        _ => put_coded::<1>(classes, &table, out),
    }
}

fn put_coded<const CODERS: usize>(classes: &[u8], table: &Table, out: &mut Vec<u8>) {
    let coders = table.coders();
    let mut states = [STATE_MIN; CODERS];
    let (mut words, mut count) = (vec![0u16; classes.len()], 0);
    // A coder is a stack: the last class put is the first one taken.
    for (place, &class) in classes.iter().enumerate().rev() {
        let (state, coder) = (&mut states[place % CODERS], &coders[usize::from(class)]);
        // Without a branch: which class it is cannot be foreseen.
        words[count] = *state as u16;
        let is_full = u64::from(*state) >= coder.full;
        count += usize::from(is_full);
        *state = coder.put(if is_full { *state >> 16 } else { *state });
    }
    varint::put(out, count as u64);
    out.extend(states.iter().flat_map(|state| state.to_le_bytes()));
    out.extend(words[..count].iter().rev().flat_map(|word| word.to_le_bytes()));
}

/// A coder's parameters for a class, so that no division is needed.
#[derive(Clone, Copy, Default)]
struct Coder {
    /// From this state on, 16 bits must go first.
    full: u64,
    /// Two to the power of 64, divided by the frequency, and a bit more: a state is below two to 32, so the upper half of
    /// the product is the quotient.
    reciprocal: u64,
    /// The frequencies of all other classes together.
    others: u32,
    start: u32,
}

impl Coder {
    fn of(frequency: u32, start: u32, precision: u32) -> Self {
        let whole = 1u32 << precision;
        let full = u64::from(frequency) << (32 - precision);
        let others = whole.wrapping_sub(frequency);
        match frequency {
            0 => Coder::default(),
            // No 64 bits hold the reciprocal of 1. With this one the quotient is 1 too low.
            1 => Coder { full, reciprocal: u64::MAX, others, start: start.wrapping_add(others) },
            _ => Coder { full, reciprocal: u64::MAX / u64::from(frequency) + 1, others, start },
        }
    }

    /// quotient * whole + remainder + start
    #[inline]
    fn put(&self, state: u32) -> u32 {
        let quotient = ((u128::from(state) * u128::from(self.reciprocal)) >> 64) as u32;
        state.wrapping_add(self.start).wrapping_add(quotient.wrapping_mul(self.others))
    }
}

/// Takes the classes of `count` differences.
pub(crate) fn take(bytes: &mut Bytes<'_>, count: usize) -> Read<Vec<u8>> {
    let table = Table::take(bytes, precision(count))?;
    match count {
        LONG.. => take_coded::<CODERS>(bytes, count, &table),
        _ => take_coded::<1>(bytes, count, &table),
    }
}

fn take_coded<const CODERS: usize>(bytes: &mut Bytes<'_>, count: usize, table: &Table) -> Read<Vec<u8>> {
    let word_count = bytes.count(count)?;
    let mut states = [0; CODERS];
    for state in &mut states {
        *state = bytes.u32()?;
    }
    let words = bytes.take(word_count * 2)?.as_chunks().0;
    let (slots, mask) = (table.slots(), (1usize << table.precision) - 1);
    let mut taken = 0;
    let mut class = |state: &mut u32| {
        let slot = slots[*state as usize & mask];
        let next = slot.frequency() * (*state >> table.precision) + slot.place();
        // Without a branch: which class it is cannot be foreseen.
        let is_low = next < STATE_MIN;
        let word = words.get(taken).map_or(0, |&word| u32::from(u16::from_le_bytes(word)));
        *state = if is_low { next << 16 | word } else { next };
        taken += usize::from(is_low);
        slot.class()
    };
    let mut classes = vec![0; count];
    let mut rounds = classes.chunks_exact_mut(CODERS);
    for round in &mut rounds {
        round.iter_mut().zip(&mut states).for_each(|(place, state)| *place = class(state));
    }
    rounds.into_remainder().iter_mut().zip(&mut states).for_each(|(place, state)| *place = class(state));
    if states.iter().any(|&state| state != STATE_MIN) || taken != word_count {
        return Err("the classes do not end where they began");
    }
    Ok(classes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_coder_divides_exactly(
            state in STATE_MIN..=u32::MAX, precision in PRECISION_MIN..=PRECISION_MAX, share in 0.0f64..1.0,
            start in 0u32..2_048,
        ) {
            let whole = 1u32 << precision;
            let frequency = 1 + (f64::from(whole - 1) * share * share * share) as u32;
            let coder = Coder::of(frequency, start, precision);
            // Larger states give 16 bits away first.
            let state = if u64::from(state) >= coder.full { state >> 16 } else { state };
            let expected = (state / frequency) * whole + state % frequency + start;
            prop_assert_eq!(coder.put(state), expected);
        }
    }
}
