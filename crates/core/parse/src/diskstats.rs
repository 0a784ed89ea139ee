//! `/proc/diskstats`: up to 17 counters for each disk and partition, in a fixed order; later kernels append
//! more. Kernel documentation: Documentation/admin-guide/iostats.rst. A sector is 512 bytes here, whatever
//! the disk uses.

use std::ops::Range;

use khz_model::{Fault, Unit};

use crate::entry::{Entry, counter, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces};
use crate::sink::{InstanceSlots, Sink};
use crate::text::{Words, words};

/// The file. A record is a disk with all of its partitions. A large one may not fit into the rest of a page
/// that already holds smaller disks, so free room at the end of a piece does not mean that the file ends
/// there.
pub static FILE: KernelFile = KernelFile {
    name: "diskstats",
    path: "proc/diskstats",
    pieces: Pieces::Records { longest: PARTITIONS * LINE },
    only_base: false,
    scalars: &[],
    groups: &[Group { label: "device", entries: PER_DISK, total_of: &[READS, WRITES], ..Group::PLAIN }],
    parse,
};

/// DISK_MAX_PARTS in block/genhd.c, plus one for the disk itself.
const PARTITIONS: usize = 257;

/// Two device numbers, a name of at most 32 bytes, 17 numbers of 20 digits.
const LINE: usize = 24 + 33 + 17 * 21;

static PER_DISK: &[Entry] = &[
    counter("disk.reads", "1 reads completed", Unit::Count, "Reads completed.")
        .exposed("node_disk_reads_completed_total", &[]),
    counter(
        "disk.reads_merged",
        "2 reads merged",
        Unit::Count,
        "Reads merged with a neighbour before they were sent.",
    )
    .exposed("node_disk_reads_merged_total", &[]),
    counter("disk.read_bytes", "3 sectors read", Unit::Bytes, "Bytes read.")
        .times(512)
        .exposed("node_disk_read_bytes_total", &[]),
    counter("disk.read_time", "4 milliseconds reading", Unit::Seconds, "Time all reads took, added up.")
        .steps(3)
        .exposed("node_disk_read_time_seconds_total", &[]),
    counter("disk.writes", "5 writes completed", Unit::Count, "Writes completed.")
        .exposed("node_disk_writes_completed_total", &[]),
    counter(
        "disk.writes_merged",
        "6 writes merged",
        Unit::Count,
        "Writes merged with a neighbour before they were sent.",
    )
    .exposed("node_disk_writes_merged_total", &[]),
    counter("disk.written_bytes", "7 sectors written", Unit::Bytes, "Bytes written.")
        .times(512)
        .exposed("node_disk_written_bytes_total", &[]),
    counter("disk.write_time", "8 milliseconds writing", Unit::Seconds, "Time all writes took, added up.")
        .steps(3)
        .exposed("node_disk_write_time_seconds_total", &[]),
    gauge("disk.io_now", "9 I/Os in progress", Unit::Count, "Requests that are under way.")
        .exposed("node_disk_io_now", &[]),
    counter(
        "disk.io_time",
        "10 milliseconds doing I/O",
        Unit::Seconds,
        "Time with at least one request under way.",
    )
    .steps(3)
    .exposed("node_disk_io_time_seconds_total", &[]),
    counter(
        "disk.io_time_weighted",
        "11 weighted milliseconds",
        Unit::Seconds,
        "Time with requests under way, times their number.",
    )
    .steps(3)
    .exposed("node_disk_io_time_weighted_seconds_total", &[]),
    counter("disk.discards", "12 discards completed", Unit::Count, "Discards completed.")
        .exposed("node_disk_discards_completed_total", &[]),
    counter("disk.discards_merged", "13 discards merged", Unit::Count, "Discards merged with a neighbour.")
        .exposed("node_disk_discards_merged_total", &[]),
    counter("disk.discarded_bytes", "14 sectors discarded", Unit::Bytes, "Bytes discarded.")
        .times(512)
        .divided(512)
        .exposed("node_disk_discarded_sectors_total", &[]),
    counter(
        "disk.discard_time",
        "15 milliseconds discarding",
        Unit::Seconds,
        "Time all discards took, added up.",
    )
    .steps(3)
    .exposed("node_disk_discard_time_seconds_total", &[]),
    counter("disk.flushes", "16 flushes completed", Unit::Count, "Cache flushes completed.")
        .exposed("node_disk_flush_requests_total", &[]),
    counter("disk.flush_time", "17 milliseconds flushing", Unit::Seconds, "Time all flushes took, added up.")
        .steps(3)
        .exposed("node_disk_flush_requests_time_seconds_total", &[]),
    counter("disk.ios", "1 + 5", Unit::Count, "Reads and writes completed, as kernel 2.4 counted them.")
        .exposed("khz_disk_ios_total", &[]),
];

const READS: usize = 0;
const READ_BYTES: usize = 2;
const WRITES: usize = 4;
const WRITTEN_BYTES: usize = 6;
/// Counters that the kernel prints; the last entry is their sum.
const PRINTED: usize = 17;

/// Before Linux 2.6.25 a partition had only four numbers: reads, sectors read, writes, sectors written.
const OLD_PARTITION: [usize; 4] = [READS, READ_BYTES, WRITES, WRITTEN_BYTES];

fn parse(sink: &mut Sink<'_>) {
    // An empty file is correct: the node has no disks.
    if sink.text().is_empty() {
        return;
    }
    sink.lines(|sink, line| {
        let mut words = words(sink.text(), line);
        let (Some(_major), Some(_minor), Some(name)) = (words.next(), words.next(), words.next()) else {
            return sink.note(String::from("disk"), "the line has no name");
        };
        let Some(disk) = sink.instance(0, &sink.text()[name]) else { return };
        match words.clone().count() {
            4 => old_partition(sink, disk, words),
            // Discards came with Linux 4.18 and flushes with 5.5; older kernels have them Absent. Later
            // kernels append.
            11 | 15 | PRINTED.. => counters(sink, disk, words),
            // Which number is missing cannot be known: every number might belong to its neighbour's field.
            _ => (0..PRINTED).for_each(|index| {
                sink.fail_field(disk, index, Fault::Malformed, "no kernel prints that many numbers");
            }),
        }
    });
}

fn counters(sink: &mut Sink<'_>, disk: InstanceSlots, mut words: Words<'_>) {
    for index in 0..PRINTED {
        let Some(word) = words.next() else { return };
        sink.field(disk, index, word);
    }
    sink.ignore(words.rest());
}

fn old_partition(sink: &mut Sink<'_>, disk: InstanceSlots, words: Words<'_>) {
    let fields: Vec<Range<usize>> = words.collect();
    for (&index, word) in OLD_PARTITION.iter().zip(fields) {
        sink.field(disk, index, word);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Absence, Fault, Instance, Reading};

    fn read(text: &str) -> Parser {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(text.as_bytes());
        parser
    }

    fn get(parser: &Parser, metric: &str, disk: &str) -> Reading {
        let slot = parser.schema().slot(metric, Some(&Instance::from_kernel(disk.as_bytes()))).unwrap();
        parser.reading(slot as usize).unwrap()
    }

    #[test]
    fn a_sum_beyond_64_bits_is_failed_until_it_fits_again() {
        let text =
            |reads: u64| TEXT.replace("84637", &reads.to_string()).replace("31873", &u64::MAX.to_string());
        let ios = |parser: &Parser| get(parser, "disk.ios", "vda");
        let beyond = Reading::Failed(Fault::OutOfRange);
        let mut parser = read(&text(0));
        assert_eq!(ios(&parser), Reading::Present(u64::MAX));
        for (reads, expected) in [(1, beyond), (9, beyond), (0, Reading::Present(u64::MAX)), (7, beyond)] {
            parser.advance_with(text(reads).as_bytes());
            assert_eq!(ios(&parser), expected, "{reads}");
            assert_eq!(get(&parser, "disk.reads", "vda"), Reading::Present(reads));
            assert_eq!(parser.faults().is_empty(), expected != beyond, "{reads}");
        }
        assert_eq!(ios(&read(&text(u64::MAX))), beyond);
    }

    const TEXT: &str = " 254       0 vda 84637 12046 6612898 16812 31873 20595 4550456 4586 0 8660 24700 9978 7 836336 3237 4257 63\n";

    #[test]
    fn seventeen_counters_and_their_sum() {
        let parser = read(TEXT);
        assert_eq!(get(&parser, "disk.reads", "vda"), Reading::Present(84_637));
        assert_eq!(get(&parser, "disk.read_bytes", "vda"), Reading::Present(6_612_898 * 512));
        assert_eq!(get(&parser, "disk.flush_time", "vda"), Reading::Present(63));
        assert_eq!(get(&parser, "disk.ios", "vda"), Reading::Present(84_637 + 31_873));
    }

    #[test]
    fn the_sum_follows_changes_in_place() {
        let mut parser = read(TEXT);
        assert_eq!(
            parser.advance_with(TEXT.replace("84637", "84640").replace("31873", "31883").as_bytes()),
            Outcome::InPlace
        );
        assert_eq!(get(&parser, "disk.ios", "vda"), Reading::Present(84_640 + 31_883));
    }

    #[test]
    fn an_older_kernel_prints_fewer_and_the_rest_is_absent() {
        let parser = read("   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n   8       1 sda1 100 200 300 400\n");
        assert_eq!(parser.faults(), []);
        assert_eq!(get(&parser, "disk.io_time_weighted", "sda"), Reading::Present(11));
        assert_eq!(get(&parser, "disk.discards", "sda"), Reading::Absent(Absence::NoField));
        assert_eq!(get(&parser, "disk.written_bytes", "sda1"), Reading::Present(400 * 512));
        assert_eq!(get(&parser, "disk.io_now", "sda1"), Reading::Absent(Absence::NoField));
        assert_eq!(get(&parser, "disk.ios", "sda1"), Reading::Present(400));
    }

    #[test]
    fn a_failed_part_fails_the_sum() {
        let parser = read(&TEXT.replace("84637", "8x637"));
        assert_eq!(get(&parser, "disk.ios", "vda"), Reading::Failed(Fault::Malformed));
        assert_eq!(get(&parser, "disk.writes", "vda"), Reading::Present(31_873));
    }

    #[test]
    fn a_missing_number_is_not_filled_with_the_next() {
        let parser = read(&format!("{TEXT}{}", TEXT.replace("vda 84637", "vdb")));
        assert_eq!(get(&parser, "disk.reads", "vdb"), Reading::Failed(Fault::Malformed));
        assert_eq!(get(&parser, "disk.flush_time", "vdb"), Reading::Failed(Fault::Malformed));
        assert_eq!(get(&parser, "disk.reads", "vda"), Reading::Present(84_637));
        assert_eq!(
            parser.faults()[0].to_string(),
            "line 2: disk.reads[vdb]: no kernel prints that many numbers"
        );
    }

    #[test]
    fn a_node_without_disks_is_in_order_and_one_that_lost_them_too() {
        assert_eq!(read("").faults(), []);
        let mut parser = read(TEXT);
        parser.advance_with(b"");
        assert_eq!(parser.faults(), []);
        assert_eq!(get(&parser, "disk.reads", "vda"), Reading::Absent(Absence::InstanceGone));
    }
}
