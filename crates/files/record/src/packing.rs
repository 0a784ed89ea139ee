//! Pieces of schemas, compressed with zstd: names and help texts are most of a small recording. A piece is packed only if
//! that makes it smaller, and no size in a file is believed.

use khz_block::trace::CHUNK_BYTES_MAX;
use zstd::bulk;
use zstd::zstd_safe::get_frame_content_size;

/// The compression level. A schema is packed once in a recording; 40 kB take a millisecond.
const LEVEL: i32 = 9;

/// Bytes of an unpacked piece: as many as an unpacked chunk may have.
const UNPACKED_BYTES_MAX: usize = CHUNK_BYTES_MAX;

/// The packed bytes; `None`: they are not smaller.
pub(crate) fn pack(bytes: &[u8]) -> Option<Vec<u8>> {
    bulk::compress(bytes, LEVEL).ok().filter(|packed| packed.len() < bytes.len())
}

/// The unpacked bytes.
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
    fn repetitive_texts_get_smaller_and_unpack_to_the_same() {
        let text = "net.rx_bytes Bytes received. /proc/net/dev ".repeat(100);
        let packed = pack(text.as_bytes()).unwrap();
        assert!(packed.len() * 10 < text.len(), "{}", packed.len());
        assert_eq!(unpack(&packed).unwrap(), text.as_bytes());
        assert_eq!(pack(b"x"), None, "it would not get smaller");
    }

    #[test]
    fn a_stated_size_beyond_the_limit_is_refused_before_memory_is_allocated() {
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
