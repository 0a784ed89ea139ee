//! Numbers that look random and are the same in every run. They are not for secrets or statistics.

/// A source of numbers (the SplitMix64 generator of Steele, Lea and Flood).
#[derive(Clone, Debug)]
pub struct Noise(u64);

impl Noise {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Noise(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 if the limit is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit.max(1)
    }

    /// True once in `many` times on average.
    pub fn once_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// A number below `2^bits`. Short numbers are as likely as long ones, as among real counters.
    pub fn counter(&mut self, bits: u32) -> u64 {
        let length = self.below(u64::from(bits) + 1) as u32;
        self.number().checked_shr(64 - length).unwrap_or(0)
    }

    /// The growth of a counter: often none, mostly little, sometimes a lot.
    pub fn growth(&mut self) -> u64 {
        match self.below(16) {
            0..6 => 0,
            6..15 => self.below(1_000),
            _ => self.counter(40),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_all_lengths() {
        let mut noise = Noise::new(1);
        let digits: std::collections::BTreeSet<_> =
            (0..2_000).map(|_| noise.counter(60).to_string().len()).collect();
        assert_eq!(digits, (1..=19).collect());
    }
}
