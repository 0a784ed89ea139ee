//! Pieces of schemas made smaller with zstd: names and help texts are most of a small recording. It packs what gets smaller, and
//! believes no size that a file states.

use khz_block::trace::CHUNK_BYTES_MAX;
use zstd::bulk;
use zstd::zstd_safe::get_frame_content_size;

/// How hard the compressor tries. A schema is packed once in a recording; of 40 kB this takes a millisecond.
const LEVEL: i32 = 9;

/// A piece may have so many bytes when it is unpacked: what could stand in the file as it is.
const UNPACKED_BYTES_MAX: usize = CHUNK_BYTES_MAX;

/// The bytes, packed; `None` where that does not make them smaller.
pub(crate) fn pack(bytes: &[u8]) -> Option<Vec<u8>> {
    bulk::compress(bytes, LEVEL).ok().filter(|packed| packed.len() < bytes.len())
}

/// The bytes that were packed.
pub(crate) fn unpack(packed: &[u8]) -> Result<Vec<u8>, String> {
    let size = get_frame_content_size(packed).ok().flatten();
    let size = size.ok_or("a packed schema that does not say how large it is")?;
    let size = usize::try_from(size).ok().filter(|&size| size <= UNPACKED_BYTES_MAX);
    let size = size.ok_or_else(|| format!("a packed schema of more than {UNPACKED_BYTES_MAX} bytes"))?;
    let bytes =
        bulk::decompress(packed, size).map_err(|error| format!("a packed schema is damaged: {error}"))?;
    match bytes.len() == size {
        true => Ok(bytes),
        false => Err("a packed schema is not as large as it says".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_that_repeat_themselves_get_smaller_and_come_back() {
        let text = "net.rx_bytes Bytes received. /proc/net/dev ".repeat(100);
        let packed = pack(text.as_bytes()).unwrap();
        assert!(packed.len() * 10 < text.len(), "{}", packed.len());
        assert_eq!(unpack(&packed).unwrap(), text.as_bytes());
        assert_eq!(pack(b"x"), None, "what does not get smaller is not packed");
    }

    #[test]
    fn a_size_that_no_piece_has_is_refused_before_memory_is_taken() {
        // A frame of one segment that states 2^40 bytes.
        let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
        bomb.extend_from_slice(&(1u64 << 40).to_le_bytes());
        bomb.extend_from_slice(&[1, 0, 0]);
        assert!(unpack(&bomb).unwrap_err().contains("of more than"), "{:?}", unpack(&bomb));
    }

    proptest! {
        #[test]
        fn foreign_bytes_give_errors(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..40) {
            let _ = unpack(&bytes);
            let packed = pack(&b"cpu.user ".repeat(20)).unwrap();
            let cut = cut.min(packed.len() - 1);
            prop_assert!(unpack(&packed[..cut]).is_err());
        }
    }
}
