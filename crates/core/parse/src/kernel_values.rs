//! Files below `/proc/sys` with one number, or few: file handles, the random generator's entropy, tracked connections.

use khz_model::{Nanos, Unit};

use crate::entry::{Entry, gauge};
use crate::kernel_file::{KernelFile, Pieces};
use crate::sink::Sink;
use crate::text::words;

/// Open files, and how many there may be: `1009 0 9223372036854775807`.
pub static FILE_HANDLES: KernelFile = file(
    "fs/file-nr",
    "proc/sys/fs/file-nr",
    &[
        gauge("file.handles", "first number", Unit::Count, "Files that are open in all processes.")
            .exposed("node_filefd_allocated", &[]),
        gauge("file.handles_max", "third number", Unit::Count, "How many files may be open.")
            .exposed("node_filefd_maximum", &[]),
    ],
    |sink| {
        sink.lines(|sink, line| {
            let mut words = words(sink.text(), line);
            // The second number is 0 since Linux 2.6.
            match (words.next(), words.next(), words.next()) {
                (Some(open), Some(free), Some(max)) => {
                    sink.scalar(0, open);
                    sink.ignore_word(free);
                    sink.scalar(1, max);
                }
                _ => sink.note(String::from("the line"), "it has fewer than three numbers"),
            }
        });
    },
);

/// Entropy of the kernel's random generator. Since Linux 5.18 it is 256 once the generator is ready.
pub static ENTROPY: KernelFile = file(
    "random/entropy_avail",
    "proc/sys/kernel/random/entropy_avail",
    &[gauge(
        "entropy.available",
        "the number",
        Unit::Count,
        "Bits of entropy that the random generator has.",
    )
    .exposed("node_entropy_available_bits", &[])],
    number,
);

/// The size of its pool.
pub static ENTROPY_POOL: KernelFile = file(
    "random/poolsize",
    "proc/sys/kernel/random/poolsize",
    &[gauge(
        "entropy.pool_size",
        "the number",
        Unit::Count,
        "Bits of entropy that the random generator can have.",
    )
    .every(SELDOM)
    .exposed("node_entropy_pool_size_bits", &[])],
    number,
);

/// Connections that netfilter tracks. There are such files only while the module nf_conntrack is loaded.
pub static CONNTRACK: KernelFile = file(
    "netfilter/nf_conntrack_count",
    "proc/sys/net/netfilter/nf_conntrack_count",
    &[gauge("conntrack.entries", "the number", Unit::Count, "Connections that netfilter tracks.")
        .exposed("node_nf_conntrack_entries", &[])],
    number,
);

/// How many connections netfilter may track.
pub static CONNTRACK_MAX: KernelFile = file(
    "netfilter/nf_conntrack_max",
    "proc/sys/net/netfilter/nf_conntrack_max",
    &[gauge("conntrack.entries_max", "the number", Unit::Count, "How many connections netfilter may track.")
        .every(SELDOM)
        .exposed("node_nf_conntrack_entries_limit", &[])],
    number,
);

/// Settings change when somebody changes them.
const SELDOM: Nanos = Nanos::from_secs(10);

const fn file(
    name: &'static str,
    path: &'static str,
    scalars: &'static [Entry],
    parse: fn(&mut Sink<'_>),
) -> KernelFile {
    KernelFile { name, path, pieces: Pieces::Value, only_base: true, scalars, groups: &[], parse }
}

/// One number.
pub(crate) fn number(sink: &mut Sink<'_>) {
    sink.lines(|sink, line| match words(sink.text(), line).next() {
        Some(number) => sink.scalar(0, number),
        None => sink.note(String::from("a line"), "it is empty"),
    });
}

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Fault, Reading};

    #[test]
    fn file_handles_are_the_first_and_the_third_number() {
        let mut parser = Parser::new(&super::FILE_HANDLES);
        parser.advance_with(b"1009\t0\t9223372036854775807\n");
        assert_eq!((parser.faults(), parser.values()), (&[][..], &[1_009, 9_223_372_036_854_775_807][..]));
        assert_eq!(parser.advance_with(b"1010\t0\t9223372036854775807\n"), Outcome::InPlace);
        parser.advance_with(b"1009\t0\n");
        assert_eq!(parser.reading(0), Some(Reading::Failed(Fault::Malformed)));
    }

    #[test]
    fn one_number() {
        for file in [&super::ENTROPY, &super::ENTROPY_POOL, &super::CONNTRACK, &super::CONNTRACK_MAX] {
            let mut parser = Parser::new(file);
            parser.advance_with(b"256\n");
            assert_eq!((parser.faults(), parser.values()), (&[][..], &[256][..]));
            for text in ["", "x\n", "\n", "1", "1\n2\n"] {
                parser.advance_with(text.as_bytes());
                assert_eq!(parser.reading(0), Some(Reading::Failed(Fault::Malformed)), "{text:?}");
            }
        }
    }
}
