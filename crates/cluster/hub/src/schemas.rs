//! Schemas that nodes share: thousands of nodes of one kind have the same slots, and the hub holds them once. A
//! schema is found by its hash, so that a node whose schema is known need not send it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use khz_block::{BlockError, MetricPool, SchemaDecoder};
use khz_link::schema_hash;
use khz_model::{Budget, ByteSize, Series, Share};
use ring::digest::{Context, SHA256};

use crate::generations::Offered;
use crate::lane::Reject;
use crate::limits::{SCHEMA_BYTES_MAX, SCHEMAS_BYTES_MAX};

/// The first half of a schema's SHA-256.
pub(crate) type Hash = [u8; 16];

/// Why a schema is refused: the schemas of all nodes leave no room for it.
pub(crate) const FULL: Reject = "the schemas of all nodes hold as much as a hub takes (SCHEMAS_BYTES_MAX)";

/// Why a schema is refused: it alone is more than a hub takes.
const TOO_LARGE: Reject = "a schema that is larger than a hub takes: docs/block.md has the limits";

/// What the slots of a lane mean. A schema never changes: if slots are added, the result is another schema.
pub(crate) struct Schema {
    decoder: SchemaDecoder,
    context: Context,
    /// The hash of its bytes, once somebody has asked.
    hash: OnceLock<Hash>,
    /// Its share of the memory that all schemas may hold.
    share: Share,
    /// Memory of the metrics that were new with it.
    brought: u64,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").field("slots", &self.series().len()).finish()
    }
}

impl Schema {
    /// A schema without slots, which counts against no budget.
    pub fn empty() -> Option<Arc<Self>> {
        let nothing = Budget::new(ByteSize(0), Arc::default()).take(0);
        nothing.map(|share| Arc::new(Schema::new(share)))
    }

    fn new(share: Share) -> Self {
        let (decoder, context) = (SchemaDecoder::new(), Context::new(&SHA256));
        Schema { decoder, context, hash: OnceLock::new(), share, brought: 0 }
    }

    fn copy(&self, share: Share) -> Self {
        let (decoder, context) = (self.decoder.clone(), self.context.clone());
        Schema { decoder, context, hash: OnceLock::new(), share, brought: self.brought }
    }

    /// What each slot is.
    pub fn series(&self) -> &[Series] {
        self.decoder.series()
    }

    /// Its size as bytes.
    pub fn bytes(&self) -> u64 {
        self.decoder.bytes()
    }

    /// The memory that it takes with the metrics that were new: several times its bytes.
    pub fn held(&self) -> u64 {
        self.share.bytes() + self.brought
    }

    /// The hash of its bytes.
    pub fn hash(&self) -> Hash {
        *self.hash.get_or_init(|| schema_hash(self.context.clone().finish()))
    }

    /// Whether its first slots are those of an earlier schema.
    pub fn continues(&self, before: &Schema) -> bool {
        self.series().starts_with(before.series())
    }
}

/// All schemas that some lane has.
#[derive(Debug)]
pub(crate) struct Schemas {
    known: Mutex<HashMap<Hash, Weak<Schema>>>,
    /// Metrics that many nodes have, each once.
    pool: Mutex<MetricPool>,
    /// Memory of all schemas; a schema of several lanes counts once.
    held: Budget,
    /// The metrics' part of that memory.
    metrics_share: Option<Share>,
    /// Schemas made so far, and how many when it was tidied last.
    made: AtomicU64,
    tidied: AtomicU64,
}

impl Default for Schemas {
    fn default() -> Self {
        let held = Budget::new(ByteSize(SCHEMAS_BYTES_MAX), Arc::default());
        Schemas {
            known: Mutex::default(),
            pool: Mutex::default(),
            metrics_share: held.take(0),
            held,
            made: AtomicU64::new(0),
            tidied: AtomicU64::new(0),
        }
    }
}

impl Schemas {
    fn known(&self) -> MutexGuard<'_, HashMap<Hash, Weak<Schema>>> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The schema with this hash and size, if some lane has it.
    pub fn find(&self, hash: &Hash, bytes: u64) -> Option<Arc<Schema>> {
        self.known().get(hash)?.upgrade().filter(|schema| schema.bytes() == bytes)
    }

    /// The schema that results when `base` gets more bytes. If it is as long as the offered schema, it must be
    /// equal to it. If nothing else holds a schema, it grows in place; otherwise it is copied.
    pub fn grow(
        &self,
        base: Option<Arc<Schema>>,
        bytes: &[u8],
        offered: Option<Offered>,
    ) -> Result<Arc<Schema>, Reject> {
        let before = base.as_ref().map_or(0, |schema| schema.bytes());
        if before + bytes.len() as u64 > SCHEMA_BYTES_MAX as u64 {
            return Err(TOO_LARGE);
        }
        let mut schema = match base.map(Arc::try_unwrap) {
            Some(Ok(alone)) => alone,
            Some(Err(shared)) => shared.copy(self.held.take(0).ok_or(FULL)?),
            None => Schema::new(self.held.take(0).ok_or(FULL)?),
        };
        {
            let mut pool = self.pool();
            let known = pool.held();
            let fed = schema.decoder.feed_sharing(bytes, &mut pool);
            let has_room = self.metrics_share.as_ref().is_none_or(|share| share.set(pool.held()));
            fed.map_err(|error| match error {
                BlockError::TooMuch { .. } => TOO_LARGE,
                _ => "a damaged schema",
            })?;
            if !has_room {
                return Err(FULL);
            }
            schema.brought += pool.held() - known;
        }
        schema.hash.take();
        // A piece may go beyond the offer: slots were added after the offer.
        let ends_at = offered.map_or(0, |offered| offered.bytes.saturating_sub(before));
        let (rest_of_offer, beyond) = bytes.split_at(ends_at.min(bytes.len() as u64) as usize);
        schema.context.update(rest_of_offer);
        let is_whole = ends_at > 0 && rest_of_offer.len() as u64 == ends_at;
        if is_whole && offered.is_some_and(|offered| offered.hash != schema.hash()) {
            return Err("a schema that is not the one that was offered");
        }
        if !beyond.is_empty() {
            schema.hash.take();
            schema.context.update(beyond);
        }
        if is_whole {
            schema.decoder.shrink();
        }
        if !schema.share.set(schema.decoder.held()) {
            return Err(FULL);
        }
        Ok(self.shared(schema))
    }

    fn pool(&self) -> MutexGuard<'_, MetricPool> {
        self.pool.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Memory that they take, with their metrics.
    pub fn held(&self) -> u64 {
        self.held.held()
    }

    /// True if schemas were made since the last tidying: they may have replaced others.
    pub fn has_changed(&self) -> bool {
        self.made.load(Ordering::Relaxed) != self.tidied.load(Ordering::Relaxed)
    }

    /// Drops what no lane has any more.
    pub fn tidy(&self) {
        self.tidied.store(self.made.load(Ordering::Relaxed), Ordering::Relaxed);
        {
            let mut known = self.known();
            known.retain(|_, schema| schema.strong_count() > 0);
            known.shrink_to_fit();
        }
        let mut pool = self.pool();
        pool.forget_unused();
        if let Some(share) = &self.metrics_share {
            share.set(pool.held());
        }
    }

    /// The one schema with these bytes, which all lanes share.
    fn shared(&self, schema: Schema) -> Arc<Schema> {
        let hash = schema.hash();
        let mut known = self.known();
        if let Some(same) = known.get(&hash).and_then(Weak::upgrade) {
            return same;
        }
        self.made.fetch_add(1, Ordering::Relaxed);
        let schema = Arc::new(schema);
        known.insert(hash, Arc::downgrade(&schema));
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_that_is_too_large_is_refused_as_that_and_not_as_damaged() {
        let header = *b"khzS\x01\0\0\0";
        // A record of a metric with a mebibyte; of a metric without a name.
        let refused = |record: &[u8]| Schemas::default().grow(None, &[&header, record].concat(), None).err();
        assert_eq!(refused(&[1, 0x80, 0x80, 0x40]), Some(TOO_LARGE));
        assert_eq!(refused(&[1, 1, 0]), Some("a damaged schema"));
    }
}
