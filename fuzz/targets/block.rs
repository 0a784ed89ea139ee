//! Blocks from anywhere: the decoder refuses or decodes them, and what it decoded survives being encoded again.

#![no_main]

use khz_block::{Decoder, Encoder, HEADER_BYTES, Header, Step};
use khz_model::{Reading, Stamp};

/// The rows of one block.
struct Block {
    header: Header,
    rows: Vec<(Stamp, Vec<Reading>)>,
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for block in decode(bytes).iter().filter(|block| !block.rows.is_empty()) {
        let again = decode(&encode(block));
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].rows, block.rows);
    }
});

fn decode(bytes: &[u8]) -> Vec<Block> {
    let mut decoder = Decoder::new();
    let mut blocks: Vec<Block> = Vec::new();
    let mut at = 0;
    loop {
        match decoder.step(&bytes[at..]) {
            Ok(Step::Header(length)) => {
                at += length;
                blocks.extend(decoder.header().map(|header| Block { header: *header, rows: Vec::new() }));
            }
            Ok(Step::Row(length)) => {
                at += length;
                assert!(decoder.changed().iter().all(|&slot| (slot as usize) < decoder.slots()));
                let readings = (0..decoder.slots()).filter_map(|slot| decoder.reading(slot)).collect();
                let block = blocks.last_mut().expect("a row before any header");
                block.rows.push((decoder.stamp(), readings));
            }
            Ok(Step::Incomplete) => return blocks,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return blocks;
            }
        }
    }
}

fn encode(block: &Block) -> Vec<u8> {
    let mut encoder = Encoder::new(block.header.lane, block.header.generation, block.header.period);
    let mut bytes = Vec::new();
    for (number, (stamp, readings)) in block.rows.iter().enumerate() {
        let parts = |slot: usize| (readings[slot].state(), readings[slot].bits());
        match number {
            0 => encoder.key_row(*stamp, readings.len(), parts, &mut bytes),
            _ => encoder.delta_row(*stamp, 0..readings.len(), parts, &mut bytes),
        }
    }
    let header = encoder.close().expect("a block was opened");
    bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    bytes
}
