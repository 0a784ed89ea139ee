//! A module in few bytes, for the way to the nodes (zstd). Unpacking takes no more memory than a module may have.

use crate::error::ProgramError;
use crate::limits::{MODULE_BYTES_MAX, PACKED_BYTES_MAX};

/// A module is sent to each node once, and packed once.
const LEVEL: i32 = 19;

/// Packs a module.
///
/// # Errors
/// It is too large, packed or not.
pub fn pack(module: &[u8]) -> Result<Vec<u8>, ProgramError> {
    if module.len() > MODULE_BYTES_MAX {
        return Err(ProgramError::TooLarge { bytes: module.len() });
    }
    let packed = zstd::bulk::compress(module, LEVEL).map_err(|_| ProgramError::Damaged)?;
    match packed.len() {
        0..=PACKED_BYTES_MAX => Ok(packed),
        bytes => Err(ProgramError::TooLargePacked { bytes }),
    }
}

/// The module of these bytes.
///
/// # Errors
/// They are damaged, or the module is too large.
pub fn unpack(packed: &[u8]) -> Result<Vec<u8>, ProgramError> {
    // Nothing would be unpacked to nothing.
    if packed.is_empty() {
        return Err(ProgramError::Damaged);
    }
    zstd::bulk::decompress(packed, MODULE_BYTES_MAX).map_err(|_| ProgramError::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_unpacked_as_it_was_and_what_is_too_large_or_damaged_is_refused() {
        let module: Vec<u8> = (0..100_000u32).map(|n| (n / 100) as u8).collect();
        let packed = pack(&module).unwrap();
        assert!(packed.len() < 4_000, "{}", packed.len());
        assert_eq!(unpack(&packed).unwrap(), module);
        for length in 0..packed.len() {
            assert!(unpack(&packed[..length]).is_err(), "{length}");
        }
        let mut seed = 1u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        })
        .take(PACKED_BYTES_MAX + 1_000)
        .collect();
        assert!(matches!(pack(&noise), Err(ProgramError::TooLargePacked { .. })));
        assert!(matches!(pack(&vec![0; MODULE_BYTES_MAX + 1]), Err(ProgramError::TooLarge { .. })));
        let bomb = zstd::bulk::compress(&vec![0; MODULE_BYTES_MAX + 1], 19).unwrap();
        assert_eq!(unpack(&bomb), Err(ProgramError::Damaged));
    }
}
