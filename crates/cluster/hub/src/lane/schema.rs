//! The schemas of a lane, in generations: the meaning of its slots, and the cost when a schema
//! grows.

use std::sync::Arc;

use khz_link::SchemaPiece;

use super::{Lane, Reject};
use crate::generations::Offered;
use crate::schemas::{Schema, Schemas};

impl Lane {
    /// Slots of the present generation.
    pub fn slots(&self) -> usize {
        self.schemas.present().map_or(0, |schema| schema.series().len())
    }

    /// What the slots mean now, shared with other lanes.
    pub fn present_schema(&self) -> Option<&Arc<Schema>> {
        self.schemas.present()
    }

    /// How many bytes of the last offered schema are here.
    pub fn schema_bytes(&self) -> u64 {
        self.schemas.offered_bytes()
    }

    /// The newest schema, shared with the caller.
    pub fn newest_schema(&self) -> Option<Arc<Schema>> {
        self.schemas.present().cloned()
    }

    /// The newest generation with a schema here.
    pub fn newest_generation(&self) -> Option<u32> {
        self.schemas.newest()
    }

    /// The schema of a generation.
    pub fn schema(&self, generation: u32) -> Option<&Arc<Schema>> {
        self.schemas.of(generation)
    }

    /// The node offers a schema. If another lane has the whole schema (`whole`), this lane has it at
    /// once.
    pub fn offer_schema(&mut self, generation: u32, offered: Offered, whole: Option<Arc<Schema>>) {
        self.schemas.offer(generation, offered, whole.as_ref());
        if let Some(whole) = whole {
            self.set_schema(generation, whole);
        }
    }

    /// A piece of a schema came. Returns the schema if it has grown.
    pub fn grow_schema(
        &mut self,
        piece: &SchemaPiece<'_>,
        schemas: &Schemas,
    ) -> Result<Option<Arc<Schema>>, Reject> {
        let is_new = self.schema(piece.generation).is_none();
        // A schema that no block has grew in place: no block needs the new one.
        let before = self.schema(piece.generation).filter(|schema| is_shared(schema)).cloned();
        let grown = self.schemas.take(piece, schemas)?;
        if let (Some(before), Some(schema)) = (before, &grown) {
            self.share(&before, schema);
        }
        if is_new {
            self.forget_meaningless();
        }
        Ok(grown)
    }

    /// A generation has this schema now.
    pub fn set_schema(&mut self, generation: u32, schema: Arc<Schema>) {
        let before = self.schema(generation).cloned();
        if let Some(before) = &before {
            self.share(before, &schema);
        }
        self.schemas.set(generation, schema);
        if before.is_none() {
            self.forget_meaningless();
        }
    }

    /// The generation for rows with the slots of `schema`: the newest generation, if its schema is the same or a beginning
    /// of it; otherwise another generation.
    pub fn generation_for(&mut self, schema: &Arc<Schema>) -> u32 {
        let newest = self.schemas.newest();
        if let (Some(newest), Some(known)) = (newest, self.newest_schema()) {
            if Arc::ptr_eq(&known, schema) || schema.bytes() == known.bytes() && schema.continues(&known) {
                return newest;
            }
            if schema.continues(&known) {
                self.set_schema(newest, schema.clone());
                return newest;
            }
        }
        let generation = newest.map_or(1, |newest| newest.saturating_add(1));
        self.set_schema(generation, schema.clone());
        generation
    }

    /// Drops the blocks of a generation that was pushed out: they would keep its schema alive, and the memory for a
    /// lane's schemas is limited.
    fn forget_meaningless(&mut self) {
        if !self.schemas.is_full() {
            return;
        }
        let Lane { recent, recent_bytes, schemas, .. } = self;
        recent.retain(|block| {
            let is_known = schemas.all().any(|schema| Arc::ptr_eq(schema, &block.schema));
            *recent_bytes -= if is_known { 0 } else { block.bytes.len() as u64 };
            is_known
        });
    }

    /// Gives blocks of a generation its longest schema, which is possible because a slot never changes its meaning.
    /// Otherwise a lane whose slots grow with every block would hold a schema for each.
    fn share(&mut self, before: &Arc<Schema>, schema: &Arc<Schema>) {
        if Arc::ptr_eq(before, schema) {
            return;
        }
        let blocks = self.recent.iter_mut().map(|block| (&block.header, &mut block.schema));
        let open = self.open.iter_mut().map(|open| (&open.header, &mut open.schema));
        for (header, known) in blocks.chain(open) {
            if Arc::ptr_eq(known, before) && schema.series().len() >= header.slots as usize {
                *known = schema.clone();
            }
        }
    }

    /// The cost of a longer schema: the earlier slots are copied or compared, and every block gets the schema. A
    /// schema that we already have costs nothing.
    pub fn growth(&self, generation: u32, bytes: u64) -> usize {
        match self.schema(generation) {
            Some(here) if here.bytes() >= bytes => 0,
            Some(here) if !is_shared(here) => 0,
            Some(here) => here.series().len().max(self.recent.len()),
            None if self.schemas.is_full() => self.recent.len(),
            None => 0,
        }
    }

    /// Its schemas, each with the memory that it takes.
    pub fn schemas_held(&self) -> impl Iterator<Item = (*const Schema, u64)> {
        let open = self.open.as_ref().map(|open| &open.schema);
        self.schemas.all().chain(open).map(|schema| (Arc::as_ptr(schema), schema.held()))
    }
}

/// True if a block or another lane holds the schema too: then growing copies it.
fn is_shared(schema: &Arc<Schema>) -> bool {
    Arc::strong_count(schema) > 1
}
