//! Trees of small files, as /sys has them: a folder for each instance, a file for each number. It defines where a group
//! has its instances, their names and labels, and how the text of a file becomes a number. The crate `gather` reads the
//! files; this crate opens none.
//!
//! A source of this kind is one [`KernelFile`](crate::KernelFile) whose groups have a [`Branch`]:
//!
//! ```text
//! Group { label: "zone", instance_labels: &["type"], branch: Some(Branch {
//!     folders: "sys/class/thermal/thermal_zone#",        where the instances are
//!     name: &[Part::Captured(0), Part::Value("type")],   the name, then the instance's labels
//!     ..Branch::PLAIN }), ..Group::PLAIN }.each(&[
//!     gauge("thermal.temperature", "temp", ...)])        the field is the file's path below the folder
//! ```
//!
//! - In `folders`, `#` stands for digits and `*` for any characters of one name; each is captured. A group without instances has one
//!   folder.
//! - The field of an entry is its file below the folder; `#` in it stands for the word of the instance ([`Words`]). The field of a
//!   description lists its labels ([`labels_of`]).
//! - For a file of several lines, the field gives the line and column of the number, as in [`crate::columns`]:
//!   `arcstats: hits 2 of 2`. Such a file is read once for all its numbers. `#` stands for the word of the instance here, too:
//!   where each line is an instance ([`Words::Lines`]), it is `errors: # 1 of 1`.
//! - Where the number is a count of files, `*` stands in the field: `slaves/*/device/state` ([`Form::CountOf`]).

use std::borrow::Cow;

use khz_model::Fault;

use crate::columns::Place;
use crate::entry::Entry;
use crate::number;
use crate::survey::{NONE, no_number};

/// Where a group has its instances in a tree of files.
#[derive(Clone, Copy, Debug)]
pub struct Branch {
    /// The folders of the instances, below the root. `#` stands for digits, `*` for any characters of one name.
    pub folders: &'static str,
    /// The instance's name, then the values of the group's instance labels.
    pub name: &'static [Part],
    /// Only folders where this file's value is this word, or this word, `-` and a number. If the word ends with `-`, more may follow.
    pub only: Option<(&'static str, &'static str)>,
    /// What else tells instances of one folder apart: [`Part::Word`].
    pub words: Words,
}

impl Branch {
    /// A branch without folders.
    pub const PLAIN: Branch = Branch { folders: "", name: &[], only: None, words: Words::None };
}

/// Several instances in one folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// One instance a folder.
    None,
    /// One for each word in this file.
    Of(&'static str),
    /// One for each number of the ranges in this file: `1,3-5`.
    Ranges(&'static str),
    /// One for each line of this file that begins with a name and a number, below this heading; without a heading for each line of
    /// the file.
    Lines(&'static str, &'static str),
    /// One for each file of this pattern: `ch#_ce_count`, `slaves/*`. The text that the wildcard matches is the word, and replaces
    /// `#` in the names of files.
    Files(&'static str),
}

/// What a part of an instance's name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The text that the wildcard with this number matches, from 0.
    Captured(usize),
    /// The whole name of the folder with the wildcards of this number: `nvme0` where `nvme#` is.
    Named(usize),
    /// The content of a file, without the blanks around it; empty if the file cannot be read.
    Value(&'static str),
    /// The rest of this line of a file, after the first word and this many more words:
    /// `Line("objset", "dataset_name", 1)`.
    Line(&'static str, &'static str, usize),
    /// Like `Value`; if there is no such file, the text that the wildcard with that number matches.
    ValueOr(&'static str, usize),
    /// The content of a file, with some words replaced; if there is no such file, another word.
    Edited(&'static str, &'static [(&'static str, &'static str)], &'static str),
    /// The word of [`Branch::words`].
    Word,
    /// The path of the folder on the host: `/sys/class/...`.
    Path,
    /// The number after the word in the file of [`Branch::only`]; without one, how many instances came before.
    Index,
}

/// How the text of a small file gives a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Decimal digits, perhaps after a minus sign.
    Number,
    /// The same, in thousands of the unit.
    Thousands,
    /// What stands before a colon: `4: ACTIVE`.
    BeforeColon,
    /// A speed in Gb/s as bytes a second: `40 Gb/sec (4X QDR)`.
    GigabitRate,
    /// `0x` and hexadecimal digits; all 64 bits set: the driver has no such number.
    Hexadecimal,
    /// 1 if the value is [`Branch::words`]' word, 0 if it is another one.
    IsWord,
    /// 1 wherever there is a value.
    One,
    /// Like [`Form::Thousands`], of a file that some kernels take long to answer: there it is given up.
    ThousandsIfQuick,
    /// 1 if the value is this word in capitals or small letters, 0 if it is another one.
    Is(&'static str),
    /// The number of the word that the value is.
    OneOf(&'static [(&'static str, i8)]),
    /// 0 if the value is 1, and 1 if it is 0.
    IsNot,
    /// A number that bcache has shortened for people: `20.4G`, `1.1M/sec`. The digits after the point are no decimal fraction, but
    /// a number of 10.24ths.
    Short,
    /// A number that bcachefs has rounded for people: `2.05G`. The prefixes are binary ones, and the fraction is
    /// decimal.
    Rounded,
    /// How many bytes of the devices a byte takes in the mode that the folder is called by ([`copies`]); the field's files are the
    /// devices.
    Copies,
    /// How many files of the field's pattern have one of these values. Without values: how many files there are. A field without
    /// `*` is one file: 1 if it exists, 0 if not.
    CountOf(&'static [&'static str]),
    /// How many have none of them.
    CountOfOthers(&'static [&'static str]),
}

/// What drivers say instead of a number.
const NO_NUMBER: [&[u8]; 3] = [b"N/A", b"<unknown>", b"<not supported>"];

/// Bytes a second of a Gb/s.
const BYTES_OF_GIGABIT: u64 = 125_000_000;

/// Writes what a file says as the word of a survey's text: its number, or why it has none. `word` is the word of the
/// instance, for [`Form::IsWord`].
pub fn number_word(entry: &Entry, value: &[u8], word: &[u8], into: &mut Vec<u8>) {
    let value = value.trim_ascii();
    if NO_NUMBER.iter().any(|none| value.starts_with(none)) {
        return into.extend(NONE.bytes());
    }
    match number_of(entry, value, word) {
        Ok(Some(number)) => into.extend(number.to_string().bytes()),
        Ok(None) => into.extend(NONE.bytes()),
        Err(fault) => into.extend(no_number(fault).bytes()),
    }
}

/// `None`: the driver says that it has no such number.
fn number_of(entry: &Entry, value: &[u8], word: &[u8]) -> Result<Option<i128>, Fault> {
    let number = match entry.form {
        Form::Number => signed(value)?,
        Form::Thousands | Form::ThousandsIfQuick => signed(value)? * 1_000,
        Form::BeforeColon => {
            let end = value.iter().position(|&byte| byte == b':').ok_or(Fault::Malformed)?;
            signed(value[..end].trim_ascii())?
        }
        Form::GigabitRate => i128::from(rate(value)?),
        Form::Hexadecimal => match number::hexadecimal(value.strip_prefix(b"0x").ok_or(Fault::Malformed)?)? {
            u64::MAX => return Ok(None),
            number => i128::from(number),
        },
        Form::IsWord | Form::One | Form::Is(_) if value.is_empty() => return Err(Fault::Malformed),
        Form::Is(name) => i128::from(value.eq_ignore_ascii_case(name.as_bytes())),
        Form::OneOf(words) => {
            let known = words.iter().find(|(word, _)| word.as_bytes() == value);
            i128::from(known.ok_or(Fault::Malformed)?.1)
        }
        Form::IsNot => match value {
            b"0" => 1,
            b"1" => 0,
            _ => return Err(Fault::Malformed),
        },
        Form::Short => shortened(value)?,
        Form::Rounded => rounded(value)?,
        // The caller that counts provides the number.
        Form::CountOf(_) | Form::CountOfOthers(_) | Form::Copies => signed(value)?,
        Form::One => 1,
        Form::IsWord => i128::from(value == word),
    };
    let fits = if entry.value_type == khz_model::ValueType::Signed {
        i64::try_from(number).is_ok()
    } else if number < 0 {
        return Err(Fault::Malformed);
    } else {
        u64::try_from(number).is_ok_and(|number| number.checked_mul(entry.multiplier.get()).is_some())
    };
    if fits { Ok(Some(number)) } else { Err(Fault::OutOfRange) }
}

fn signed(value: &[u8]) -> Result<i128, Fault> {
    match value.strip_prefix(b"-") {
        Some(digits) => number::digits(digits).map(|number| -i128::from(number)),
        None => number::digits(value).map(i128::from),
    }
}

/// The kernel prints one digit after the point at most: `2.5 Gb/sec (1X SDR)`.
fn rate(value: &[u8]) -> Result<u64, Fault> {
    let end = value.iter().position(u8::is_ascii_whitespace).unwrap_or(value.len());
    let tenths = match value[..end].iter().position(|&byte| byte == b'.') {
        Some(_) => number::parse(&value[..end], 1)?,
        None => number::digits(&value[..end])?.checked_mul(10).ok_or(Fault::OutOfRange)?,
    };
    tenths.checked_mul(BYTES_OF_GIGABIT / 10).ok_or(Fault::OutOfRange)
}

/// What the kernel's `bch_hprint` prints.
fn shortened(value: &[u8]) -> Result<i128, Fault> {
    let value = value.strip_suffix(b"/sec").unwrap_or(value);
    let (is_negative, value) = value.strip_prefix(b"-").map_or((false, value), |value| (true, value));
    let unit = value.last().and_then(|last| b"kMGTPEZY".iter().position(|unit| unit == last));
    let Some(unit) = unit else {
        return signed(value).map(|number| if is_negative { -number } else { number });
    };
    let digits = &value[..value.len() - 1];
    let (whole, rest) = match digits.iter().position(|&byte| byte == b'.') {
        Some(point) => (number::digits(&digits[..point])?, number::digits(&digits[point + 1..])?),
        None => (number::digits(digits)?, 0),
    };
    let unit = 1_i128 << (10 * (unit + 1));
    // 1 / 10.24 of a unit is 100 / 1,024 of it.
    let number = i128::from(whole) * unit + i128::from(rest) * 100 * (unit / 1_024);
    Ok(if is_negative { -number } else { number })
}

/// The most digits after the point: the kernel prints two.
const FRACTION_DIGITS_MAX: usize = 9;

/// What the kernel's `prt_human_readable_u64` prints.
fn rounded(value: &[u8]) -> Result<i128, Fault> {
    let unit = value.last().and_then(|last| b"kMGTPE".iter().position(|unit| unit == last));
    let Some(unit) = unit else { return number::digits(value).map(i128::from) };
    let digits = &value[..value.len() - 1];
    let (whole, fraction) = match digits.iter().position(|&byte| byte == b'.') {
        Some(point) => (&digits[..point], &digits[point + 1..]),
        None => (digits, &b"0"[..]),
    };
    if fraction.len() > FRACTION_DIGITS_MAX {
        return Err(Fault::Malformed);
    }
    let unit = 1_i128 << (10 * (unit + 1));
    let part = i128::from(number::digits(fraction)?) * unit / 10_i128.pow(fraction.len() as u32);
    Ok(i128::from(number::digits(whole)?) * unit + part)
}

/// The numbers of ranges such as `1,3-5`, as words; invalid ranges are left out.
pub fn numbers_of(ranges: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let range = |range: &[u8]| {
        let mut ends = range.trim_ascii().splitn(2, |&byte| byte == b'-').map(number::digits);
        let first = ends.next()?.ok()?;
        Some(first..=ends.next().unwrap_or(Ok(first)).ok()?)
    };
    ranges
        .split(|&byte| byte == b',')
        .filter_map(range)
        .flatten()
        .map(|number| number.to_string().into_bytes())
}

/// How many bytes a stored byte takes in a mode of Btrfs on this number of devices, in steps of the entry's decimal places; `None`:
/// the mode is unknown, or needs more devices.
pub fn copies(entry: &Entry, mode: &str, devices: u64) -> Option<u64> {
    let (parts, of_data) = match mode {
        "single" | "raid0" => (1, 1),
        "dup" | "raid1" | "raid10" => (2, 1),
        "raid1c3" => (3, 1),
        "raid1c4" => (4, 1),
        "raid5" => (devices, devices.checked_sub(1)?),
        "raid6" => (devices, devices.checked_sub(2)?),
        _ => return None,
    };
    parts.checked_mul(10_u64.pow(u32::from(entry.places)))?.checked_div(of_data)
}

/// The file of an entry, and the place in it where the number is; `None`: the number is all that the file has.
pub fn place_of(entry: &Entry) -> Option<(&'static str, Place)> {
    let (file, place) = entry.field.split_once(": ")?;
    Some((file, Place::read(place)?))
}

/// A label of a description, and its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelFile {
    /// The label.
    pub label: &'static str,
    /// The file below the folder.
    pub file: &'static str,
    /// The value is without the `0x` before it.
    pub is_bare: bool,
    /// The value where there is no file; empty: none.
    pub otherwise: &'static str,
}

/// The labels of a description and their files, as its field lists them: `board_id, firmware_version=fw_ver, port_id without 0x,
/// ana_state or unknown`.
pub fn labels_of(entry: &Entry) -> impl Iterator<Item = LabelFile> {
    let one = |text: &'static str| {
        let (text, otherwise) = text.split_once(" or ").unwrap_or((text, ""));
        let bare = text.strip_suffix(" without 0x");
        let text = bare.unwrap_or(text);
        let (label, file) = text.split_once('=').unwrap_or((text, text));
        LabelFile { label, file, is_bare: bare.is_some(), otherwise }
    };
    entry.field.split(", ").map(one)
}

/// The name of a file of an instance: `#` stands for its word, which may be any bytes.
pub fn file_of<'a>(file: &'a str, word: &[u8]) -> Cow<'a, [u8]> {
    if !file.contains('#') {
        return Cow::Borrowed(file.as_bytes());
    }
    let parts: Vec<&[u8]> = file.split('#').map(str::as_bytes).collect();
    Cow::Owned(parts.join(word))
}

/// The word for an entry in the text: the end of its name.
pub fn word_of(entry: &Entry) -> &'static str {
    entry.name.rsplit_once('.').map_or(entry.name, |(_, end)| end)
}

/// True if a name matches a part of [`Branch::folders`]. Then the texts that its wildcards match are added to `captured`. A
/// wildcard matches as few bytes as it can. A name may have any bytes; characters of UTF-8 are not cut.
pub fn fits<'a>(pattern: &str, name: &'a [u8], captured: &mut Vec<&'a [u8]>) -> bool {
    let Some(at) = pattern.find(['*', '#']) else { return pattern.as_bytes() == name };
    let Some(rest) = name.strip_prefix(&pattern.as_bytes()[..at]) else { return false };
    let is_digits = pattern[at..].starts_with('#');
    let before = captured.len();
    for (index, byte) in rest.iter().enumerate() {
        if is_digits && !byte.is_ascii_digit() {
            break;
        }
        let (middle, after) = rest.split_at(index + 1);
        if after.first().is_some_and(|next| is_continued(*next)) {
            continue;
        }
        captured.push(middle);
        if fits(&pattern[at + 1..], after, captured) {
            return true;
        }
        captured.truncate(before);
    }
    false
}

/// True if the byte goes on with a character of UTF-8.
fn is_continued(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::gauge;
    use khz_model::Unit;
    use proptest::prelude::*;

    fn word(form: Form, value: &[u8]) -> String {
        let mut text = Vec::new();
        number_word(&gauge("a.b", "b", Unit::Count, "B.").form(form), value, b"on", &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn each_form_is_read() {
        for (form, value, expected) in [
            (Form::Number, "17\n", "17"),
            (Form::Number, "-17", "malformed"),
            (Form::Number, "", "malformed"),
            (Form::Number, "1 2", "malformed"),
            (Form::Number, "18446744073709551616", "too_large"),
            (Form::Number, "N/A (no PMA)", "-"),
            (Form::Thousands, "800000", "800000000"),
            (Form::ThousandsIfQuick, "<unknown>", "-"),
            (Form::BeforeColon, "4: ACTIVE", "4"),
            (Form::BeforeColon, "4", "malformed"),
            (Form::GigabitRate, "40 Gb/sec (4X QDR)", "5000000000"),
            (Form::GigabitRate, "2.5 Gb/sec (1X SDR)", "312500000"),
            (Form::GigabitRate, "fast", "malformed"),
            (Form::Hexadecimal, "0x13", "19"),
            (Form::Hexadecimal, "0xffffffffffffffff", "-"),
            (Form::Hexadecimal, "13", "malformed"),
            (Form::IsWord, "on", "1"),
            (Form::IsWord, "off", "0"),
            (Form::IsWord, "", "malformed"),
            (Form::One, "tsc", "1"),
            (Form::Is("online"), "ONLINE", "1"),
            (Form::Is("online"), "DEGRADED", "0"),
            (Form::Is("online"), "", "malformed"),
            (Form::OneOf(&[("off", 0), ("on", 3)]), "on", "3"),
            (Form::OneOf(&[("off", 0), ("on", 3)]), "o", "malformed"),
            (Form::IsNot, "0", "1"),
            (Form::IsNot, "1", "0"),
            (Form::IsNot, "2", "malformed"),
            (Form::Short, "512", "512"),
            (Form::Short, "20.4G", "21894266880"),
            (Form::Rounded, "720", "720"),
            (Form::Rounded, "2.05G", "2201170739"),
            (Form::Rounded, "115k", "117760"),
            (Form::Rounded, "16.0E", "too_large"),
            (Form::Rounded, "1.G", "malformed"),
            (Form::Rounded, ".1G", "malformed"),
            (Form::Rounded, "1.0000000001G", "malformed"),
            (Form::Rounded, "G", "malformed"),
            (Form::Rounded, "-1k", "malformed"),
            (Form::Short, "1.1M/sec", "1150976"),
            (Form::Short, "-1k", "malformed"),
            (Form::Short, ".k", "malformed"),
            (Form::Short, "k", "malformed"),
            (Form::Short, "9999999999999Y", "too_large"),
        ] {
            assert_eq!(word(form, value.as_bytes()), expected, "{form:?} {value}");
        }
        let mut text = Vec::new();
        number_word(&gauge("a.b", "b", Unit::Count, "B.").signed(), b"-17", b"", &mut text);
        assert_eq!(text, b"-17");
        let mut text = Vec::new();
        let entry = gauge("a.b", "b", Unit::Count, "B.").signed().form(Form::Short);
        number_word(&entry, b"-427.5k/sec", b"", &mut text);
        assert_eq!(text, b"-437748");
    }

    #[test]
    fn wildcards_stand_for_a_part_of_a_name() {
        let fits = |pattern: &str, name: &'static str| {
            let mut captured = Vec::new();
            let is_fit = fits(pattern, name.as_bytes(), &mut captured);
            is_fit.then(|| String::from_utf8(captured.join(&b","[..])).unwrap())
        };
        for (pattern, name, expected) in [
            ("thermal_zone#", "thermal_zone12", Some("12")),
            ("thermal_zone#", "thermal_zone", None),
            ("thermal_zone#", "thermal_zone1x", None),
            ("*", "mlx5_0", Some("mlx5_0")),
            ("ports", "ports", Some("")),
            ("ports", "port", None),
            ("cpu#", "cpufreq", None),
            ("nvme*n#", "nvme0n12", Some("0,12")),
            ("nvme*n#", "nvme0c1n2", Some("0c1,2")),
            ("nvme*n#", "nvme0", None),
            ("*", "", None),
            ("**", "\u{e4}x", Some("\u{e4},x")),
        ] {
            assert_eq!(fits(pattern, name).as_deref(), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn wildcards_and_words_stand_for_any_bytes() {
        for (pattern, name, expected) in [
            ("*", &b"\xff"[..], Some(&b"\xff"[..])),
            ("a*b", b"a\xff\x80b", Some(b"\xff\x80")),
            ("a*b", b"a\xffc", None),
            ("a#", b"a\xff", None),
        ] {
            let mut captured = Vec::new();
            let found = fits(pattern, name, &mut captured).then(|| captured.concat());
            assert_eq!(found.as_deref(), expected, "{pattern} {name:?}");
        }
        assert_eq!(&*file_of("a#/b#", b"\xff"), b"a\xff/b\xff");
        assert_eq!(&*file_of("a", b"\xff"), b"a");
    }

    #[test]
    fn a_description_lists_its_labels_and_files() {
        let field = "board_id, firmware_version=fw_ver, port_id without 0x, ana_state or unknown";
        let entry = crate::entry::info("a.b", field, "node_a", "B.");
        let of = |label, file, is_bare, otherwise| LabelFile { label, file, is_bare, otherwise };
        let expected = [
            of("board_id", "board_id", false, ""),
            of("firmware_version", "fw_ver", false, ""),
            of("port_id", "port_id", true, ""),
            of("ana_state", "ana_state", false, "unknown"),
        ];
        assert!(labels_of(&entry).eq(expected));
    }

    #[test]
    fn ranges_are_numbers() {
        let words = |text: &str| {
            let words = numbers_of(text.as_bytes()).take(5).map(|word| String::from_utf8(word).unwrap());
            words.collect::<Vec<_>>().join(" ")
        };
        for (text, expected) in [
            ("1,3-5,9", "1 3 4 5 9"),
            ("", ""),
            ("0", "0"),
            ("5-3", ""),
            ("x,2,3-,4", "2 4"),
            ("0-18446744073709551615", "0 1 2 3 4"),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn each_mode_takes_its_bytes() {
        let entry = gauge("a.b", "b", Unit::Count, "B.").steps(3);
        for (mode, devices, expected) in [
            ("single", 1, Some(1_000)),
            ("raid1", 2, Some(2_000)),
            ("raid1c4", 5, Some(4_000)),
            ("raid5", 4, Some(1_333)),
            ("raid6", 4, Some(2_000)),
            ("raid5", 1, None),
            ("raid6", 1, None),
            ("raid6", 2, None),
            ("raid5", u64::MAX, None),
            ("bytes_used", 1, None),
        ] {
            assert_eq!(copies(&entry, mode, devices), expected, "{mode} {devices}");
        }
    }

    const FORMS: [Form; 14] = [
        Form::OneOf(&[("x", 1)]),
        Form::Rounded,
        Form::Is("x"),
        Form::IsNot,
        Form::Short,
        Form::CountOf(&[]),
        Form::One,
        Form::Number,
        Form::Thousands,
        Form::BeforeColon,
        Form::GigabitRate,
        Form::Hexadecimal,
        Form::IsWord,
        Form::ThousandsIfQuick,
    ];

    proptest! {
        #[test]
        fn any_bytes_give_a_number_or_a_reason(form in 0..FORMS.len(), value: Vec<u8>) {
            let word = word(FORMS[form], &value);
            let is_known = ["-", "malformed", "too_large"].contains(&word.as_str());
            prop_assert!(is_known || word.parse::<u64>().is_ok(), "{}", word);
        }

        #[test]
        fn nearly_numbers_give_the_number_or_a_reason(form in 0..FORMS.len(), value in "[0-9a-fx:. -]{0,24}") {
            let word = word(FORMS[form], value.as_bytes());
            let is_known = ["-", "malformed", "too_large"].contains(&word.as_str());
            prop_assert!(is_known || word.parse::<u64>().is_ok(), "{}", word);
            if let (Form::Number, Ok(number)) = (FORMS[form], value.trim().parse::<u64>()) {
                prop_assert_eq!(word, number.to_string());
            }
        }
    }
}
