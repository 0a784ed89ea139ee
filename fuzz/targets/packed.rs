//! Packed blocks from anywhere: refused or unpacked, never beyond the limit; and any bytes survive being packed.

#![no_main]

use std::sync::LazyLock;

use khz_block::packed::{Dictionary, Packer, Unpacker};

const LIMIT: usize = 1 << 20;

static FIRST: LazyLock<Dictionary> =
    LazyLock::new(|| Dictionary::first().expect("the first dictionary is one"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut unpacker = Unpacker::new(&FIRST).expect("an unpacker");
    let mut out = Vec::new();
    match unpacker.unpack(bytes, LIMIT, &mut out) {
        Ok(()) => assert!(out.len() <= LIMIT),
        Err(error) => assert!(!error.to_string().is_empty() && out.is_empty()),
    }
    let mut packed = Vec::new();
    Packer::new(&FIRST).expect("a packer").pack(bytes, &mut packed).expect("any bytes can be packed");
    out.clear();
    unpacker.unpack(&packed, bytes.len(), &mut out).expect("what was packed unpacks");
    assert_eq!(out, bytes);
});
