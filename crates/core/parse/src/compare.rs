//! Vectorised byte searches, and prefetching. The only file of this crate with `unsafe`.
//!
//! The searches are plain loops that the compiler turns into vector instructions. [`vectorised`] compiles a
//! piece of work twice, once for every x86-64 and once for those with AVX2, and runs the right one.
//!
//! Why `unsafe`: calling code compiled for a processor feature is sound only where the processor has it, and
//! only a check at run time can know this. The benefit: comparing /proc/meminfo takes half the time.

#![allow(unsafe_code, reason = "only a check at run time can know what the processor has")]

/// Texts are compared in chunks of this size.
pub(crate) const CHUNK: usize = 64;

/// A piece of work that may be compiled for a newer processor. Mark `run` with `#[inline(always)]`; without
/// it, the compiler builds `run` for the baseline processor.
pub(crate) trait Work {
    /// The result.
    type Output;
    /// Does the work.
    fn run(self) -> Self::Output;
}

/// Does the work with the best instructions that this processor has.
#[inline]
pub(crate) fn vectorised<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: this processor has the three features, as the check above found; the function has no other condition.
        return unsafe { run_with_avx2(work) };
    }
    work.run()
}

/// Detects the features once; each later call reads one byte. Detecting three features for each text of 16
/// bytes would be measurable.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx2() -> bool {
    use std::arch::is_x86_feature_detected as has;
    static HAS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *HAS.get_or_init(|| has!("avx2") && has!("bmi2") && has!("popcnt"))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn run_with_avx2<W: Work>(work: W) -> W::Output {
    work.run()
}

/// The index of the first chunk in which `a` and `b` differ; the number of chunks that both have when none
/// differs.
#[inline(always)]
pub(crate) fn first_difference(a: &[[u8; CHUNK]], b: &[[u8; CHUNK]]) -> usize {
    let common = a.len().min(b.len());
    a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(common)
}

/// A mask with one bit for each byte in which two chunks differ.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn difference_mask(a: &[u8; CHUNK], b: &[u8; CHUNK]) -> u64 {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8};
    let (a, _) = a.as_chunks::<16>();
    let (b, _) = b.as_chunks::<16>();
    let equal = |i: usize| {
        let (a, b): (*const __m128i, *const __m128i) = (a[i].as_ptr().cast(), b[i].as_ptr().cast());
        // SAFETY: every x86-64 has SSE2; both pointers point to 16 bytes, and the loads need no alignment.
        let equal = unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(a), _mm_loadu_si128(b))) };
        u64::from(equal as u16)
    };
    !(equal(0) | equal(1) << 16 | equal(2) << 32 | equal(3) << 48)
}

/// A mask with one bit for each byte in which two chunks differ.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn difference_mask(a: &[u8; CHUNK], b: &[u8; CHUNK]) -> u64 {
    let mut mask = 0;
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        mask |= u64::from(a != b) << i;
    }
    mask
}

/// True when `bytes` contains a newline. It does not stop inside a chunk, so that the compiler can test all
/// its bytes together.
#[inline(always)]
pub(crate) fn has_newline(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<CHUNK>();
    let any = |bytes: &[u8]| bytes.iter().fold(false, |found, &byte| found | (byte == b'\n'));
    chunks.iter().any(|chunk| any(chunk)) || any(rest)
}

/// At most this many cache lines are prefetched: a processor can hold about this many requests at once.
const PREFETCH_LINES_MAX: usize = 64;

/// Prefetches the memory of `items` without waiting for it.
#[inline]
pub(crate) fn prefetch<T>(items: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start: *const i8 = items.as_ptr().cast();
        let lines = size_of_val(items).div_ceil(CHUNK).min(PREFETCH_LINES_MAX);
        for line in 0..lines {
            // SAFETY: a prefetch reads nothing and never faults, at any address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * CHUNK)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = items;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found_wherever_it_is() {
        for chunks in 0..4 {
            let a = vec![[7u8; CHUNK]; chunks];
            assert_eq!(first_difference(&a, &a), chunks);
            for at in 0..chunks * CHUNK {
                let mut b = a.clone();
                b[at / CHUNK][at % CHUNK] = 8;
                assert_eq!(first_difference(&a, &b), at / CHUNK);
                assert_eq!(difference_mask(&a[at / CHUNK], &b[at / CHUNK]), 1 << (at % CHUNK));
            }
        }
    }

    #[test]
    fn a_newline_is_found_wherever_it_is() {
        for length in 0..200 {
            let mut bytes = vec![b'x'; length];
            assert!(!has_newline(&bytes));
            for at in 0..length {
                bytes[at] = b'\n';
                assert!(has_newline(&bytes), "{at} of {length}");
                bytes[at] = b'x';
            }
        }
    }
}
