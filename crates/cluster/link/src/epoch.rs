//! The epoch of a channel's lane above a hub, where its rows keep their numbers.

use ring::digest::{Context, SHA256};

/// The epoch that a channel's lane has above a hub at which it has the epoch `epoch`. Every hub computes the same value, so rows
/// continue there after a hub in between restarts. The value differs from `epoch` because the slots of blocks are numbered
/// differently.
pub fn through(epoch: u64) -> u64 {
    let mut context = Context::new(&SHA256);
    context.update(b"khz through");
    context.update(&epoch.to_le_bytes());
    let digest = context.finish();
    digest.as_ref().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// True if rows with the same number in these two epochs are the same rows: one epoch is of a lane at a hub, the other
/// of that lane above the hub.
pub fn have_same_rows(one: u64, other: u64) -> bool {
    one == other || through(one) == other || one == through(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_above_a_hub_never_changes_since_other_hubs_compute_the_same() {
        assert_ne!(through(7), through(8));
        assert_eq!(through(0x0123_4567_89ab_cdef), 0x4313_9f60_398c_0fc5);
        assert!(
            have_same_rows(7, through(7)) && have_same_rows(through(7), 7) && !have_same_rows(7, through(8))
        );
    }
}
