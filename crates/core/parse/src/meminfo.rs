//! `/proc/meminfo`: each line is `Name:   value kB`. Names come and go with kernels and configurations. A
//! name that the kernel does not print is Absent; a name that khz does not know is skipped.

use khz_model::{Fault, Unit};

use crate::entry::{Entry, gauge};
use crate::kernel_file::{KernelFile, Pieces};
use crate::sink::Sink;
use crate::text::{split_at_mark, words};

/// The file.
pub static FILE: KernelFile = KernelFile {
    name: "meminfo",
    path: "proc/meminfo",
    pieces: Pieces::Whole,
    only_base: false,
    scalars: SCALARS,
    groups: &[],
    parse,
};

/// The kernel prints kB and means KiB.
const fn kib(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    gauge(name, field, Unit::Bytes, help).times(1_024).exposed(family, &[])
}

static SCALARS: &[Entry] = &[
    kib(
        "mem.total",
        "MemTotal",
        "node_memory_MemTotal_bytes",
        "Usable memory: physical memory less what the kernel image and firmware keep.",
    )
    .constant(),
    kib("mem.free", "MemFree", "node_memory_MemFree_bytes", "Memory that nothing uses."),
    kib(
        "mem.available",
        "MemAvailable",
        "node_memory_MemAvailable_bytes",
        "Estimate of what new programs could get without swapping.",
    ),
    kib("mem.buffers", "Buffers", "node_memory_Buffers_bytes", "Page cache of raw block devices."),
    kib("mem.cached", "Cached", "node_memory_Cached_bytes", "Page cache of files, shared memory included."),
    kib(
        "mem.swap_cached",
        "SwapCached",
        "node_memory_SwapCached_bytes",
        "Swapped-out pages that are also in memory.",
    ),
    kib("mem.active", "Active", "node_memory_Active_bytes", "Memory used recently, reclaimed last."),
    kib(
        "mem.inactive",
        "Inactive",
        "node_memory_Inactive_bytes",
        "Memory not used recently, reclaimed first.",
    ),
    kib("mem.active_anon", "Active(anon)", "node_memory_Active_anon_bytes", "Active memory of processes."),
    kib(
        "mem.inactive_anon",
        "Inactive(anon)",
        "node_memory_Inactive_anon_bytes",
        "Inactive memory of processes.",
    ),
    kib("mem.active_file", "Active(file)", "node_memory_Active_file_bytes", "Active page cache."),
    kib("mem.inactive_file", "Inactive(file)", "node_memory_Inactive_file_bytes", "Inactive page cache."),
    kib(
        "mem.unevictable",
        "Unevictable",
        "node_memory_Unevictable_bytes",
        "Memory that cannot be reclaimed.",
    ),
    kib("mem.locked", "Mlocked", "node_memory_Mlocked_bytes", "Memory locked with mlock(2)."),
    kib("mem.high_total", "HighTotal", "node_memory_HighTotal_bytes", "High memory (32-bit kernels only).")
        .constant(),
    kib("mem.high_free", "HighFree", "node_memory_HighFree_bytes", "Free high memory (32-bit kernels only)."),
    kib("mem.low_total", "LowTotal", "node_memory_LowTotal_bytes", "Low memory (32-bit kernels only).")
        .constant(),
    kib("mem.low_free", "LowFree", "node_memory_LowFree_bytes", "Free low memory (32-bit kernels only)."),
    kib("mem.swap_total", "SwapTotal", "node_memory_SwapTotal_bytes", "Swap space."),
    kib("mem.swap_free", "SwapFree", "node_memory_SwapFree_bytes", "Unused swap space."),
    kib("mem.zswap", "Zswap", "node_memory_Zswap_bytes", "Memory used by compressed swap pages."),
    kib(
        "mem.zswapped",
        "Zswapped",
        "node_memory_Zswapped_bytes",
        "Size of the pages held in zswap before compression.",
    ),
    kib("mem.dirty", "Dirty", "node_memory_Dirty_bytes", "Memory waiting to be written to disk."),
    kib("mem.writeback", "Writeback", "node_memory_Writeback_bytes", "Memory being written to disk now."),
    kib(
        "mem.anon_pages",
        "AnonPages",
        "node_memory_AnonPages_bytes",
        "Memory of processes not backed by files.",
    ),
    kib("mem.mapped", "Mapped", "node_memory_Mapped_bytes", "Files mapped into processes."),
    kib(
        "mem.shared",
        "Shmem",
        "node_memory_Shmem_bytes",
        "Shared memory and tmpfs (MemShared before Linux 2.6.32).",
    ),
    kib(
        "mem.reclaimable",
        "KReclaimable",
        "node_memory_KReclaimable_bytes",
        "Kernel memory that can be reclaimed.",
    ),
    kib("mem.slab", "Slab", "node_memory_Slab_bytes", "Kernel object caches."),
    kib(
        "mem.slab_reclaimable",
        "SReclaimable",
        "node_memory_SReclaimable_bytes",
        "Slab memory that can be reclaimed.",
    ),
    kib(
        "mem.slab_unreclaimable",
        "SUnreclaim",
        "node_memory_SUnreclaim_bytes",
        "Slab memory that cannot be reclaimed.",
    ),
    kib("mem.kernel_stack", "KernelStack", "node_memory_KernelStack_bytes", "Stacks of tasks in the kernel."),
    kib("mem.page_tables", "PageTables", "node_memory_PageTables_bytes", "Page tables of processes."),
    kib(
        "mem.secondary_page_tables",
        "SecPageTables",
        "node_memory_SecPageTables_bytes",
        "Page tables of virtual machines and IOMMUs.",
    ),
    kib(
        "mem.nfs_unstable",
        "NFS_Unstable",
        "node_memory_NFS_Unstable_bytes",
        "Sent to an NFS server but not committed; 0 since Linux 5.8.",
    ),
    kib("mem.bounce", "Bounce", "node_memory_Bounce_bytes", "Bounce buffers of block devices."),
    kib(
        "mem.writeback_tmp",
        "WritebackTmp",
        "node_memory_WritebackTmp_bytes",
        "Temporary writeback buffers of FUSE.",
    ),
    kib(
        "mem.commit_limit",
        "CommitLimit",
        "node_memory_CommitLimit_bytes",
        "Most that may be allocated under strict overcommit.",
    ),
    kib(
        "mem.committed",
        "Committed_AS",
        "node_memory_Committed_AS_bytes",
        "Memory that processes have asked for.",
    ),
    kib("mem.vmalloc_total", "VmallocTotal", "node_memory_VmallocTotal_bytes", "Address space of vmalloc.")
        .constant(),
    kib(
        "mem.vmalloc_used",
        "VmallocUsed",
        "node_memory_VmallocUsed_bytes",
        "Used part of vmalloc's address space.",
    ),
    kib(
        "mem.vmalloc_chunk",
        "VmallocChunk",
        "node_memory_VmallocChunk_bytes",
        "Largest free block of vmalloc's address space; 0 since Linux 4.4.",
    ),
    kib("mem.percpu", "Percpu", "node_memory_Percpu_bytes", "Per-CPU allocations."),
    kib(
        "mem.hardware_corrupted",
        "HardwareCorrupted",
        "node_memory_HardwareCorrupted_bytes",
        "Memory that failed and was taken out of use.",
    ),
    kib(
        "mem.anon_huge_pages",
        "AnonHugePages",
        "node_memory_AnonHugePages_bytes",
        "Transparent huge pages of processes.",
    ),
    kib(
        "mem.shared_huge_pages",
        "ShmemHugePages",
        "node_memory_ShmemHugePages_bytes",
        "Transparent huge pages of shared memory.",
    ),
    kib(
        "mem.shared_pmd_mapped",
        "ShmemPmdMapped",
        "node_memory_ShmemPmdMapped_bytes",
        "Shared memory mapped with huge pages.",
    ),
    kib(
        "mem.file_huge_pages",
        "FileHugePages",
        "node_memory_FileHugePages_bytes",
        "Page cache in huge pages.",
    ),
    kib(
        "mem.file_pmd_mapped",
        "FilePmdMapped",
        "node_memory_FilePmdMapped_bytes",
        "Page cache mapped with huge pages.",
    ),
    kib(
        "mem.cma_total",
        "CmaTotal",
        "node_memory_CmaTotal_bytes",
        "Memory reserved for contiguous allocation.",
    )
    .constant(),
    kib("mem.cma_free", "CmaFree", "node_memory_CmaFree_bytes", "Free contiguous memory."),
    kib("mem.balloon", "Balloon", "node_memory_Balloon_bytes", "Memory given back to the hypervisor."),
    kib(
        "mem.unaccepted",
        "Unaccepted",
        "node_memory_Unaccepted_bytes",
        "Memory a confidential guest has not accepted yet.",
    ),
    gauge("mem.huge_pages_total", "HugePages_Total", Unit::Count, "Size of the huge page pool.")
        .exposed("node_memory_HugePages_Total", &[]),
    gauge("mem.huge_pages_free", "HugePages_Free", Unit::Count, "Huge pages not in use.")
        .exposed("node_memory_HugePages_Free", &[]),
    gauge(
        "mem.huge_pages_reserved",
        "HugePages_Rsvd",
        Unit::Count,
        "Huge pages promised but not yet in use.",
    )
    .exposed("node_memory_HugePages_Rsvd", &[]),
    gauge("mem.huge_pages_surplus", "HugePages_Surp", Unit::Count, "Huge pages above the pool's size.")
        .exposed("node_memory_HugePages_Surp", &[]),
    kib(
        "mem.huge_page_size",
        "Hugepagesize",
        "node_memory_Hugepagesize_bytes",
        "Default size of a huge page.",
    )
    .constant(),
    kib("mem.huge_pages", "Hugetlb", "node_memory_Hugetlb_bytes", "Memory in huge pages of all sizes."),
    kib(
        "mem.direct_map_4k",
        "DirectMap4k",
        "node_memory_DirectMap4k_bytes",
        "Kernel mapping in 4 KiB pages.",
    ),
    kib(
        "mem.direct_map_2m",
        "DirectMap2M",
        "node_memory_DirectMap2M_bytes",
        "Kernel mapping in 2 MiB pages.",
    ),
    kib(
        "mem.direct_map_4m",
        "DirectMap4M",
        "node_memory_DirectMap4M_bytes",
        "Kernel mapping in 4 MiB pages.",
    ),
    kib(
        "mem.direct_map_1g",
        "DirectMap1G",
        "node_memory_DirectMap1G_bytes",
        "Kernel mapping in 1 GiB pages.",
    ),
];

/// Today's name for `MemShared` of kernel 2.4.
const RENAMED: [(&[u8], &[u8]); 1] = [(b"MemShared", b"Shmem")];

fn parse(sink: &mut Sink<'_>) {
    // The kernel prints the names in the table's order, with gaps: search from the last hit onwards first.
    let mut expected = 0;
    sink.lines(|sink, line| {
        let Some((name, rest)) = split_at_mark(sink.text(), line, b':') else {
            // Kernel 2.4 began with a table (`total: used: free: ...`); khz ignores it and any other unknown
            // line.
            return;
        };
        let mut words = words(sink.text(), rest.clone());
        match find(&sink.text()[name], expected) {
            Some(scalar) => {
                expected = scalar + 1;
                let Some(number) = words.next() else {
                    return sink.fail_scalar(scalar, Fault::Malformed, "the line has no number");
                };
                let unit = words.next().map(|word| &sink.text()[word]);
                if unit == (SCALARS[scalar].unit == Unit::Bytes).then_some(b"kB") && words.next().is_none() {
                    sink.scalar(scalar, number);
                } else {
                    sink.fail_scalar(
                        scalar,
                        Fault::Malformed,
                        "not followed by the unit that the kernel documents",
                    );
                }
            }
            None => sink.ignore(rest),
        }
    });
}

fn find(name: &[u8], expected: usize) -> Option<usize> {
    let name = RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new);
    let is = |entry: &&Entry| entry.field.as_bytes() == name;
    let after = SCALARS[expected..].iter().position(|e| is(&e)).map(|i| i + expected);
    after.or_else(|| SCALARS[..expected].iter().position(|e| is(&e)))
}

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Absence, Fault, Reading};

    fn read(text: &str) -> Parser {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(text.as_bytes());
        parser
    }

    fn get(parser: &Parser, metric: &str) -> Reading {
        parser.reading(parser.schema().slot(metric, None).unwrap() as usize).unwrap()
    }

    const TEXT: &str = "MemTotal:       24674964 kB\nMemFree:        23551020 kB\nActive(anon):     1024 kB\nHugePages_Total:       3\nNewThing:   77 kB\n";

    #[test]
    fn kilobytes_become_bytes_and_counts_stay() {
        let parser = read(TEXT);
        assert_eq!(get(&parser, "mem.total"), Reading::Present(24_674_964 * 1_024));
        assert_eq!(get(&parser, "mem.active_anon"), Reading::Present(1 << 20));
        assert_eq!(get(&parser, "mem.huge_pages_total"), Reading::Present(3));
        assert_eq!(get(&parser, "mem.high_total"), Reading::Absent(Absence::NoField));
        assert_eq!(parser.faults(), []);
    }

    #[test]
    fn lines_in_another_order_and_strangers_make_no_difference() {
        let reordered =
            "NewThing:   77 kB\nMemFree:        23551020 kB\nMemTotal:       24674964 kB\nOther text\n";
        assert_eq!(get(&read(reordered), "mem.total"), get(&read(TEXT), "mem.total"));
        assert_eq!(get(&read(reordered), "mem.free"), get(&read(TEXT), "mem.free"));
    }

    #[test]
    fn a_stranger_may_change_without_a_full_parse() {
        let mut parser = read(TEXT);
        assert_eq!(parser.advance_with(TEXT.replace("77", "78").as_bytes()), Outcome::InPlace);
        assert!(parser.changed().is_empty());
    }

    #[test]
    fn the_table_of_kernel_2_4_is_passed_over_and_memshared_is_shared() {
        let text = "        total:    used:    free:  shared: buffers:  cached:\nMem:  528457728 417628160 110829568        0 19607552 217260032\n\
            Swap: 271392768        0 271392768\nMemTotal:       516072 kB\nMemFree:        108232 kB\nMemShared:           4 kB\nHighTotal:           0 kB\n";
        let parser = read(text);
        assert!(parser.faults().is_empty(), "{:?}", parser.faults());
        assert_eq!(get(&parser, "mem.total"), Reading::Present(516_072 * 1_024));
        assert_eq!(get(&parser, "mem.shared"), Reading::Present(4 * 1_024));
        assert_eq!(get(&parser, "mem.high_total"), Reading::Present(0));
    }

    #[test]
    fn another_unit_is_failed_not_misread() {
        let parser = read("MemTotal:  24 MB\nMemFree: 7\nHugePages_Free: 5 kB\nCached: 1 kB x\nBuffers:\n");
        for metric in ["mem.total", "mem.free", "mem.huge_pages_free", "mem.cached", "mem.buffers"] {
            assert_eq!(get(&parser, metric), Reading::Failed(Fault::Malformed), "{metric}");
        }
    }

    #[test]
    fn a_text_cut_off_fails_what_may_have_followed() {
        let parser = read("MemTotal:  24674964 kB\nMemFree:  2355");
        assert_eq!(get(&parser, "mem.total"), Reading::Present(24_674_964 * 1_024));
        assert_eq!(get(&parser, "mem.free"), Reading::Failed(Fault::Malformed));
        assert_eq!(get(&parser, "mem.cached"), Reading::Failed(Fault::Malformed));
    }

    #[test]
    fn kilobytes_beyond_64_bits_of_bytes_are_out_of_range() {
        assert_eq!(
            get(&read("MemTotal: 18446744073709551615 kB\n"), "mem.total"),
            Reading::Failed(Fault::OutOfRange)
        );
    }
}
