//! Schemas that nodes share: thousands of nodes of one kind have the same slots, and the hub holds them once. A
//! schema is found by its hash, so that a node whose schema is known need not send it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use khz_block::{MetricPool, SchemaDecoder};
use khz_model::Series;
use ring::digest::{Context, SHA256};

use crate::generations::Offered;
use crate::lane::Reject;
use crate::limits::{SCHEMA_BYTES_MAX, SLOTS_MAX};

/// The first half of a schema's SHA-256.
pub(crate) type Hash = [u8; 16];

/// What the slots of a lane mean. Never changes; one that grew is another.
pub(crate) struct Schema {
    decoder: SchemaDecoder,
    context: Context,
}

impl Default for Schema {
    /// One without slots.
    fn default() -> Self {
        Schema { decoder: SchemaDecoder::new(), context: Context::new(&SHA256) }
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").field("slots", &self.series().len()).finish()
    }
}

impl Schema {
    /// What each slot is.
    pub fn series(&self) -> &[Series] {
        self.decoder.series()
    }

    /// Its size as bytes.
    pub fn bytes(&self) -> u64 {
        self.decoder.bytes()
    }

    /// The hash of its bytes.
    pub fn hash(&self) -> Hash {
        hash(&self.context)
    }

    /// Whether its first slots are those of a schema before it.
    pub fn continues(&self, before: &Schema) -> bool {
        self.series().starts_with(before.series())
    }
}

fn hash(context: &Context) -> Hash {
    let digest = context.clone().finish();
    let mut hash = Hash::default();
    hash.copy_from_slice(&digest.as_ref()[..16]);
    hash
}

/// All schemas that some lane has.
#[derive(Debug, Default)]
pub(crate) struct Schemas {
    known: Mutex<HashMap<Hash, Weak<Schema>>>,
    /// Metrics that are the same on many nodes, once.
    pool: Mutex<MetricPool>,
}

impl Schemas {
    fn known(&self) -> MutexGuard<'_, HashMap<Hash, Weak<Schema>>> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The schema with this hash and size, if some lane has it.
    pub fn find(&self, hash: &Hash, bytes: u64) -> Option<Arc<Schema>> {
        self.known().get(hash)?.upgrade().filter(|schema| schema.bytes() == bytes)
    }

    /// The schema that `base` becomes with more bytes; where it is as long as it was offered, it must be that one.
    pub fn grow(
        &self,
        base: Option<&Arc<Schema>>,
        bytes: &[u8],
        offered: Option<Offered>,
    ) -> Result<Arc<Schema>, Reject> {
        let before = base.map_or(0, |schema| schema.bytes());
        if before + bytes.len() as u64 > SCHEMA_BYTES_MAX {
            return Err("a schema larger than a hub takes");
        }
        let (mut decoder, mut context) = match base {
            Some(schema) => (schema.decoder.clone(), schema.context.clone()),
            None => (SchemaDecoder::new(), Context::new(&SHA256)),
        };
        {
            let mut pool = self.pool.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            decoder.feed_sharing(bytes, &mut pool).map_err(|_| "a damaged schema")?;
        }
        if decoder.series().len() > SLOTS_MAX {
            return Err("more slots than a hub takes");
        }
        // A piece may go beyond the offer: slots came between the two.
        let ends_at = offered.map_or(0, |offered| offered.bytes.saturating_sub(before));
        let (rest_of_offer, beyond) = bytes.split_at(ends_at.min(bytes.len() as u64) as usize);
        context.update(rest_of_offer);
        let is_whole = ends_at > 0 && rest_of_offer.len() as u64 == ends_at;
        if is_whole && offered.is_some_and(|offered| offered.hash != hash(&context)) {
            return Err("a schema that is not the one that was offered");
        }
        context.update(beyond);
        Ok(self.shared(Schema { decoder, context }))
    }

    /// The one schema with these bytes that everybody holds.
    fn shared(&self, schema: Schema) -> Arc<Schema> {
        let hash = schema.hash();
        let mut known = self.known();
        if let Some(same) = known.get(&hash).and_then(Weak::upgrade) {
            return same;
        }
        if known.len() >= 1_024 && known.len().is_power_of_two() {
            known.retain(|_, schema| schema.strong_count() > 0);
            self.pool.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).forget_unused();
        }
        let schema = Arc::new(schema);
        known.insert(hash, Arc::downgrade(&schema));
        schema
    }
}
