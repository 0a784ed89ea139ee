//! The ways to make bytes smaller: none, gzip as the ancestors used it, zstd, zstd with a dictionary.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use khz_block::packed::{Dictionary, FIRST_ID, Packer, Unpacker};
use zstd::bulk;

use super::forms::Form;
use super::workload::{self, Workload};
use crate::error::BenchError;
use crate::program::failed;

/// Bytes of a dictionary: a larger one gains little, and every program contains it.
const DICTIONARY_BYTES: usize = 16 << 10;
/// Every group of every form is smaller.
const GROUP_BYTES_MAX: usize = 64 << 20;
const ZSTD_LEVEL: i32 = 1;

/// A way to make bytes smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    None,
    Gzip,
    Zstd,
    Trained,
    /// With the program's built-in dictionary, for blocks only.
    First,
}

/// A dictionary for each form, and the built-in one for blocks.
pub struct Trained {
    dictionaries: HashMap<Form, Dictionary>,
    first: Dictionary,
}

impl Trained {
    fn dictionary(&self, packing: Packing, form: Form) -> &Dictionary {
        if packing == Packing::First { &self.first } else { &self.dictionaries[&form] }
    }
}

/// Trains a dictionary for each form on the groups that are not measured.
pub fn train(workloads: &[Workload]) -> Result<Trained, BenchError> {
    let mut dictionaries = HashMap::new();
    for form in [Form::Block, Form::Changes, Form::Lines] {
        let samples = workloads.iter().flat_map(|workload| {
            workload.training().map(|group| {
                let mut bytes = Vec::new();
                form.encode(workload, group, &mut Vec::new(), &mut bytes);
                bytes
            })
        });
        let bytes = dictionary(&samples.collect::<Vec<_>>())?;
        dictionaries.insert(form, Dictionary::new(&bytes).map_err(|e| failed("a dictionary", e))?);
    }
    let first = Dictionary::first().map_err(|e| failed("the first dictionary", e))?;
    Ok(Trained { dictionaries, first })
}

fn dictionary(samples: &[Vec<u8>]) -> Result<Vec<u8>, BenchError> {
    zstd::dict::from_samples(samples, DICTIONARY_BYTES).map_err(|e| failed("training a dictionary", e))
}

/// Trains the built-in dictionary on all blocks of the traces in a folder.
pub fn write_dictionary(traces: &Path, file: &Path) -> Result<(), BenchError> {
    let mut samples = Vec::new();
    for workload in workload::all(traces)? {
        for group in workload.measured().chain(workload.training()) {
            let mut bytes = Vec::new();
            Form::Block.encode(&workload, group, &mut Vec::new(), &mut bytes);
            samples.push(bytes);
        }
    }
    let mut bytes = dictionary(&samples)?;
    // The trainer picks a random number; ours is fixed. It comes after the magic number.
    bytes[4..8].copy_from_slice(&FIRST_ID.to_le_bytes());
    fs::write(file, bytes).map_err(BenchError::file(file))
}

impl Packing {
    pub fn name(self) -> &'static str {
        match self {
            Packing::None => "",
            Packing::Gzip => "+ gzip",
            Packing::Zstd => "+ zstd",
            Packing::Trained => "+ dict",
            Packing::First => "+ first",
        }
    }

    pub fn packer<'t>(self, form: Form, trained: &'t Trained) -> Result<Pack<'t>, BenchError> {
        Ok(match self {
            Packing::None => Pack::None,
            Packing::Gzip => Pack::Gzip,
            Packing::Zstd => Pack::Zstd(bulk::Compressor::new(ZSTD_LEVEL).map_err(|e| failed("zstd", e))?),
            Packing::Trained | Packing::First => {
                let packer = Packer::new(trained.dictionary(self, form));
                Pack::Trained(packer.map_err(|e| failed("zstd", e))?)
            }
        })
    }

    pub fn unpacker<'t>(self, form: Form, trained: &'t Trained) -> Result<Unpack<'t>, BenchError> {
        Ok(match self {
            Packing::None => Unpack::None,
            Packing::Gzip => Unpack::Gzip,
            Packing::Zstd => Unpack::Zstd(bulk::Decompressor::new().map_err(|e| failed("zstd", e))?),
            Packing::Trained | Packing::First => {
                let unpacker = Unpacker::new(trained.dictionary(self, form));
                Unpack::Trained(unpacker.map_err(|e| failed("zstd", e))?)
            }
        })
    }
}

/// Packs group after group.
pub enum Pack<'t> {
    None,
    Gzip,
    Zstd(bulk::Compressor<'static>),
    Trained(Packer<'t>),
}

impl Pack<'_> {
    pub fn pack(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, BenchError> {
        match self {
            Pack::None => Ok(bytes),
            Pack::Gzip => {
                let mut gzip = GzEncoder::new(Vec::new(), Compression::new(1));
                gzip.write_all(&bytes).map_err(|e| failed("gzip", e))?;
                gzip.finish().map_err(|e| failed("gzip", e))
            }
            Pack::Zstd(zstd) => zstd.compress(&bytes).map_err(|e| failed("zstd", e)),
            Pack::Trained(packer) => {
                let mut out = Vec::new();
                packer.pack(&bytes, &mut out).map_err(|e| failed("zstd", e))?;
                Ok(out)
            }
        }
    }
}

/// Unpacks group after group.
pub enum Unpack<'t> {
    None,
    Gzip,
    Zstd(bulk::Decompressor<'static>),
    Trained(Unpacker<'t>),
}

impl Unpack<'_> {
    pub fn unpack(&mut self, packed: &[u8], out: &mut Vec<u8>) -> Result<(), BenchError> {
        match self {
            Unpack::None => out.extend_from_slice(packed),
            Unpack::Gzip => {
                GzDecoder::new(packed).read_to_end(out).map_err(|e| failed("gzip", e))?;
            }
            Unpack::Zstd(zstd) => {
                let length = bulk::Decompressor::upper_bound(packed).unwrap_or(GROUP_BYTES_MAX);
                *out = zstd.decompress(packed, length).map_err(|e| failed("zstd", e))?;
            }
            Unpack::Trained(unpacker) => {
                unpacker.unpack(packed, GROUP_BYTES_MAX, out).map_err(|e| failed("zstd", e))?;
            }
        }
        Ok(())
    }
}
