//! Numbers that look random and are the same for the same seed.

/// A number for `seed` and `index` (SplitMix64).
pub fn number(seed: u64, index: u64) -> u64 {
    let mut mixed = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_differ_by_seed_and_index_and_stay_the_same() {
        assert_eq!(super::number(1, 2), super::number(1, 2));
        assert_ne!(super::number(1, 2), super::number(1, 3));
        assert_ne!(super::number(1, 2), super::number(2, 2));
    }
}
