//! A lane straight out of a ring.

use std::sync::Arc;

use khz_link::{Lane, Overtaken};
use khz_model::Nanos;
use khz_ring::Reader;

#[derive(Clone, Debug)]
pub struct RingLane {
    pub id: u64,
    pub name: Arc<str>,
    pub period: Nanos,
    pub reader: Reader,
    pub is_regular: bool,
}

impl Lane for RingLane {
    fn id(&self) -> u64 {
        self.id
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn epoch(&self) -> u64 {
        self.reader.label().epoch
    }
    fn generation(&self) -> u32 {
        self.reader.generation()
    }
    fn period(&self) -> Nanos {
        self.period
    }
    fn is_regular(&self) -> bool {
        self.is_regular
    }
    fn head(&self) -> u64 {
        self.reader.head()
    }
    fn oldest(&self) -> u64 {
        self.reader.oldest()
    }
    fn newest(&self) -> u64 {
        self.reader.newest()
    }
    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        self.reader.copy(from, most, out).map_err(|_| Overtaken)
    }
    fn schema_bytes(&self, generation: u32) -> Option<u64> {
        self.reader.schema_bytes(generation)
    }
    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        self.reader.schema(generation, from, most, out)
    }
}
