//! Local time of the C library; the only place that calls it.

#![allow(unsafe_code, reason = "only the C library knows local time")]

use std::mem::MaybeUninit;

/// Broken-down local time; months from 0, fields may lie outside their range until normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fields {
    /// Full year.
    pub year: i64,
    /// 0 to 11.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// 0 to 23.
    pub hour: i64,
    /// 0 to 59.
    pub minute: i64,
    /// 0 to 60.
    pub second: i64,
    /// 0 for Sunday.
    pub weekday: i64,
}

/// `seconds` since 1970 as local time, with the offset from UTC in seconds and the zone's abbreviation.
pub fn local(seconds: i64) -> Option<(Fields, i64, String)> {
    let tm = broken_down(libc::localtime_r, seconds)?;
    let zone = if tm.tm_zone.is_null() {
        String::new()
    } else {
        // SAFETY: tm_zone points to a zero-ended string owned by the C library, valid until the zone changes.
        unsafe { std::ffi::CStr::from_ptr(tm.tm_zone) }.to_string_lossy().into_owned()
    };
    let fields = Fields {
        year: i64::from(tm.tm_year) + 1900,
        month: tm.tm_mon.into(),
        day: tm.tm_mday.into(),
        hour: tm.tm_hour.into(),
        minute: tm.tm_min.into(),
        second: tm.tm_sec.into(),
        weekday: tm.tm_wday.into(),
    };
    Some((fields, tm.tm_gmtoff, zone))
}

/// Seconds since 1970 of local `fields`, normalised; `None` where there is no such time.
pub fn seconds(fields: &Fields) -> Option<i64> {
    let int = |value: i64| i32::try_from(value).ok();
    // SAFETY: a zeroed tm is a valid tm: its pointer may be null.
    let mut tm: libc::tm = unsafe { MaybeUninit::zeroed().assume_init() };
    tm.tm_year = int(fields.year.checked_sub(1900)?)?;
    tm.tm_mon = int(fields.month)?;
    tm.tm_mday = int(fields.day)?;
    tm.tm_hour = int(fields.hour)?;
    tm.tm_min = int(fields.minute)?;
    tm.tm_sec = int(fields.second)?;
    tm.tm_isdst = -1;
    moment(tm)
}

/// The moment that many years, months and days after `seconds`, by the clock of its own day: if that had daylight saving time,
/// the result is meant in it, too, as rrdtool has it.
pub fn moved(seconds: i64, years: i64, months: i64, days: i64) -> Option<i64> {
    let later = |field: i32, by: i64| i32::try_from(i64::from(field).checked_add(by)?).ok();
    let mut tm = broken_down(libc::localtime_r, seconds)?;
    tm.tm_year = later(tm.tm_year, years)?;
    tm.tm_mon = later(tm.tm_mon, months)?;
    tm.tm_mday = later(tm.tm_mday, days)?;
    moment(tm)
}

fn moment(mut tm: libc::tm) -> Option<i64> {
    // SAFETY: the pointer is valid for the call.
    let seconds = unsafe { libc::mktime(&mut tm) };
    (seconds != -1).then_some(seconds)
}

/// The C library's functions for the fields of a time.
type FieldsOf = unsafe extern "C" fn(*const libc::time_t, *mut libc::tm) -> *mut libc::tm;

fn broken_down(fields_of: FieldsOf, seconds: i64) -> Option<libc::tm> {
    let mut out = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid for the call, and the function, localtime_r or gmtime_r, writes a whole tm when it
    // returns non-null; std has no access to the local time zone.
    unsafe { (!fields_of(&seconds, out.as_mut_ptr()).is_null()).then(|| out.assume_init()) }
}

/// Bytes that a formatted time may have.
const TEXT_MAX: usize = 1024;

/// `seconds` since 1970 in the format of C's strftime. `None` for a time that has no date, and for a longer text.
pub fn format(seconds: i64, format: &[u8]) -> Option<Vec<u8>> {
    formatted(libc::localtime_r, seconds, format)
}

/// The same in UTC; only `%s` reads the fields as local time, as in C.
pub fn format_utc(seconds: i64, format: &[u8]) -> Option<Vec<u8>> {
    formatted(libc::gmtime_r, seconds, format)
}

fn formatted(fields_of: FieldsOf, seconds: i64, format: &[u8]) -> Option<Vec<u8>> {
    let tm = broken_down(fields_of, seconds)?;
    // The C library answers 0 for an empty text too, so one letter goes ahead.
    let mut wanted = vec![b'.'];
    wanted.extend(format.iter().copied().filter(|byte| *byte != 0));
    wanted.push(0);
    let mut text = vec![0u8; TEXT_MAX];
    // SAFETY: the format ends with a zero byte, and strftime writes at most the given number of bytes.
    let length = unsafe { libc::strftime(text.as_mut_ptr().cast(), TEXT_MAX, wanted.as_ptr().cast(), &tm) };
    if length == 0 {
        return None;
    }
    text.truncate(length);
    text.remove(0);
    Some(text)
}
