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
    let mut out = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid for the call, and localtime_r writes a whole tm when it returns
    // non-null; std has no access to the local time zone.
    let tm = unsafe {
        if libc::localtime_r(&seconds, out.as_mut_ptr()).is_null() {
            return None;
        }
        out.assume_init()
    };
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
    made(fields, WHAT_IT_IS)
}

/// The moment that many years, months and days after `seconds`, by the clock of its own day: if that had daylight saving time,
/// the result is meant in it, too, as rrdtool has it.
pub fn moved(seconds: i64, years: i64, months: i64, days: i64) -> Option<i64> {
    let (mut fields, _, _) = local(seconds)?;
    fields.year = fields.year.checked_add(years)?;
    fields.month = fields.month.checked_add(months)?;
    fields.day = fields.day.checked_add(days)?;
    made(&fields, saving(seconds)?)
}

/// mktime(3) is to find out whether a time has daylight saving time.
const WHAT_IT_IS: libc::c_int = -1;

/// 1 if a moment has daylight saving time, else 0.
fn saving(seconds: i64) -> Option<libc::c_int> {
    let mut out = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid for the call, and localtime_r writes a whole tm when it returns non-null.
    unsafe {
        let is_there = !libc::localtime_r(&seconds, out.as_mut_ptr()).is_null();
        is_there.then(|| out.assume_init().tm_isdst)
    }
}

fn made(fields: &Fields, saving: libc::c_int) -> Option<i64> {
    let int = |value: i64| i32::try_from(value).ok();
    // SAFETY: a zeroed tm is a valid tm: its pointer may be null.
    let mut tm: libc::tm = unsafe { MaybeUninit::zeroed().assume_init() };
    tm.tm_year = int(fields.year.checked_sub(1900)?)?;
    tm.tm_mon = int(fields.month)?;
    tm.tm_mday = int(fields.day)?;
    tm.tm_hour = int(fields.hour)?;
    tm.tm_min = int(fields.minute)?;
    tm.tm_sec = int(fields.second)?;
    tm.tm_isdst = saving;
    // SAFETY: the pointer is valid for the call.
    let seconds = unsafe { libc::mktime(&mut tm) };
    (seconds != -1).then_some(seconds)
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

/// What the C library has for the fields of a time.
type FieldsOf = unsafe extern "C" fn(*const libc::time_t, *mut libc::tm) -> *mut libc::tm;

fn formatted(fields_of: FieldsOf, seconds: i64, format: &[u8]) -> Option<Vec<u8>> {
    let mut tm = MaybeUninit::<libc::tm>::zeroed();
    // The C library answers 0 for an empty text too, so one letter goes ahead.
    let mut wanted = vec![b'.'];
    wanted.extend(format.iter().copied().filter(|byte| *byte != 0));
    wanted.push(0);
    let mut text = vec![0u8; TEXT_MAX];
    // SAFETY: both functions write a whole tm when they return non-null, the format ends with a zero byte, and strftime
    // writes at most the given number of bytes.
    let length = unsafe {
        if fields_of(&seconds, tm.as_mut_ptr()).is_null() {
            return None;
        }
        libc::strftime(text.as_mut_ptr().cast(), TEXT_MAX, wanted.as_ptr().cast(), tm.as_ptr())
    };
    if length == 0 {
        return None;
    }
    text.truncate(length);
    text.remove(0);
    Some(text)
}
