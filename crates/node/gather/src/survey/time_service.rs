//! Asks the kernel how well its clock is kept: adjtimex(2), which changes nothing.

#![allow(unsafe_code, reason = "rustix has no adjtimex")]

use std::mem::MaybeUninit;
use std::path::Path;

use rustix::io::Errno;

use super::Answer;
use super::course::{Abandoned, Course};
use super::file_systems::is_live;
use khz_parse::clock::FREQUENCY_PLACES;

/// Makes the text.
pub(super) fn survey(course: &mut Course<'_>, root: &Path) -> Result<Answer, Abandoned> {
    if !is_live(root) {
        return Ok(Err(Errno::NOENT));
    }
    if !course.begin(b"")? {
        return Ok(Err(Errno::TIMEDOUT));
    }
    Ok(ask().map(|(state, found)| text(state, &found).into_bytes()))
}

/// The state of the clock, and what the kernel knows of it.
fn ask() -> Result<(libc::c_int, libc::timex), Errno> {
    // SAFETY: all fields are integers, for which zeros are values. No mode is set: the kernel changes nothing.
    let mut found: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the kernel reads and writes the struct, which is its own and lives until the call returns.
    let state = unsafe { libc::adjtimex(&raw mut found) };
    if state < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    Ok((state, found))
}

fn text(state: libc::c_int, found: &libc::timex) -> String {
    // The offset and the jitter are in microseconds unless this bit says nanoseconds.
    let nanos = if found.status & libc::STA_NANO == 0 { 1_000 } else { 1 };
    let synchronised = u8::from(state != libc::TIME_ERROR);
    let (offset, jitter) = (found.offset.saturating_mul(nanos), found.jitter.max(0).saturating_mul(nanos));
    let frequency = ONE.saturating_add(share(found.freq));
    let (pps_frequency, stability) = (share(found.ppsfreq), share(found.stabil).max(0));
    let libc::timex { esterror, maxerror, status, constant, tick, tai, shift, .. } = *found;
    let libc::timex { calcnt, errcnt, jitcnt, stbcnt, .. } = *found;
    format!(
        "* synchronised={synchronised} offset={offset} estimated_error={esterror} max_error={maxerror} status={status} \
         frequency={frequency} loop_time_constant={constant} tick={tick} tai_offset={tai}\n\
         * pps_frequency={pps_frequency} pps_jitter={jitter} pps_shift={shift} pps_stability={stability} \
         pps_calibrations={calcnt} pps_errors={errcnt} pps_jitters={jitcnt} pps_unstable={stbcnt}\n",
    )
}

/// A ratio of 1, in steps of [`FREQUENCY_PLACES`].
const ONE: i64 = 10_i64.pow(FREQUENCY_PLACES as u32);

/// The kernel's speeds are in steps of 2^-16 millionths.
fn share(speed: libc::c_long) -> i64 {
    const STEPS: i128 = 1_000_000 << 16;
    let share = (i128::from(speed) * i128::from(ONE) + STEPS.div_euclid(2)).div_euclid(STEPS);
    i64::try_from(share).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_and_microseconds_become_nanoseconds() {
        let Ok((state, mut found)) = ask() else {
            return khz_skip::skip("a container may forbid adjtimex");
        };
        assert!((0..=5).contains(&state));
        found.status &= !libc::STA_NANO;
        (found.offset, found.esterror, found.maxerror) = (-7, 8, 9);
        let begin = "* synchronised=0 offset=-7000 estimated_error=8 max_error=9 status=";
        assert!(text(libc::TIME_ERROR, &found).starts_with(begin));
        (found.freq, found.ppsfreq) = (-65_536, 98_304);
        let with_speeds = text(0, &found);
        // A millionth slower.
        assert!(with_speeds.contains(" frequency=999999000 "), "{with_speeds}");
        assert!(with_speeds.contains(" pps_frequency=1500 "), "{with_speeds}");
        found.status |= libc::STA_NANO;
        assert!(text(0, &found).starts_with("* synchronised=1 offset=-7 "));
    }
}
