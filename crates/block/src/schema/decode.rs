//! Bytes to series, in pieces of any size. It keeps what a schema means and at most one unfinished record.

use std::sync::Arc;

use khz_model::{Instance, Metric, Series};

use super::fields::Fields;
use super::{
    HEADER, INSTANCE_BYTES_MAX, METRIC, METRICS_MAX, MetricPool, RECORD_BYTES_MAX, SCHEMA_BYTES_MAX, SLOT,
    SLOTS_MAX, VERSION, metric,
};
use crate::{BlockError, varint};

/// The schema of one lane, as far as its bytes have come.
#[derive(Clone, Debug, Default)]
pub struct SchemaDecoder {
    metrics: Vec<Arc<Metric>>,
    series: Vec<Series>,
    /// Memory that the instances of these take.
    instances: u64,
    /// Bytes of the header or record that has begun and not ended.
    unfinished: Vec<u8>,
    /// Bytes of the header and of whole records.
    finished: u64,
    /// The first thing that was wrong; nothing is taken behind it.
    broken: Option<BlockError>,
}

/// A header or record at the start of some bytes.
enum Piece {
    /// It has so many bytes in all.
    Whole(usize),
    /// It cannot be taken before there are so many bytes.
    Needs(usize),
}

impl SchemaDecoder {
    /// A decoder that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The series of the slots so far, in slot order.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// Bytes taken, those of the unfinished record with them: the offset at which the next piece must begin.
    pub fn bytes(&self) -> u64 {
        self.finished + self.unfinished.len() as u64
    }

    /// About the memory that it holds, but for its metrics: those are the pool's.
    pub fn held(&self) -> u64 {
        let lists =
            self.series.capacity() * size_of::<Series>() + self.metrics.capacity() * size_of::<Arc<Metric>>();
        (size_of::<Self>() + lists + self.unfinished.capacity()) as u64 + self.instances
    }

    /// Gives back the memory that it holds for slots to come.
    pub fn shrink(&mut self) {
        self.series.shrink_to_fit();
        self.metrics.shrink_to_fit();
    }

    #[cfg(test)]
    pub(super) fn unfinished(&self) -> &[u8] {
        &self.unfinished
    }

    /// Takes the next bytes. After an error it says the same error to whatever comes.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), BlockError> {
        self.feed_sharing(bytes, &mut MetricPool::new())
    }

    /// Takes the next bytes; metrics that the pool has are shared with whoever else has them.
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

    /// Adds to the unfinished record what it lacks, and no more; gives what is left.
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

    /// How long the header or record is that begins here.
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
                    return Err(self.damaged("the length of a record never ends"));
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
                METRIC => self.take_metric(fields, pool)?,
                SLOT => self.take_slot(fields)?,
                // A newer version says more than we understand.
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

    fn take_metric(&mut self, mut fields: Fields, pool: &mut MetricPool) -> Result<(), BlockError> {
        if self.metrics.len() == METRICS_MAX {
            return Err(self.too_much("metrics", METRICS_MAX));
        }
        self.metrics.push(pool.share(metric::read(&mut fields)?));
        Ok(())
    }

    fn take_slot(&mut self, mut fields: Fields) -> Result<(), BlockError> {
        if self.series.len() == SLOTS_MAX {
            return Err(self.too_much("slots", SLOTS_MAX));
        }
        let number = usize::try_from(fields.number()?).unwrap_or(usize::MAX);
        let metric =
            self.metrics.get(number).ok_or_else(|| fields.damaged("a slot of a metric that never came"))?;
        let instance = match fields.byte()? {
            0 => None,
            _ => Some(instance(fields.text(INSTANCE_BYTES_MAX, "bytes in an instance")?, &fields)?),
        };
        self.instances += instance.as_ref().map_or(0, |instance| shared_text(instance.as_str()));
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

/// What a text takes that several hold: two counts before it, and what the allocator rounds up to and keeps for itself.
fn shared_text(text: &str) -> u64 {
    ((2 * size_of::<usize>() + text.len() + size_of::<usize>()).next_multiple_of(16) as u64).max(32)
}

/// An instance of exactly this text. The kernel's own limit does not hold for it: bytes that are no text take four
/// each (`\xFF`).
fn instance(text: &str, fields: &Fields) -> Result<Instance, BlockError> {
    Instance::parse(&text.replace('%', "%25")).map_err(|_| fields.damaged("no instance can have that name"))
}
