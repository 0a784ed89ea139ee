//! `/proc/vmstat`: each line is `name value`, about 190 of them. khz takes the values that describe the
//! work of memory management. The kernel prints one record a line, so a long file comes in pieces.

use khz_model::{Fault, Unit};

use crate::entry::{Entry, counter};
use crate::kernel_file::{KernelFile, Pieces};
use crate::sink::Sink;
use crate::text::words;

/// The file. A record is a line: a name of at most 60 bytes and a number.
pub static FILE: KernelFile = KernelFile {
    name: "vmstat",
    path: "proc/vmstat",
    pieces: Pieces::Records { longest: 96 },
    only_base: false,
    scalars: SCALARS,
    groups: &[],
    parse,
};

static SCALARS: &[Entry] = &[
    counter("vm.page_in_bytes", "pgpgin", Unit::Bytes, "Read from disks by paging (files and swap).")
        .times(1_024)
        .untyped(1_024)
        .exposed("node_vmstat_pgpgin", &[]),
    counter("vm.page_out_bytes", "pgpgout", Unit::Bytes, "Written to disks by paging (files and swap).")
        .times(1_024)
        .untyped(1_024)
        .exposed("node_vmstat_pgpgout", &[]),
    counter("vm.swap_in_pages", "pswpin", Unit::Pages, "Pages swapped in.")
        .untyped(1)
        .exposed("node_vmstat_pswpin", &[]),
    counter("vm.swap_out_pages", "pswpout", Unit::Pages, "Pages swapped out.")
        .untyped(1)
        .exposed("node_vmstat_pswpout", &[]),
    counter("vm.page_faults", "pgfault", Unit::Count, "Page faults, major ones included.")
        .untyped(1)
        .exposed("node_vmstat_pgfault", &[]),
    counter("vm.major_page_faults", "pgmajfault", Unit::Count, "Page faults that had to wait for a disk.")
        .untyped(1)
        .exposed("node_vmstat_pgmajfault", &[]),
    counter("vm.pages_freed", "pgfree", Unit::Pages, "Pages freed.")
        .untyped(1)
        .exposed("node_vmstat_pgfree", &[]),
    counter("vm.pages_activated", "pgactivate", Unit::Pages, "Pages moved to the active list.")
        .untyped(1)
        .exposed("node_vmstat_pgactivate", &[]),
    counter("vm.pages_deactivated", "pgdeactivate", Unit::Pages, "Pages moved to the inactive list.")
        .untyped(1)
        .exposed("node_vmstat_pgdeactivate", &[]),
    counter(
        "vm.pages_scanned_kswapd",
        "pgscan_kswapd",
        Unit::Pages,
        "Pages looked at by the background reclaimer.",
    )
    .untyped(1)
    .exposed("node_vmstat_pgscan_kswapd", &[]),
    counter(
        "vm.pages_scanned_direct",
        "pgscan_direct",
        Unit::Pages,
        "Pages looked at by tasks that had to reclaim memory themselves.",
    )
    .untyped(1)
    .exposed("node_vmstat_pgscan_direct", &[]),
    counter("vm.pages_stolen_kswapd", "pgsteal_kswapd", Unit::Pages, "Pages reclaimed in the background.")
        .untyped(1)
        .exposed("node_vmstat_pgsteal_kswapd", &[]),
    counter(
        "vm.pages_stolen_direct",
        "pgsteal_direct",
        Unit::Pages,
        "Pages reclaimed by tasks that waited for them.",
    )
    .untyped(1)
    .exposed("node_vmstat_pgsteal_direct", &[]),
    counter("vm.oom_kills", "oom_kill", Unit::Count, "Processes killed because memory ran out.")
        .untyped(1)
        .exposed("node_vmstat_oom_kill", &[]),
    counter("vm.numa_hits", "numa_hit", Unit::Pages, "Pages allocated on the wanted memory node.")
        .untyped(1)
        .exposed("node_vmstat_numa_hit", &[]),
    counter(
        "vm.numa_misses",
        "numa_miss",
        Unit::Pages,
        "Pages allocated on another memory node than the wanted one.",
    )
    .untyped(1)
    .exposed("node_vmstat_numa_miss", &[]),
    counter(
        "vm.numa_foreign",
        "numa_foreign",
        Unit::Pages,
        "Pages wanted on this memory node but allocated elsewhere.",
    )
    .untyped(1)
    .exposed("node_vmstat_numa_foreign", &[]),
    counter("vm.numa_migrated", "numa_pages_migrated", Unit::Pages, "Pages moved between memory nodes.")
        .untyped(1)
        .exposed("node_vmstat_numa_pages_migrated", &[]),
    counter("vm.compact_stalls", "compact_stall", Unit::Count, "Times a task waited for memory compaction.")
        .untyped(1)
        .exposed("node_vmstat_compact_stall", &[]),
    counter("vm.huge_page_faults", "thp_fault_alloc", Unit::Count, "Page faults served with a huge page.")
        .untyped(1)
        .exposed("node_vmstat_thp_fault_alloc", &[]),
    counter(
        "vm.huge_page_fallbacks",
        "thp_fault_fallback",
        Unit::Count,
        "Page faults that wanted a huge page and got small ones.",
    )
    .untyped(1)
    .exposed("node_vmstat_thp_fault_fallback", &[]),
    counter("vm.pages_dirtied", "nr_dirtied", Unit::Pages, "Pages that became dirty.")
        .untyped(1)
        .exposed("node_vmstat_nr_dirtied", &[]),
    counter("vm.pages_written", "nr_written", Unit::Pages, "Pages written back.")
        .untyped(1)
        .exposed("node_vmstat_nr_written", &[]),
];

/// Parses lines of a name and a number; other kernel files have the same form.
pub(crate) fn parse(sink: &mut Sink<'_>) {
    sink.lines(|sink, line| {
        let mut words = words(sink.text(), line);
        let Some(name) = words.next() else { return };
        let name = &sink.text()[name];
        match sink.scalars().iter().position(|entry| entry.field.as_bytes() == name) {
            Some(scalar) => match words.next() {
                Some(number) => sink.scalar(scalar, number),
                None => sink.fail_scalar(scalar, Fault::Malformed, "the line has no number"),
            },
            None => sink.ignore(words.rest()),
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Absence, Reading};

    #[test]
    fn known_lines_count_and_strangers_may_change() {
        let text = "nr_free_pages 5887\npgpgin 100\npgpgout 7\npswpin 0\nnew_in_linux_9 5\n";
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(text.as_bytes());
        assert_eq!(parser.reading(0), Some(Reading::Present(102_400)), "pgpgin is in KiB");
        assert_eq!(parser.reading(2), Some(Reading::Present(0)));
        assert_eq!(parser.reading(3), Some(Reading::Absent(Absence::NoField)));
        assert_eq!(parser.advance_with(text.replace("5887", "5799").as_bytes()), Outcome::InPlace);
        assert!(parser.changed().is_empty());
    }

    #[test]
    fn a_name_is_compared_whole() {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(b"pgpgin_more 5\nxpgpgin 6\npgpgi 7\npgpgout 8\n");
        assert_eq!(parser.reading(0), Some(Reading::Absent(Absence::NoField)));
    }
}
