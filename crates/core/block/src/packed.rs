//! Closed blocks, compressed with zstd and a dictionary. Not used yet: no file and no link has such blocks, only the benchmark
//! `block` measures them. It packs whole blocks and does not know their content.

use zstd::bulk;
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::zstd_safe::{get_dict_id_from_dict, get_dict_id_from_frame, get_frame_content_size};

use crate::BlockError;

/// The compression level: the fastest of zstd's levels outside its "fast" family.
const LEVEL: i32 = 1;

/// The number of [`Dictionary::first`].
pub const FIRST_ID: u32 = 0x686b_0001;

/// The bytes that blocks have in common. A packed block cannot be read without its dictionary; the zstd frame
/// contains the dictionary's number.
pub struct Dictionary {
    id: u32,
    encoder: EncoderDictionary<'static>,
    decoder: DecoderDictionary<'static>,
}

impl Dictionary {
    /// A dictionary in the form that zstd's trainer writes.
    pub fn new(bytes: &[u8]) -> Result<Self, BlockError> {
        let id = get_dict_id_from_dict(bytes)
            .ok_or(BlockError::Packed { problem: "no dictionary begins here" })?;
        Ok(Dictionary {
            id: id.get(),
            encoder: EncoderDictionary::copy(bytes, LEVEL),
            decoder: DecoderDictionary::copy(bytes),
        })
    }

    /// The dictionary that comes with the program, trained on recorded blocks. Later versions add others and
    /// keep this one.
    pub fn first() -> Result<Self, BlockError> {
        Self::new(include_bytes!("../dictionary/first.zstd-dictionary"))
    }

    /// The dictionary's number.
    pub fn id(&self) -> u32 {
        self.id
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dictionary({})", self.id)
    }
}

/// Packs one block after the other and reuses its memory.
pub struct Packer<'d> {
    compressor: bulk::Compressor<'d>,
}

impl<'d> Packer<'d> {
    /// A packer with this dictionary.
    pub fn new(dictionary: &'d Dictionary) -> Result<Self, BlockError> {
        let compressor = bulk::Compressor::with_prepared_dictionary(&dictionary.encoder);
        Ok(Packer { compressor: compressor.map_err(|_| no_memory())? })
    }

    /// Appends the packed block to `out`.
    pub fn pack(&mut self, block: &[u8], out: &mut Vec<u8>) -> Result<(), BlockError> {
        let packed = self.compressor.compress(block).map_err(|_| no_memory())?;
        out.extend_from_slice(&packed);
        Ok(())
    }
}

/// Unpacks one block after the other and reuses its memory.
pub struct Unpacker<'d> {
    id: u32,
    decompressor: bulk::Decompressor<'d>,
}

impl<'d> Unpacker<'d> {
    /// An unpacker with this dictionary.
    pub fn new(dictionary: &'d Dictionary) -> Result<Self, BlockError> {
        let decompressor = bulk::Decompressor::with_prepared_dictionary(&dictionary.decoder);
        Ok(Unpacker { id: dictionary.id, decompressor: decompressor.map_err(|_| no_memory())? })
    }

    /// Appends the block to `out`. The packed block states its size, which must be at most `limit` bytes.
    pub fn unpack(&mut self, packed: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), BlockError> {
        let wrong = |problem| BlockError::Packed { problem };
        match get_dict_id_from_frame(packed).map(|id| id.get()) {
            Some(id) if id == self.id => {}
            Some(id) => return Err(BlockError::UnknownDictionary { id }),
            None => return Err(wrong("no packed block begins here")),
        }
        let length = get_frame_content_size(packed).ok().flatten();
        let length = length.ok_or_else(|| wrong("the packed block does not state its size"))?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > limit {
            return Err(BlockError::TooMuch { at: 0, what: "bytes in a packed block", limit });
        }
        let block = self.decompressor.decompress(packed, length);
        let block = block.map_err(|_| wrong("the packed block is damaged"))?;
        if block.len() != length {
            return Err(wrong("the packed block does not have the size that it states"));
        }
        out.extend_from_slice(&block);
        Ok(())
    }
}

fn no_memory() -> BlockError {
    BlockError::Packed { problem: "no memory for a packed block" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoder, HEADER_BYTES};
    use khz_model::{Nanos, Stamp};
    use proptest::prelude::*;

    const LIMIT: usize = 1 << 20;

    /// A closed block of some slots with counters.
    fn block() -> Vec<u8> {
        let (mut encoder, mut bytes) = (Encoder::new(1, 1, Nanos::SECOND), Vec::new());
        for n in 0..100u64 {
            let stamp = Stamp { boot: Nanos(n * 1_000_000_000), real_offset: 9 };
            let reading = |slot: usize| (0, n * slot as u64 % 1_000);
            match n {
                0 => encoder.key_row(stamp, 50, reading, &mut bytes),
                _ => encoder.delta_row(stamp, 0..50, reading, &mut bytes),
            }
        }
        let header = encoder.close().unwrap();
        bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        bytes
    }

    fn pack(dictionary: &Dictionary, block: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        Packer::new(dictionary).unwrap().pack(block, &mut packed).unwrap();
        packed
    }

    fn unpack(dictionary: &Dictionary, packed: &[u8], limit: usize) -> Result<Vec<u8>, BlockError> {
        let mut block = Vec::new();
        Unpacker::new(dictionary)?.unpack(packed, limit, &mut block).map(|()| block)
    }

    #[test]
    fn blocks_come_back_and_what_follows_them_is_appended() {
        let dictionary = Dictionary::first().unwrap();
        let (block, mut packed, mut out) = (block(), Vec::new(), b"before".to_vec());
        let mut packer = Packer::new(&dictionary).unwrap();
        packer.pack(&block, &mut packed).unwrap();
        let first = packed.len();
        packer.pack(b"", &mut packed).unwrap();
        assert!(first < block.len());
        let mut unpacker = Unpacker::new(&dictionary).unwrap();
        unpacker.unpack(&packed[..first], LIMIT, &mut out).unwrap();
        unpacker.unpack(&packed[first..], LIMIT, &mut out).unwrap();
        assert_eq!(out, [b"before", &block[..]].concat());
    }

    #[test]
    fn a_packed_block_is_never_larger_than_it_may_be() {
        let dictionary = Dictionary::first().unwrap();
        let zeros = vec![0; 4 << 20];
        let packed = pack(&dictionary, &zeros);
        assert!(packed.len() < 1_000);
        let error = unpack(&dictionary, &packed, zeros.len() - 1).unwrap_err();
        assert!(matches!(error, BlockError::TooMuch { .. }), "{error}");
        assert_eq!(unpack(&dictionary, &packed, zeros.len()).unwrap(), zeros);
    }

    #[test]
    fn the_frame_names_its_dictionary() {
        let first = Dictionary::first().unwrap();
        assert_eq!(first.id(), FIRST_ID);
        let mut bytes = include_bytes!("../dictionary/first.zstd-dictionary").to_vec();
        bytes[4..8].copy_from_slice(&77u32.to_le_bytes());
        let other = Dictionary::new(&bytes).unwrap();
        let error = unpack(&first, &pack(&other, &block()), LIMIT).unwrap_err();
        assert_eq!(error, BlockError::UnknownDictionary { id: 77 });
        assert!(unpack(&first, b"", LIMIT).is_err() && unpack(&first, &block(), LIMIT).is_err());
        assert!(Dictionary::new(b"no dictionary").is_err());
    }

    #[test]
    fn the_bytes_of_the_first_dictionary_stay() {
        // This block was packed by the first version. To change the dictionary, add another one instead.
        let golden = include_bytes!("../dictionary/packed-with-first");
        assert_eq!(unpack(&Dictionary::first().unwrap(), golden, LIMIT).unwrap(), block());
    }

    proptest! {
        #[test]
        fn damaged_bytes_never_panic(hits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6)) {
            let dictionary = Dictionary::first().unwrap();
            let mut packed = pack(&dictionary, &block());
            for (at, byte) in hits {
                let at = at % packed.len();
                packed[at] = byte;
            }
            if let Ok(block) = unpack(&dictionary, &packed, LIMIT) {
                prop_assert!(block.len() <= LIMIT);
            }
        }
    }
}
