//! Series to bytes: each metric once, before the first slot that needs it. It refuses series that no decoder
//! would take.

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::{Metric, Series, ValueType};

use super::fields::Fields;
use super::{
    HEADER, INSTANCE_BYTES_MAX, METRIC, METRICS_MAX, RECORD_BYTES_MAX, SCHEMA_BYTES_MAX, SLOT, SLOTS_MAX,
    TYPED_METRIC, labels, metric,
};
use crate::{BlockError, varint};

/// Turns the slots of one lane into the bytes of its schema.
#[derive(Debug, Default)]
pub struct SchemaEncoder {
    /// The number of each written metric.
    metrics: HashMap<Arc<Metric>, u32>,
    /// The metric of the slot before: most slots share it.
    last: Option<(Arc<Metric>, u32)>,
    slots: usize,
    bytes: u64,
    /// The record under construction, kept to reuse its memory.
    body: Vec<u8>,
}

impl SchemaEncoder {
    /// An encoder before its first slot.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of slots written.
    pub fn len(&self) -> usize {
        self.slots
    }

    /// True before the first slot.
    pub fn is_empty(&self) -> bool {
        self.slots == 0
    }

    /// The bytes written, including the header.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends the meaning of the next slot to `out`: the header before the first slot, and the metric if it
    /// is new. An error names the limit that it exceeds, or what a decoder would refuse; `out` is unchanged
    /// then.
    pub fn append(&mut self, series: &Series, out: &mut Vec<u8>) -> Result<(), BlockError> {
        let start = out.len();
        match self.write(series, out) {
            Ok(number) => {
                let (metric, _) = self.last.insert((series.metric.clone(), number));
                self.metrics.entry(metric.clone()).or_insert(number);
                self.slots += 1;
                self.bytes += (out.len() - start) as u64;
                Ok(())
            }
            Err(error) => {
                out.truncate(start);
                Err(error)
            }
        }
    }

    /// Writes the slot's records and returns the number of its metric; the encoder's own memory is unchanged.
    fn write(&mut self, series: &Series, out: &mut Vec<u8>) -> Result<u32, BlockError> {
        let start = out.len();
        self.within(self.slots + 1, SLOTS_MAX, "slots")?;
        if self.bytes == 0 {
            out.extend_from_slice(&HEADER);
        }
        let number = match self.number_of(&series.metric) {
            Some(number) => number,
            None => self.write_metric(&series.metric, out)?,
        };
        self.body.clear();
        varint::put(&mut self.body, u64::from(number));
        self.body.push(u8::from(series.instance.is_some()));
        if let Some(instance) = &series.instance {
            self.within(instance.name().len(), INSTANCE_BYTES_MAX, "bytes in an instance")?;
            labels::put_instance(&mut self.body, instance);
        }
        self.write_record(SLOT, out);
        self.within(self.bytes as usize + out.len() - start, SCHEMA_BYTES_MAX, "bytes of schema")?;
        Ok(number)
    }

    fn number_of(&self, metric: &Arc<Metric>) -> Option<u32> {
        match &self.last {
            Some((last, number)) if Arc::ptr_eq(last, metric) => Some(*number),
            _ => self.metrics.get(metric).copied(),
        }
    }

    fn write_metric(&mut self, metric: &Metric, out: &mut Vec<u8>) -> Result<u32, BlockError> {
        self.within(self.metrics.len() + 1, METRICS_MAX, "metrics")?;
        self.body.clear();
        let is_typed = metric.value_type != ValueType::Unsigned;
        if is_typed {
            let unknown = "a value type of a newer version cannot be written";
            let byte = metric::value_type_byte(metric.value_type);
            self.body.push(byte.ok_or(BlockError::Damaged { at: self.bytes as usize, problem: unknown })?);
        }
        metric::put(&mut self.body, metric);
        self.within(self.body.len(), RECORD_BYTES_MAX, "bytes in a record")?;
        // The limits of a metric are in one place: its reader.
        let body = &self.body[usize::from(is_typed)..];
        metric::read(&mut Fields::new(body, self.bytes as usize), metric.value_type)?;
        self.write_record(if is_typed { TYPED_METRIC } else { METRIC }, out);
        Ok(self.metrics.len() as u32)
    }

    fn write_record(&self, kind: u8, out: &mut Vec<u8>) {
        out.push(kind);
        varint::put(out, self.body.len() as u64);
        out.extend_from_slice(&self.body);
    }

    fn within(&self, found: usize, limit: usize, what: &'static str) -> Result<(), BlockError> {
        let at = self.bytes as usize;
        if found > limit { Err(BlockError::TooMuch { at, what, limit }) } else { Ok(()) }
    }
}
