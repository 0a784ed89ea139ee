//! `/etc/os-release`: the name and version of the distribution, as shell variables (os-release(5)), and until when it is supported.

use std::collections::BTreeMap;

use khz_model::calendar::Civil;
use khz_model::instance::kernel_text;
use khz_model::{Instance, Labels, Unit};

use crate::description::{describe, shortened, split};
use crate::entry::{Entry, gauge, info};
use crate::kernel_file::{Group, KernelFile, Pieces};
use crate::number;
use crate::sink::Sink;

/// The file.
pub static FILE: KernelFile = KernelFile {
    name: "os",
    path: "etc/os-release",
    pieces: Pieces::Whole,
    only_base: false,
    scalars: SCALARS,
    groups: GROUPS,
    parse,
};

// The file is on a disk, for which the gather thread must not wait. So it is read once, before that thread starts.
static SCALARS: &[Entry] = &[info(
    "host.os",
    "the variables' names, in lower case",
    "node_os_info",
    "Name and version of the distribution, as they were when the agent started.",
)
.constant()];

/// Not every distribution says these.
static GROUPS: &[Group] = &[
    Group {
        label: "id",
        instance_labels: &["id_like", "name"],
        entries: &[gauge(
            "host.os_version",
            "VERSION_ID",
            Unit::Count,
            "The version of the distribution as a number: what stands before the second point.",
        )
        .steps(VERSION_PLACES)
        .constant()
        .exposed("node_os_version", &[])],
        ..Group::PLAIN
    },
    Group {
        entries: &[gauge(
            "host.os_support_end",
            "SUPPORT_END",
            Unit::Seconds,
            "The day on which the distribution's support ends, in seconds since 1970.",
        )
        .constant()
        .exposed("node_os_support_end_timestamp_seconds", &[])],
        ..Group::PLAIN
    },
];

/// Digits after the point of a version; 24.04 has two.
const VERSION_PLACES: u8 = 4;

/// The groups' places.
const VERSION: usize = 0;
const SUPPORT_END: usize = 1;

/// The variables that node_exporter shows. Others are left out: a distribution may write anything into them.
const VARIABLES: [(&str, &str); 12] = [
    ("BUILD_ID", "build_id"),
    ("ID", "id"),
    ("ID_LIKE", "id_like"),
    ("IMAGE_ID", "image_id"),
    ("IMAGE_VERSION", "image_version"),
    ("NAME", "name"),
    ("PRETTY_NAME", "pretty_name"),
    ("VARIANT", "variant"),
    ("VARIANT_ID", "variant_id"),
    ("VERSION", "version"),
    ("VERSION_CODENAME", "version_codename"),
    ("VERSION_ID", "version_id"),
];

fn parse(sink: &mut Sink<'_>) {
    let (mut found, mut support_end) = (BTreeMap::new(), None);
    // An administrator may have written it, without a newline at the end.
    for line in sink.text().split(|&byte| byte == b'\n') {
        let Some((name, value)) = split(line.trim_ascii()) else { continue };
        if let Some((_, label)) = VARIABLES.iter().find(|(variable, _)| *variable == name) {
            // As in a shell, the last one counts.
            found.insert(*label, unquoted(value));
        } else if name == "SUPPORT_END" {
            support_end = day(&unquoted(value));
        }
    }
    if let Some(seconds) = support_end
        && let Some(slots) = sink.whole(SUPPORT_END)
    {
        sink.field_is(slots, 0, seconds);
    }
    if let Some(version) = found.get("version_id").and_then(|text| version(text)) {
        let bytes = |label: &str| found.get(label).map_or(&[][..], Vec::as_slice);
        // The name of a distribution that does not state it (os-release(5)).
        let id = found.get("id").map_or(&b"linux"[..], Vec::as_slice);
        let instance = || {
            let labels =
                ["id_like", "name"].map(|label| (label, shortened(label, kernel_text(bytes(label)))));
            let labels = Labels::new(labels.iter().map(|(label, value)| (*label, value.as_str())));
            let instance = Instance::from_kernel(id);
            labels.map_or(instance.clone(), |labels| instance.with_labels(&labels))
        };
        // All three tell instances apart.
        let key = [id, bytes("id_like"), bytes("name")].join(&b'\n');
        if let Some(slots) = sink.instance_as(VERSION, &key, instance) {
            sink.field_is(slots, 0, version);
        }
    }
    describe(sink, found);
}

/// The part of a version before its second point, in steps of [`VERSION_PLACES`]; `None`: it begins with no number, or is too long.
fn version(text: &[u8]) -> Option<u64> {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (whole, rest) = text.split_at(digits(text));
    let fraction = rest.strip_prefix(b".").map_or(&[][..], |rest| &rest[..digits(rest)]);
    let missing = usize::from(VERSION_PLACES).checked_sub(fraction.len())?;
    let fraction = number::digits(&[fraction, &b"0".repeat(missing)].concat()).ok()?;
    number::digits(whole).ok()?.checked_mul(10_u64.pow(u32::from(VERSION_PLACES)))?.checked_add(fraction)
}

/// The beginning of a day, such as 2028-06-30, in seconds since 1970.
fn day(text: &[u8]) -> Option<u64> {
    let mut parts = text.split(|&byte| byte == b'-').map(|part| number::digits(part).ok());
    let mut part = || parts.next().flatten().and_then(|part| u32::try_from(part).ok());
    let (year, month, day) = (part()?, part()?, part()?);
    let civil = Civil { year: year.into(), month, day, hour: 0, minute: 0, second: 0 };
    if parts.next().is_some() {
        return None;
    }
    u64::try_from(civil.as_utc()?).ok()
}

/// A shell word without its quotes. Inside double quotes and outside any, a backslash stands before a character that
/// would have a meaning.
fn unquoted(word: &[u8]) -> Vec<u8> {
    let inner = |quote: u8| word.strip_prefix(&[quote])?.strip_suffix(&[quote]);
    if let Some(inner) = inner(b'\'') {
        return inner.to_vec();
    }
    let mut bytes = inner(b'"').unwrap_or(word).iter();
    let mut text = Vec::with_capacity(word.len());
    while let Some(&byte) = bytes.next() {
        text.extend(if byte == b'\\' { bytes.next() } else { Some(&byte) });
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::Parser;
    use crate::description::tests::read;

    #[test]
    fn quotes_comments_and_unknown_variables_are_not_shown() {
        let text = "# a comment\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME='Debian'\nID=debian\n\n\
                    VERSION=\"1 \\\"two\\\" \\$3\"\nHOME_URL=\"https://www.debian.org/\"\nID_LIKE=\"\"\nno variable\n";
        assert_eq!(
            read(&super::FILE, text),
            "id=debian,name=Debian,pretty_name=Debian%20GNU%2FLinux%2012%20(bookworm),version=1%20%22two%22%20$3"
        );
    }

    /// The version, the labels with it, and the end of the support.
    fn version_of(text: &str) -> (Option<String>, Option<u64>) {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(text.as_bytes());
        assert_eq!(parser.faults(), []);
        let slot = parser.schema().series().iter().position(|series| series.metric.name == "host.os_version");
        let version = slot.map(|slot| {
            let series = &parser.schema().series()[slot];
            let value = series.metric.format().value(parser.reading(slot).unwrap()).unwrap();
            format!("{series} {value}")
        });
        let support_end = parser.schema().slot("host.os_support_end", None);
        (version, support_end.and_then(|slot| parser.reading(slot as usize).unwrap().value()))
    }

    #[test]
    fn a_version_is_what_stands_before_its_second_point() {
        let of = |version: &str| version_of(&format!("ID=alpine\nVERSION_ID={version}\nNAME=A\n")).0;
        for (version, expected) in [
            ("12", Some("12.0000")),
            ("\"24.04\"", Some("24.0400")),
            ("3.19.1", Some("3.1900")),
            ("9.", Some("9.0000")),
            ("20260101-beta", Some("20260101.0000")),
            ("rolling", None),
            (".5", None),
            ("1.12345", None),
            ("99999999999999999999", None),
            ("9999999999999999", None),
        ] {
            let found = of(version);
            assert_eq!(found.as_deref().and_then(|text| text.rsplit(' ').next()), expected, "{found:?}");
        }
        let (found, _) = version_of("NAME=\"A B\"\nVERSION_ID=1\nID_LIKE=\"rhel fedora\"\n");
        assert_eq!(found.unwrap(), "host.os_version[linux,id_like=rhel%20fedora,name=A%20B] 1.0000");
    }

    #[test]
    fn the_end_of_the_support_is_a_day() {
        let of = |day: &str| version_of(&format!("ID=a\nSUPPORT_END={day}\n")).1;
        assert_eq!((of("2028-06-30"), of("1970-01-01")), (Some(1_845_936_000), Some(0)));
        for day in
            ["", "2028", "2028-06-31", "2028-6-3-1", "-1-1-1", "1969-12-31", "99999-01-01", "2028-06-x"]
        {
            assert_eq!(of(day), None, "{day}");
        }
    }

    #[test]
    fn the_last_of_two_counts_and_half_a_quote_stays() {
        assert_eq!(read(&super::FILE, "ID=a\nID=\"b\nNAME=\"\n  VERSION=c\\"), "id=%22b,name=%22,version=c");
    }
}
