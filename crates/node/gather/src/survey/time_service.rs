//! Asks the kernel how well its clock is kept: adjtimex(2), which changes nothing.

#![allow(unsafe_code, reason = "rustix has no adjtimex")]

use std::mem::MaybeUninit;
use std::path::Path;

use rustix::io::Errno;

use super::Answer;
use super::course::{Abandoned, Course};
use super::file_systems::is_live;

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
    // The offset is in microseconds unless this bit says nanoseconds.
    let nanos = if found.status & libc::STA_NANO == 0 { 1_000 } else { 1 };
    format!(
        "* synchronised={} offset={} estimated_error={} max_error={} status={}\n",
        u8::from(state != libc::TIME_ERROR),
        found.offset.saturating_mul(nanos),
        found.esterror,
        found.maxerror,
        found.status,
    )
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
        found.status |= libc::STA_NANO;
        assert!(text(0, &found).starts_with("* synchronised=1 offset=-7 "));
    }
}
