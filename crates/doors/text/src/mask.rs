//! Which items a client wants: one bit for each, written as one hexadecimal number of any length.

/// A mask. Without bits it means all items, including those that come later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    /// Lowest bits first; the last word is never 0.
    words: Vec<u64>,
}

impl Mask {
    /// The mask of all items.
    pub fn everything() -> Self {
        Self::default()
    }

    /// The mask with these hexadecimal digits; other bytes count as 0. Zero means all items.
    pub fn of_digits(digits: &[u8]) -> Self {
        let value = |&digit: &u8| u64::from((digit as char).to_digit(16).unwrap_or(0));
        let word = |digits: &[u8]| digits.iter().fold(0, |word, digit| word << 4 | value(digit));
        let mut words: Vec<u64> = digits.rchunks(16).map(word).collect();
        while words.last() == Some(&0) {
            words.pop();
        }
        Mask { words }
    }

    /// True when all items are wanted.
    pub fn is_everything(&self) -> bool {
        self.words.is_empty()
    }

    /// True when the item with this bit is wanted.
    #[inline]
    pub fn has(&self, bit: usize) -> bool {
        self.is_everything() || self.words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// The bits, lowest first; none where all items are wanted.
    pub fn bits(&self) -> impl Iterator<Item = usize> + '_ {
        (0..64 * self.words.len()).filter(|&bit| self.has(bit))
    }
}

/// Appends the mask of one bit: 1, 2, 4, 8, 10, 20, ...
pub(crate) fn put_bit(out: &mut Vec<u8>, bit: usize) {
    out.push(b"1248"[bit % 4]);
    out.resize(out.len() + bit / 4, b'0');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zero_means_everything() {
        for digits in [&b""[..], b"0", b"0000"] {
            let mask = Mask::of_digits(digits);
            assert!(mask.is_everything() && mask.has(0) && mask.has(100_000));
        }
        assert!(!Mask::of_digits(b"2").has(0));
    }

    proptest! {
        #[test]
        fn the_bits_that_are_printed_make_the_mask_again(bits in prop::collection::btree_set(0usize..400, 1..9)) {
            let longest = bits.last().unwrap() / 4;
            let mut digits = vec![0u8; longest + 1];
            for &bit in &bits {
                let mut one = Vec::new();
                put_bit(&mut one, bit);
                let from = digits.len() - one.len();
                for (sum, digit) in digits[from..].iter_mut().zip(one) {
                    *sum += digit - b'0';
                }
            }
            let digits: Vec<u8> = digits.iter().map(|&d| char::from_digit(d.into(), 16).unwrap() as u8).collect();
            let mask = Mask::of_digits(&digits);
            prop_assert_eq!(mask.bits().collect::<Vec<_>>(), bits.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(Mask::of_digits(&digits.to_ascii_uppercase()), mask);
        }
    }
}
