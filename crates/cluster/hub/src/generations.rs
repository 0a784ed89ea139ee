//! The schemas of a lane, one for each generation, as far as the node has sent them. Slots are only appended: a piece
//! that we already have changes nothing, and bytes that differ from the offer are refused.

use std::collections::VecDeque;
use std::sync::Arc;

use khz_link::{LaneOffer, SchemaPiece};

use crate::lane::Reject;
use crate::limits::GENERATIONS_MAX;
use crate::schemas::{Hash, Schema, Schemas};

/// The length of a lane's schema and its hash, as the node has offered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offered {
    pub bytes: u64,
    pub hash: Hash,
}

impl Offered {
    /// What an offer says about the schema.
    pub fn of(offer: &LaneOffer<'_>) -> Self {
        Offered { bytes: offer.schema_bytes, hash: offer.schema_hash }
    }

    /// Whether a schema can be the beginning of the offered schema, which is `whole` if another lane has it.
    fn continues(&self, here: &Schema, whole: Option<&Arc<Schema>>) -> bool {
        match here.bytes() == self.bytes {
            true => here.hash() == self.hash,
            false => here.bytes() < self.bytes && whole.is_none_or(|whole| whole.continues(here)),
        }
    }
}

/// The schemas of one lane.
#[derive(Debug, Default)]
pub(crate) struct Generations {
    /// Present generation first.
    known: VecDeque<(u32, Arc<Schema>)>,
    /// The generation that the node has offered last.
    offered: Option<(u32, Offered)>,
}

impl Generations {
    /// The schema of the newest generation.
    pub fn present(&self) -> Option<&Arc<Schema>> {
        self.known.front().map(|(_, schema)| schema)
    }

    /// The newest generation with a schema here.
    pub fn newest(&self) -> Option<u32> {
        self.known.front().map(|(generation, _)| *generation)
    }

    /// The schema of a generation.
    pub fn of(&self, generation: u32) -> Option<&Arc<Schema>> {
        self.known.iter().find(|(number, _)| *number == generation).map(|(_, schema)| schema)
    }

    /// How many bytes of the last offered schema are here.
    pub fn offered_bytes(&self) -> u64 {
        let here = self.offered.and_then(|(generation, _)| self.of(generation));
        here.map_or(0, |schema| schema.bytes())
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Schema>> {
        self.known.iter().map(|(_, schema)| schema)
    }

    /// True if the next new generation pushes one out.
    pub fn is_full(&self) -> bool {
        self.known.len() == GENERATIONS_MAX
    }

    /// Drops the schemas that are not needed.
    pub fn retain(&mut self, is_needed: impl Fn(&Arc<Schema>) -> bool) {
        self.known.retain(|(_, schema)| is_needed(schema));
    }

    /// The node offers a schema, which is `whole` if another lane has it. A schema that the offer does not continue is
    /// dropped: the node has lost it.
    pub fn offer(&mut self, generation: u32, offered: Offered, whole: Option<&Arc<Schema>>) {
        self.offered = Some((generation, offered));
        if self.of(generation).is_some_and(|here| !offered.continues(here, whole)) {
            self.forget(generation);
        }
    }

    /// A generation has this schema now.
    pub fn set(&mut self, generation: u32, schema: Arc<Schema>) {
        if let Some(known) = self.known.iter_mut().find(|(number, _)| *number == generation) {
            known.1 = schema;
            return;
        }
        if self.known.len() == GENERATIONS_MAX {
            // Blocks of the past come newest first: the older generation before an old one is not needed again.
            self.known.pop_back();
        }
        let at = self.known.partition_point(|(number, _)| *number > generation);
        self.known.insert(at, (generation, schema));
    }

    /// The part of a piece that is not here yet.
    pub fn news<'a>(&self, piece: &SchemaPiece<'a>) -> Result<&'a [u8], Reject> {
        let here = self.of(piece.generation).map_or(0, |schema| schema.bytes());
        // A node may send bytes that are here already: the hub has found the whole schema in another lane, or
        // another sender on this connection has sent the bytes.
        let known = here.checked_sub(piece.offset).ok_or("a piece of a schema that does not continue it")?;
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(piece.bytes.len());
        Ok(&piece.bytes[known..])
    }

    /// A piece of a schema came. Returns the schema if it has grown.
    pub fn take(
        &mut self,
        piece: &SchemaPiece<'_>,
        schemas: &Schemas,
    ) -> Result<Option<Arc<Schema>>, Reject> {
        let news = self.news(piece)?;
        if news.is_empty() {
            return Ok(None);
        }
        let offered = self.offered.filter(|&(generation, _)| generation == piece.generation);
        // We take the schema out of the list, so that it grows in place if nothing else holds it. If the piece is
        // refused, the node sends the whole schema on its next connection.
        let before = self.take_out(piece.generation);
        let schema = schemas.grow(before, news, offered.map(|(_, offered)| offered))?;
        self.set(piece.generation, schema.clone());
        Ok(Some(schema))
    }

    fn take_out(&mut self, generation: u32) -> Option<Arc<Schema>> {
        let at = self.known.iter().position(|(number, _)| *number == generation)?;
        self.known.remove(at).map(|(_, schema)| schema)
    }

    fn forget(&mut self, generation: u32) {
        self.known.retain(|(number, _)| *number != generation);
    }
}
