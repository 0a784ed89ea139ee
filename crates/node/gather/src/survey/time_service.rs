//! Asks the kernel how well its clock is kept (adjtimex(2), which changes nothing), and the C library how far the local time is ahead.

#![allow(unsafe_code, reason = "rustix has no adjtimex, and only the C library knows local time")]

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::path::Path;

use khz_model::Nanos;
use khz_parse::clock::{FREQUENCY_PLACES, TIME_ZONE};
use khz_parse::survey::{NO_INSTANCE, UNREADABLE, escape};
use khz_parse::tree::word_of;
use rustix::io::Errno;

use super::Answer;
use super::course::{Abandoned, Course};
use super::file_systems::is_live;
use crate::clock;

/// Makes the text.
pub(super) fn survey(course: &mut Course<'_>, root: &Path) -> Result<Answer, Abandoned> {
    if !is_live(root) {
        return Ok(Err(Errno::NOENT));
    }
    if !course.begin(b"")? {
        return Ok(Err(Errno::TIMEDOUT));
    }
    let mut text = match ask() {
        Ok((state, found)) => text(state, &found),
        // Some containers forbid it.
        Err(_) => unreadable(),
    };
    text.push_str(&local_time(clock::stamp().real()).map(|zone| zone.line()).unwrap_or_default());
    Ok(Ok(text.into_bytes()))
}

/// The same numbers where the kernel does not say them.
fn unreadable() -> String {
    let words =
        khz_parse::clock::FILE.scalars.iter().map(|entry| format!(" {}={UNREADABLE}", word_of(entry)));
    format!("{NO_INSTANCE}{}\n", words.collect::<String>())
}

/// Local time.
#[derive(Debug, PartialEq, Eq)]
struct Zone {
    /// The short name that it has now.
    name: Vec<u8>,
    /// How many seconds it is ahead of UTC.
    offset: i64,
}

impl Zone {
    fn line(&self) -> String {
        let mut name = Vec::new();
        escape(&self.name, &mut name);
        format!("{TIME_ZONE} {} zone_offset={}\n", String::from_utf8_lossy(&name), self.offset)
    }
}

/// The local time at this moment; `None`: it has no name.
fn local_time(now: Nanos) -> Option<Zone> {
    let seconds = libc::time_t::try_from(now.0 / Nanos::SECOND.0).ok()?;
    let mut found = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: it has no arguments. It reads TZ, and this program changes no variable once it has threads.
    unsafe { tzset() };
    // SAFETY: both pointers are valid for the call, and the function writes a whole tm when its answer is not null.
    let found = unsafe {
        if libc::localtime_r(&raw const seconds, found.as_mut_ptr()).is_null() {
            return None;
        }
        found.assume_init()
    };
    if found.tm_zone.is_null() {
        return None;
    }
    // SAFETY: it points to a text that ends with a zero; the C library keeps the names of all zones.
    let name = unsafe { CStr::from_ptr(found.tm_zone) }.to_bytes().to_vec();
    (!name.is_empty()).then_some(Zone { name, offset: found.tm_gmtoff })
}

unsafe extern "C" {
    /// Looks whether the time zone is another one now.
    fn tzset();
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
    fn local_time_is_that_of_the_command_date() {
        let date = |format: &str| {
            let output = std::process::Command::new("date").arg(format).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let zone = local_time(clock::stamp().real()).unwrap();
        let (sign, ahead) = (if zone.offset < 0 { '-' } else { '+' }, zone.offset.abs() / 60);
        assert_eq!(format!("{sign}{:02}{:02}", ahead / 60, ahead % 60), date("+%z"));
        assert_eq!(String::from_utf8(zone.name.clone()).unwrap(), date("+%Z"));
        let zone = Zone { name: b"a b".to_vec(), offset: -3 };
        assert_eq!(zone.line(), "time_zone a\\040b zone_offset=-3\n");
    }

    #[test]
    fn where_the_kernel_does_not_answer_each_number_is_unreadable() {
        let mut parser = khz_parse::Parser::new(&khz_parse::clock::FILE);
        parser.advance_with(unreadable().as_bytes());
        assert_eq!(parser.faults(), []);
        let unreadable = Some(khz_model::Reading::Failed(khz_model::Fault::Unreadable));
        assert!((0..khz_parse::clock::FILE.scalars.len()).all(|slot| parser.reading(slot) == unreadable));
    }

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
