//! Bytes to series, in pieces of any size. It keeps the meaning of the slots and at most one unfinished
//! record.

use std::sync::Arc;

use khz_model::{Metric, Series, ValueType};

use super::fields::Fields;
use super::{
    HEADER, METRIC, METRICS_MAX, MetricPool, RECORD_BYTES_MAX, SCHEMA_BYTES_MAX, SLOT, SLOTS_MAX,
    TYPED_METRIC, VERSION, labels, metric,
};
use crate::{BlockError, varint};

/// The schema of one lane, as far as its bytes have come.
#[derive(Clone, Debug, Default)]
pub struct SchemaDecoder {
    metrics: Vec<Arc<Metric>>,
    series: Vec<Series>,
    /// The memory of their instances.
    instances: u64,
    /// The bytes of a header or record that has begun and not ended.
    unfinished: Vec<u8>,
    /// The length of the header and of all whole records.
    finished: u64,
    /// The first error; nothing is taken after it.
    broken: Option<BlockError>,
}

/// A header or record at the start of some bytes.
enum Piece {
    /// It has this many bytes.
    Whole(usize),
    /// At least this many bytes are needed to take it.
    Needs(usize),
}

impl SchemaDecoder {
    /// A decoder before its first byte.
    pub fn new() -> Self {
        Self::default()
    }

    /// The series of the slots that have come, in slot order.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The bytes taken, including those of an unfinished record: the offset at which the next piece must
    /// begin.
    pub fn bytes(&self) -> u64 {
        self.finished + self.unfinished.len() as u64
    }

    /// The approximate memory that it holds, without its metrics, which the pool counts.
    pub fn held(&self) -> u64 {
        let lists =
            self.series.capacity() * size_of::<Series>() + self.metrics.capacity() * size_of::<Arc<Metric>>();
        (size_of::<Self>() + lists + self.unfinished.capacity()) as u64 + self.instances
    }

    /// Frees the memory that it has reserved for later slots.
    pub fn shrink(&mut self) {
        self.series.shrink_to_fit();
        self.metrics.shrink_to_fit();
    }

    #[cfg(test)]
    pub(super) fn unfinished(&self) -> &[u8] {
        &self.unfinished
    }

    /// Takes the next bytes. After an error, every further call returns the same error.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), BlockError> {
        self.feed_sharing(bytes, &mut MetricPool::new())
    }

    /// Takes the next bytes, and shares equal metrics with the other schemas of the pool.
    pub fn feed_sharing(&mut self, bytes: &[u8], pool: &mut MetricPool) -> Result<(), BlockError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let result = self.take_all(bytes, pool);
        if let Err(error) = &result {
            self.broken = Some(error.clone());
        }
        result
    }

    fn take_all(&mut self, mut bytes: &[u8], pool: &mut MetricPool) -> Result<(), BlockError> {
        if self.bytes() + bytes.len() as u64 > SCHEMA_BYTES_MAX as u64 {
            return Err(self.too_much("bytes of schema", SCHEMA_BYTES_MAX));
        }
        while !bytes.is_empty() {
            if self.unfinished.is_empty() {
                match self.piece(bytes)? {
                    Piece::Whole(length) => {
                        let (piece, rest) = bytes.split_at(length);
                        self.take(piece, pool)?;
                        bytes = rest;
                    }
                    Piece::Needs(_) => {
                        self.unfinished.extend_from_slice(bytes);
                        return Ok(());
                    }
                }
            } else {
                bytes = self.finish(bytes, pool)?;
            }
        }
        Ok(())
    }

    /// Completes the unfinished record, if `bytes` suffice, and takes it; returns the bytes after it.
    fn finish<'a>(&mut self, bytes: &'a [u8], pool: &mut MetricPool) -> Result<&'a [u8], BlockError> {
        let mut piece = std::mem::take(&mut self.unfinished);
        let needs = match self.piece(&piece)? {
            Piece::Whole(length) | Piece::Needs(length) => length,
        };
        let (more, rest) = bytes.split_at((needs - piece.len()).min(bytes.len()));
        piece.extend_from_slice(more);
        match self.piece(&piece)? {
            Piece::Whole(_) => self.take(&piece, pool)?,
            Piece::Needs(_) => self.unfinished = piece,
        }
        Ok(rest)
    }

    /// The length of the header or record at the start of `bytes`.
    fn piece(&self, bytes: &[u8]) -> Result<Piece, BlockError> {
        let length = if self.finished == 0 {
            HEADER.len()
        } else {
            match bytes.get(1..).and_then(varint::get) {
                Some((length, rest)) => {
                    if length > RECORD_BYTES_MAX as u64 {
                        return Err(self.too_much("bytes in a record", RECORD_BYTES_MAX));
                    }
                    bytes.len() - rest.len() + length as usize
                }
                None if bytes.len() > varint::BYTES_MAX => {
                    return Err(self.damaged("the length of a record does not fit 64 bits"));
                }
                None => return Ok(Piece::Needs(bytes.len().max(1) + 1)),
            }
        };
        Ok(if bytes.len() < length { Piece::Needs(length) } else { Piece::Whole(length) })
    }

    /// Takes a whole header or record.
    fn take(&mut self, piece: &[u8], pool: &mut MetricPool) -> Result<(), BlockError> {
        if self.finished == 0 {
            self.take_header(piece)?;
        } else if let Some((_, body)) = piece.get(1..).and_then(varint::get) {
            let fields = Fields::new(body, self.finished as usize);
            match piece[0] {
                METRIC => self.take_metric(fields, ValueType::Unsigned, pool)?,
                TYPED_METRIC => {
                    let mut fields = fields;
                    let value_type = metric::value_type_of(fields.byte()?);
                    self.take_metric(fields, value_type, pool)?;
                }
                SLOT => self.take_slot(fields)?,
                // A newer version wrote a kind of record that this one does not know.
                _ => {}
            }
        }
        self.finished += piece.len() as u64;
        Ok(())
    }

    fn take_header(&self, header: &[u8]) -> Result<(), BlockError> {
        if header[..4] != HEADER[..4] {
            return Err(self.damaged("no schema begins here"));
        }
        match header[4] {
            VERSION => Ok(()),
            version => Err(BlockError::UnknownSchemaVersion { version }),
        }
    }

    fn take_metric(
        &mut self,
        mut fields: Fields,
        value_type: ValueType,
        pool: &mut MetricPool,
    ) -> Result<(), BlockError> {
        if self.metrics.len() == METRICS_MAX {
            return Err(self.too_much("metrics", METRICS_MAX));
        }
        self.metrics.push(pool.share(metric::read(&mut fields, value_type)?));
        Ok(())
    }

    fn take_slot(&mut self, mut fields: Fields) -> Result<(), BlockError> {
        if self.series.len() == SLOTS_MAX {
            return Err(self.too_much("slots", SLOTS_MAX));
        }
        let number = usize::try_from(fields.number()?).unwrap_or(usize::MAX);
        let metric = self
            .metrics
            .get(number)
            .ok_or_else(|| fields.damaged("a slot names a metric that the schema has not defined"))?;
        let instance = match fields.byte()? {
            0 => None,
            _ => Some(labels::read_instance(&mut fields)?),
        };
        self.instances += instance.as_ref().map_or(0, |instance| shared_text(instance.bytes()));
        self.series.push(Series { metric: metric.clone(), instance });
        Ok(())
    }

    fn damaged(&self, problem: &'static str) -> BlockError {
        BlockError::Damaged { at: self.finished as usize, problem }
    }

    fn too_much(&self, what: &'static str, limit: usize) -> BlockError {
        BlockError::TooMuch { at: self.finished as usize, what, limit }
    }
}

/// The memory of a shared text: two counts before it, and the allocator's rounding and own data.
fn shared_text(bytes: usize) -> u64 {
    ((2 * size_of::<usize>() + bytes + size_of::<usize>()).next_multiple_of(16) as u64).max(32)
}
