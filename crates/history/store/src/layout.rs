//! A layout: the series of a section, in the order of its columns. Nodes with the same series share one, and a file has
//! it once: the bytes of a schema (docs/block.md), packed. All but the first are packed with the first as dictionary, so
//! the texts of metrics are in a file once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use khz_block::schema::SCHEMA_BYTES_MAX;
use khz_block::{MetricPool, SchemaDecoder, SchemaEncoder};
use khz_model::{Instance, Schema, Series, ValueFormat};
use zstd::bulk;
use zstd::zstd_safe::get_frame_content_size;

use crate::bytes::Read;
use crate::limits::LAYOUTS_DECODED;

/// zstd's own default: layouts are written once and are a hundredth of a file.
const LEVEL: i32 = 3;

/// A series of a node, as a question names it: the name, the instance, and how its values are read. A metric that gets
/// another type or other decimal places is another series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The metric's dotted name.
    pub metric: Box<str>,
    /// The instance, where the metric has instances.
    pub instance: Option<Instance>,
    /// The meaning of its values' bits.
    pub format: ValueFormat,
}

impl Key {
    /// The key of a series.
    pub fn of(series: &Series) -> Self {
        let Series { metric, instance } = series;
        Key { metric: (*metric.name).into(), instance: instance.clone(), format: metric.format() }
    }
}

/// The series of a section.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    schema: Schema,
}

impl Layout {
    /// The series of a schema.
    pub fn of(schema: Schema) -> Self {
        Layout { schema }
    }

    pub fn series(&self) -> &[Series] {
        self.schema.series()
    }

    /// The column of a series, if it is one of these.
    pub fn place(&self, key: &Key) -> Option<usize> {
        let place = self.schema.slot(&key.metric, key.instance.as_ref())? as usize;
        (self.schema.get(place)?.metric.format() == key.format).then_some(place)
    }

    /// Reads the bytes of a schema.
    fn read(bytes: &[u8], pool: &mut MetricPool) -> Read<Self> {
        let mut decoder = SchemaDecoder::new();
        decoder.feed_sharing(bytes, pool).map_err(|_| "a schema that cannot be read")?;
        let mut schema = Schema::new();
        for (place, series) in decoder.series().iter().enumerate() {
            if schema.append(series.clone()) != Some(place as u32) {
                return Err("a series is there twice");
            }
        }
        Ok(Layout { schema })
    }
}

/// The bytes of the schema of these series, and those of them that a schema cannot hold.
pub(crate) fn schema_bytes(series: &[Series]) -> (Vec<u8>, Vec<bool>) {
    let (mut encoder, mut bytes) = (SchemaEncoder::new(), Vec::new());
    let held = series.iter().map(|series| encoder.append(series, &mut bytes).is_ok()).collect();
    (bytes, held)
}

/// Packs the bytes of a schema; `first` are those of the file's first layout.
pub(crate) fn pack(schema: &[u8], first: Option<&[u8]>) -> std::io::Result<Vec<u8>> {
    bulk::Compressor::with_dictionary(LEVEL, first.unwrap_or_default())?.compress(schema)
}

/// Unpacks what [`pack`] made.
fn unpack(packed: &[u8], first: Option<&[u8]>) -> Read<Vec<u8>> {
    let stated = get_frame_content_size(packed).ok().flatten().ok_or("a layout does not state its size")?;
    let length = usize::try_from(stated).ok().filter(|&length| length <= SCHEMA_BYTES_MAX);
    let length = length.ok_or("a layout is beyond the limit of a schema")?;
    let decompressor = bulk::Decompressor::with_dictionary(first.unwrap_or_default());
    let unpacked = decompressor.and_then(|mut decompressor| decompressor.decompress(packed, length));
    unpacked.map_err(|_| "a layout cannot be unpacked")
}

/// The layouts that were decoded last, for all files: a node has the same one for weeks.
#[derive(Debug, Default)]
pub struct Layouts(Mutex<Decoded>);

#[derive(Debug, Default)]
struct Decoded {
    /// The newest last.
    known: VecDeque<Known>,
    pool: MetricPool,
}

#[derive(Debug)]
struct Known {
    packed: Vec<u8>,
    /// The packed first layout of its file, if it is another one.
    first: Option<Arc<[u8]>>,
    layout: Arc<Layout>,
}

impl Layouts {
    /// The layout with these packed bytes; `first` are the packed bytes of the file's first layout, if it is another.
    pub(crate) fn get(&self, packed: &[u8], first: Option<&Arc<[u8]>>) -> Read<Arc<Layout>> {
        let mut decoded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |known: &Known| known.packed == packed && known.first.as_ref() == first;
        if let Some(known) = decoded.known.iter().rev().find(|known| is_it(known)) {
            return Ok(known.layout.clone());
        }
        let dictionary = first.map(|first| unpack(first, None)).transpose()?;
        let schema = unpack(packed, dictionary.as_deref())?;
        let layout = Arc::new(Layout::read(&schema, &mut decoded.pool)?);
        if decoded.known.len() == LAYOUTS_DECODED {
            decoded.known.pop_front();
            decoded.pool.forget_unused();
        }
        let known = Known { packed: packed.to_vec(), first: first.cloned(), layout: layout.clone() };
        decoded.known.push_back(known);
        Ok(layout)
    }
}
