//! Bits one after the other, the lowest first. It does not know how many belong together.

/// Appends bits to bytes.
pub(crate) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Bits that do not fill eight bytes yet.
    held: u64,
    used: u32,
}

impl<'a> BitWriter<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        BitWriter { out, held: 0, used: 0 }
    }

    /// Appends the lowest `count` bits, fewer than 64.
    pub fn put(&mut self, bits: u64, count: u32) {
        let bits = bits & ((1 << count) - 1);
        self.held |= bits << self.used;
        if self.used + count >= 64 {
            self.out.extend_from_slice(&self.held.to_le_bytes());
            // Fewer than 64 are new, so at least one was held.
            self.held = bits >> (64 - self.used);
            self.used = self.used + count - 64;
        } else {
            self.used += count;
        }
    }

    /// Writes the bits that are left, up to the end of a byte.
    pub fn end(self) {
        self.out.extend_from_slice(&self.held.to_le_bytes()[..self.used.div_ceil(8) as usize]);
    }
}

/// Takes bits from the front. Beyond the end all bits are 0.
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BitReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        BitReader { bytes, at: 0 }
    }

    /// The next `count` bits, fewer than 64.
    #[inline]
    pub fn take(&mut self, count: u32) -> u64 {
        let (byte, bit) = (self.at / 8, (self.at % 8) as u32);
        self.at += count as usize;
        let low = self.word(byte) >> bit;
        let bits = if bit + count > 64 { low | self.word(byte + 8) << (64 - bit) } else { low };
        bits & ((1 << count) - 1)
    }

    #[inline]
    fn word(&self, byte: usize) -> u64 {
        match self.bytes.get(byte..).and_then(|rest| rest.first_chunk()) {
            Some(word) => u64::from_le_bytes(*word),
            None => self.last_word(byte),
        }
    }

    #[cold]
    fn last_word(&self, byte: usize) -> u64 {
        let rest = self.bytes.get(byte..).unwrap_or_default();
        rest.iter().take(8).rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_come_back_in_their_order(pieces in prop::collection::vec((any::<u64>(), 0u32..64), 0..80)) {
            let mut bytes = vec![9];
            let mut writer = BitWriter::new(&mut bytes);
            for &(bits, count) in &pieces {
                writer.put(bits, count);
            }
            writer.end();
            let total: u32 = pieces.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(bytes.len(), 1 + total.div_ceil(8) as usize);
            let mut reader = BitReader::new(&bytes[1..]);
            for (bits, count) in pieces {
                prop_assert_eq!(reader.take(count), bits & ((1 << count) - 1));
            }
            prop_assert_eq!(reader.take(63), 0, "beyond the end");
        }
    }
}
