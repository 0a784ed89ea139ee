//! Skips unwanted entries of a delta row, many at a time. A word of 64 bits marks where each number ends, so the place of an entry
//! is known before the previous entry is read.

/// Fewer slots than this are not worth it.
pub(crate) const RUN_WORTH: usize = 8;

/// Bytes that are looked at together: a bit of a word for each.
const LOOKED: usize = 64;

/// A number has at most this many bytes.
const NUMBER_BYTES: usize = crate::varint::BYTES_MAX;

/// What is left of a delta row after entries were passed.
pub(crate) struct Run<'a> {
    /// The slot after the last entry that was passed.
    pub next: usize,
    /// Entries that are still to come.
    pub left: u64,
    /// Their bytes.
    pub entries: &'a [u8],
}

impl<'a> Run<'a> {
    /// Passes entries of slots before `wanted`. It stops before an entry that is not usual (a slot that is restated, a step
    /// of 64 slots or more) or that looks damaged, and near the end of the row: the caller reads these one by one.
    #[inline]
    pub fn before(wanted: usize, next: usize, left: u64, entries: &'a [u8]) -> Self {
        let mut run = Run { next, left, entries };
        while let Some(looked) = run.entries.first_chunk::<LOOKED>() {
            let passed = run.pass(wanted, looked);
            run.entries = &run.entries[passed..];
            // If entries follow these bytes, the next pass begins with the entry that did not fit.
            if passed <= LOOKED - 1 - NUMBER_BYTES {
                break;
            }
        }
        run
    }

    /// Passes entries that lie whole in these bytes. Returns how many bytes they have.
    #[inline]
    fn pass(&mut self, wanted: usize, looked: &[u8; LOOKED]) -> usize {
        let (mut ends, mut at) = (ends(looked), 0);
        while self.left > 0 && at < LOOKED {
            let tag = looked[at];
            let slot = self.next + usize::from(tag / 2);
            // An odd tag restates its slot; a tag with further bytes does not end here.
            if tag & 0x81 != 0 || slot >= wanted {
                break;
            }
            let value = ends & ends.wrapping_sub(1);
            let after = value.trailing_zeros() as usize + 1;
            if after > LOOKED || after - at > 1 + NUMBER_BYTES {
                break;
            }
            ends = value & value.wrapping_sub(1);
            (self.next, self.left, at) = (slot + 1, self.left - 1, after);
        }
        at
    }
}

/// A bit for each byte with which a number ends.
#[inline]
fn ends(looked: &[u8; LOOKED]) -> u64 {
    let mut ends = 0;
    let (words, _) = looked.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let last = !u64::from_le_bytes(*word) >> 7 & 0x0101_0101_0101_0101;
        // The eight bits, side by side in the highest byte.
        ends |= (last.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * at);
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::varint;
    use proptest::prelude::*;

    /// What one entry after the other gives: the slot after, entries and bytes that are left.
    fn one_by_one(wanted: usize, mut entries: &[u8], mut left: u64) -> Vec<(usize, u64, usize)> {
        let (mut next, mut all) = (0, vec![(0, left, entries.len())]);
        while left > 0 {
            let Some((tag, rest)) = varint::get(entries) else { break };
            let (Some((_, rest)), slot) = (varint::get(rest), next + (tag / 2) as usize) else { break };
            if tag % 2 != 0 || slot >= wanted {
                break;
            }
            (next, left, entries) = (slot + 1, left - 1, rest);
            all.push((next, left, entries.len()));
        }
        all
    }

    fn entries() -> impl Strategy<Value = Vec<u8>> {
        let tag = prop_oneof![20 => (0u64..40).prop_map(|n| n * 2), 1 => 0u64..400];
        let value = prop_oneof![8 => 0u64..300, 4 => 0u64..1 << 30, 1 => any::<u64>()];
        prop::collection::vec((tag, value), 0..120).prop_map(|all| {
            let mut bytes = Vec::new();
            all.iter().flat_map(|(tag, value)| [tag, value]).for_each(|n| varint::put(&mut bytes, *n));
            bytes
        })
    }

    proptest! {
        #[test]
        fn a_run_ends_between_entries_and_before_the_wanted_slot(
            bytes in entries(), wanted in 0usize..2_000, left in 0u64..150,
        ) {
            let run = Run::before(wanted, 0, left, &bytes);
            let here = (run.next, run.left, run.entries.len());
            let all = one_by_one(wanted, &bytes, left);
            prop_assert!(all.contains(&here), "{here:?} is not in {all:?}");
        }

        #[test]
        fn any_bytes_are_left_to_the_caller_or_passed_as_entries(
            bytes in prop::collection::vec(any::<u8>(), 0..300), left in any::<u64>(),
        ) {
            let run = Run::before(usize::MAX >> 1, 0, left, &bytes);
            prop_assert!(run.left <= left && bytes.ends_with(run.entries));
        }
    }

    #[test]
    fn usual_entries_are_passed_up_to_the_last_ones() {
        let bytes: Vec<u8> = (0..200).flat_map(|n| [0u8, 0x80 | n, 1]).collect();
        let run = Run::before(150, 0, 200, &bytes);
        assert_eq!((run.next, run.left, run.entries.len()), (150, 50, 150));
        let run = Run::before(1_000, 0, 200, &bytes);
        assert!(run.left < 30, "{} of 200 entries are left", run.left);
    }
}
