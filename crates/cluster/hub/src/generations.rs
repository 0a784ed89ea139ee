//! What the slots of a lane mean, generation by generation, as far as its node has said it. Slots are only appended: a
//! piece that is here already changes nothing, and bytes that are not those of the offer are refused.

use std::collections::VecDeque;
use std::sync::Arc;

use khz_link::{LaneOffer, SchemaPiece};

use crate::lane::Reject;
use crate::limits::GENERATIONS_MAX;
use crate::schemas::{Hash, Schema, Schemas};

/// How long a lane's schema is, as its node has offered it, and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offered {
    pub bytes: u64,
    pub hash: Hash,
}

impl Offered {
    /// What an offer says of the schema.
    pub fn of(offer: &LaneOffer<'_>) -> Self {
        Offered { bytes: offer.schema_bytes, hash: offer.schema_hash }
    }

    /// Whether a schema can be the beginning of what is offered, which is `whole` if another lane has it.
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

    /// The schema of a generation.
    pub fn of(&self, generation: u32) -> Option<&Arc<Schema>> {
        self.known.iter().find(|(number, _)| *number == generation).map(|(_, schema)| schema)
    }

    /// Bytes that are here of the schema that was offered last.
    pub fn offered_bytes(&self) -> u64 {
        let here = self.offered.and_then(|(generation, _)| self.of(generation));
        here.map_or(0, |schema| schema.bytes())
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Schema>> {
        self.known.iter().map(|(_, schema)| schema)
    }

    /// True where another generation takes the place of one that is here.
    pub fn is_full(&self) -> bool {
        self.known.len() == GENERATIONS_MAX
    }

    /// Forgets those that nobody needs.
    pub fn retain(&mut self, is_needed: impl Fn(&Arc<Schema>) -> bool) {
        self.known.retain(|(_, schema)| is_needed(schema));
    }

    /// The node offers a schema, which is `whole` if another lane has it. What does not continue in it was the schema of
    /// a node that has lost it: it is forgotten.
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
            // The past comes newest first: an old one is needed for now, and the older one before it no more.
            self.known.pop_back();
        }
        let at = self.known.partition_point(|(number, _)| *number > generation);
        self.known.insert(at, (generation, schema));
    }

    /// How much of a piece is not here yet.
    pub fn news<'a>(&self, piece: &SchemaPiece<'a>) -> Result<&'a [u8], Reject> {
        let here = self.of(piece.generation).map_or(0, |schema| schema.bytes());
        // A node sends what it had not sent before the hub found the whole in another lane, or what a sender before it
        // on this connection has sent too.
        let known = here.checked_sub(piece.offset).ok_or("a piece of a schema that does not continue it")?;
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(piece.bytes.len());
        Ok(&piece.bytes[known..])
    }

    /// A piece came. Gives the schema when there is more of it than before.
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
        // Taken out, so that one which nobody else has can grow where it is. Where it is refused the node says it from the start
        // on its next connection.
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
