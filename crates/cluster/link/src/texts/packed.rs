//! Packs a text: zstd with the text before it as prefix, so that unchanged parts take next to no bytes. A checksum over the
//! text is part of it, so that unpacking against a wrong text fails.

use std::sync::Arc;

use khz_model::Stamp;
use zstd::zstd_safe::{CCtx, CParameter, DCtx, compress_bound};

use crate::limits::TEXT_BYTES_MAX;

/// The fastest of zstd's levels outside the "fast" family.
const LEVEL: i32 = 1;

/// The largest packed text: no text compresses to more.
pub(super) const PACKED_MAX: usize = TEXT_BYTES_MAX + (TEXT_BYTES_MAX >> 7);

/// A text on its way. Clones share its bytes.
#[derive(Clone, Debug)]
pub struct PackedText {
    /// Counts the texts of a Read, from 1.
    pub version: u32,
    /// The version that it is packed against; 0: none.
    pub base: u32,
    /// When the file was read.
    pub stamp: Stamp,
    /// Bytes of the text.
    pub length: u32,
    /// The packed bytes.
    pub bytes: Arc<[u8]>,
}

/// Packs a text against the previous text; if that is empty, against none.
///
/// # Errors
/// There is no memory for it.
pub fn pack(text: &[u8], base: &[u8]) -> Result<Vec<u8>, &'static str> {
    let failed = |code| zstd::zstd_safe::get_error_name(code);
    let mut context = CCtx::try_create().ok_or("no memory to pack a text")?;
    context.set_parameter(CParameter::CompressionLevel(LEVEL)).map_err(failed)?;
    context.set_parameter(CParameter::ChecksumFlag(true)).map_err(failed)?;
    context.ref_prefix(base).map_err(failed)?;
    let mut packed = Vec::with_capacity(compress_bound(text.len()));
    context.compress2(&mut packed, text).map_err(failed)?;
    Ok(packed)
}

/// Unpacks a text of this many bytes, packed against `base`.
pub(super) fn unpack(packed: &[u8], base: &[u8], length: usize) -> Result<Vec<u8>, &'static str> {
    let mut context = DCtx::try_create().ok_or("no memory to unpack a text")?;
    context.ref_prefix(base).map_err(|_| "a text that cannot be unpacked")?;
    let mut text = Vec::with_capacity(length);
    // A text that does not fit is refused: the buffer never grows.
    context.decompress(&mut text, packed).map_err(|_| "a text that cannot be unpacked")?;
    if text.len() == length { Ok(text) } else { Err("a text of another length than it says") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_packed_against_the_one_before_is_a_fraction_of_it() {
        let before: String = (0..2_000).map(|n| format!("line{n} {}\n", n * 7_919 % 10_007)).collect();
        let after = before.replace("line77 ", "line77 9");
        let whole = pack(after.as_bytes(), &[]).unwrap();
        let differing = pack(after.as_bytes(), before.as_bytes()).unwrap();
        assert!(differing.len() * 50 < whole.len(), "{} of {}", differing.len(), whole.len());
        assert_eq!(unpack(&differing, before.as_bytes(), after.len()).unwrap(), after.as_bytes());
        assert_eq!(unpack(&whole, &[], after.len()).unwrap(), after.as_bytes());
    }

    #[test]
    fn against_another_text_or_with_another_length_it_is_refused() {
        let before: String = (0..300).map(|n: u32| format!("{:x}", n.wrapping_mul(2_654_435_761))).collect();
        let (after, other) = (before.clone() + "c", "z".repeat(before.len()));
        let packed = pack(after.as_bytes(), before.as_bytes()).unwrap();
        assert!(unpack(&packed, other.as_bytes(), after.len()).is_err());
        assert!(unpack(&packed, before.as_bytes(), after.len() - 1).is_err());
        assert!(unpack(&packed, before.as_bytes(), after.len() + 1).is_err());
        assert!(unpack(b"no text", &[], 7).is_err());
    }

    #[test]
    fn a_text_that_looks_like_a_dictionary_is_a_text() {
        let before = [&[0x37, 0xa4, 0x30, 0xec][..], &[7; 300]].concat();
        let packed = pack(b"after", &before).unwrap();
        assert_eq!(unpack(&packed, &before, 5).unwrap(), b"after");
    }

    #[test]
    fn nothing_packs_to_more_than_a_receiver_takes() {
        assert!(compress_bound(TEXT_BYTES_MAX) <= PACKED_MAX);
    }
}
