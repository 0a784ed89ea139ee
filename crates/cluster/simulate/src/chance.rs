//! Numbers derived from a seed (splitmix64): the same on every machine and in every version. Not for secrets.

/// A number from a seed, for one purpose.
pub fn number(seed: u64, purpose: u64) -> u64 {
    let mut x =
        seed.wrapping_add(purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Sixteen bytes from a seed, for one purpose.
pub fn bytes(seed: u64, purpose: u64) -> [u8; 16] {
    let halves = [number(seed, purpose), number(seed, !purpose)];
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&halves[0].to_le_bytes());
    bytes[8..].copy_from_slice(&halves[1].to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // From Vigna's reference implementation, seed 0.
        assert_eq!(number(0, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(number(0, 1), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(bytes(0, 0)[..8], 0xe220_a839_7b1d_cdaf_u64.to_le_bytes());
    }
}
