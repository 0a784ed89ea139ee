//! The schemas that a sender expects its peer to have. The peer keeps a few generations and drops the oldest for a new one;
//! only the peer knows which one that is. So the sender relies on two: the newest, and the one that was sent last.

/// Bytes of schemas that the peer has for certain.
#[derive(Debug, Default)]
pub(crate) struct SchemasSent {
    /// Generation and bytes. Only generations of which the peer has bytes: when another generation begins, the peer may
    /// drop any older one.
    known: Vec<(u32, u64)>,
}

impl SchemasSent {
    /// The peer says that it has this many bytes of one generation.
    pub fn of_peer(generation: u32, bytes: u64) -> Self {
        let mut schemas = Self::default();
        schemas.sent(generation, bytes);
        schemas
    }

    /// How many bytes of the generation's schema the peer has.
    pub fn bytes(&self, generation: u32) -> u64 {
        self.known.iter().find(|(known, _)| *known == generation).map_or(0, |(_, bytes)| *bytes)
    }

    /// The peer gets more bytes of a generation's schema.
    pub fn sent(&mut self, generation: u32, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if let Some((_, known)) = self.known.iter_mut().find(|(known, _)| *known == generation) {
            *known += bytes;
            return;
        }
        self.forget_older();
        self.known.push((generation, bytes));
    }

    /// The peer gets a generation that is new to it, and may drop any of the older ones.
    pub fn forget_older(&mut self) {
        let newest = self.known.iter().map(|&(known, _)| known).max();
        self.known.retain(|&(known, _)| Some(known) == newest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Intake;

    #[test]
    fn a_generation_that_the_peer_was_only_offered_makes_it_forget_another_when_its_first_byte_comes() {
        let mut schemas = SchemasSent::of_peer(20, 0);
        schemas.sent(11, 100);
        assert_eq!((schemas.bytes(20), schemas.bytes(11)), (0, 100));
        schemas.sent(20, 10);
        schemas.sent(9, 10);
        assert_eq!((schemas.bytes(20), schemas.bytes(11), schemas.bytes(9)), (10, 0, 10));
    }

    #[test]
    fn whatever_is_relied_on_the_peer_has() {
        let mut random = 7_u64;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % limit
        };
        for _ in 0..2_000 {
            let first = below(30) as u32;
            let (mut schemas, mut peer) = (SchemasSent::of_peer(first, 0), Intake::new(1));
            let mut newest = first;
            for _ in 0..200 {
                newest += u32::from(below(10) == 0);
                let generation = if below(3) == 0 { newest } else { below(u64::from(newest) + 1) as u32 };
                let (from, more) = (schemas.bytes(generation), below(3));
                // A sender whose output is full sends no bytes of a schema.
                if more > 0 {
                    let here = peer.schema(generation, from, more as usize);
                    assert!(here.is_ok(), "generation {generation} from {from}: {schemas:?}");
                    schemas.sent(generation, more);
                }
                assert!(schemas.known.iter().all(|&(known, bytes)| peer.schema_bytes(known) == bytes));
            }
        }
    }
}
