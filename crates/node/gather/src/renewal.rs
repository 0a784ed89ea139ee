//! When a source gives its slots back: when many of them belong to instances that are gone. The source then begins
//! with new slots, and the lanes that have it begin a new generation. It decides; it moves no row.

use khz_model::Nanos;

use crate::source::Source;
use crate::source_set::SourceSet;

/// A renewal takes no slots from an instance that was gone for less than this: an interface or a disk that comes
/// back soon has the same series. Without a renewal an instance keeps its slots for ever. The time runs from
/// the first check that did not find the instance; checks are about a second apart.
pub const GONE_FOR: Nanos = Nanos::from_secs(30);

/// A source with at most this many slots of instances that are gone is left as it is: they cost less than another
/// generation.
pub const GONE_SLOTS_MIN: usize = 64;

/// A source is renewed when more than a quarter of its slots (one in this many) belong to instances that are gone.
pub const GONE_SHARE: usize = 4;

/// The same of the bytes of names and labels: few slots may have long ones.
pub const GONE_NAMES_MIN: usize = 64 << 10;

/// A generation lives at least this long.
pub const GENERATION_TIME_MIN: Nanos = Nanos::from_secs(30);

/// A generation lives at least this long where fewer than [`GONE_SLOTS_MANY`] slots are gone. Each generation has its
/// own schema in the ring and at the hub, and the hub keeps the rows of eight generations (docs/limits.md).
pub const GENERATION_TIME: Nanos = Nanos::from_secs(300);

/// This many slots of instances that are gone are too many to wait: each costs memory here and at the hub, and a
/// byte in every block.
pub const GONE_SLOTS_MANY: usize = 8_192;

/// When slots are given back.
#[derive(Debug)]
pub(crate) struct Renewal {
    /// How long an instance must be gone to lose its slots at a renewal.
    gone_for: Nanos,
    last: Option<Nanos>,
}

/// True if enough of a source's slots are gone for the source to be renewed.
pub(crate) fn is_worn(gone: usize, slots: usize) -> bool {
    gone > GONE_SLOTS_MIN && gone > slots / GONE_SHARE
}

/// True if enough of the bytes of its names and labels are.
pub(crate) fn has_worn_names(gone: usize, names: usize) -> bool {
    gone > GONE_NAMES_MIN && gone > names / GONE_SHARE
}

impl Renewal {
    /// A renewal takes no slots from instances that were gone for less than this.
    pub fn new(gone_for: Nanos) -> Self {
        Renewal { gone_for, last: None }
    }

    /// Renews the sources that are worn, unless the generation is too young; returns the renewed ones.
    /// Call it about once a second, and not between a gather and the rows of a tick.
    pub fn look(&mut self, now: Nanos, sources: &mut [Source]) -> SourceSet {
        let (mut worn, mut gone_all) = (SourceSet::default(), 0);
        for (index, source) in sources.iter_mut().enumerate() {
            if let Some(gone) = source.worn(now, self.gone_for) {
                worn = worn | SourceSet::one(index);
                gone_all += gone;
            }
        }
        if worn.is_empty() || !self.may(now, gone_all) {
            return SourceSet::default();
        }
        self.last = Some(now);
        for index in (0..sources.len()).filter(|&index| worn.has(index)) {
            let source = &mut sources[index];
            let before = source.slots();
            source.renew(now, self.gone_for);
            tracing::info!("{}: {before} slots have become {}", source.name(), source.slots());
        }
        worn
    }

    fn may(&self, now: Nanos, gone: usize) -> bool {
        let time = if gone >= GONE_SLOTS_MANY { GENERATION_TIME_MIN } else { GENERATION_TIME };
        self.last.is_none_or(|last| now.since(last) >= time)
    }
}

#[cfg(test)]
mod tests;
