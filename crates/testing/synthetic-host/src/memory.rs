//! `/proc/meminfo` and `/proc/vmstat` of a made-up host: each line has a name and a number. Some names are not in the
//! catalogue.

use std::fmt::Write;

use crate::{KernelFile, Noise, Truth};

/// The lines of meminfo: name, metric, and whether the kernel prints kB after the number.
const MEMINFO: &[(&str, &str, bool)] = &[
    ("MemTotal", "mem.total", true),
    ("MemFree", "mem.free", true),
    ("MemAvailable", "mem.available", true),
    ("Buffers", "mem.buffers", true),
    ("Cached", "mem.cached", true),
    ("SwapCached", "mem.swap_cached", true),
    ("Active", "mem.active", true),
    ("Inactive", "mem.inactive", true),
    ("Active(anon)", "mem.active_anon", true),
    ("Inactive(anon)", "mem.inactive_anon", true),
    ("Active(file)", "mem.active_file", true),
    ("Inactive(file)", "mem.inactive_file", true),
    ("Unevictable", "mem.unevictable", true),
    ("Mlocked", "mem.locked", true),
    ("SwapTotal", "mem.swap_total", true),
    ("SwapFree", "mem.swap_free", true),
    ("Zswap", "mem.zswap", true),
    ("Zswapped", "mem.zswapped", true),
    ("Dirty", "mem.dirty", true),
    ("Writeback", "mem.writeback", true),
    ("AnonPages", "mem.anon_pages", true),
    ("Mapped", "mem.mapped", true),
    ("Shmem", "mem.shared", true),
    ("KReclaimable", "mem.reclaimable", true),
    ("Slab", "mem.slab", true),
    ("SReclaimable", "mem.slab_reclaimable", true),
    ("SUnreclaim", "mem.slab_unreclaimable", true),
    ("KernelStack", "mem.kernel_stack", true),
    ("PageTables", "mem.page_tables", true),
    ("SecPageTables", "mem.secondary_page_tables", true),
    ("NFS_Unstable", "mem.nfs_unstable", true),
    ("Bounce", "mem.bounce", true),
    ("WritebackTmp", "mem.writeback_tmp", true),
    ("CommitLimit", "mem.commit_limit", true),
    ("Committed_AS", "mem.committed", true),
    ("VmallocTotal", "mem.vmalloc_total", true),
    ("VmallocUsed", "mem.vmalloc_used", true),
    ("VmallocChunk", "mem.vmalloc_chunk", true),
    ("Percpu", "mem.percpu", true),
    ("AnonHugePages", "mem.anon_huge_pages", true),
    ("ShmemHugePages", "mem.shared_huge_pages", true),
    ("ShmemPmdMapped", "mem.shared_pmd_mapped", true),
    ("FileHugePages", "mem.file_huge_pages", true),
    ("FilePmdMapped", "mem.file_pmd_mapped", true),
    ("Balloon", "mem.balloon", true),
    ("HugePages_Total", "mem.huge_pages_total", false),
    ("HugePages_Free", "mem.huge_pages_free", false),
    ("HugePages_Rsvd", "mem.huge_pages_reserved", false),
    ("HugePages_Surp", "mem.huge_pages_surplus", false),
    ("Hugepagesize", "mem.huge_page_size", true),
    ("Hugetlb", "mem.huge_pages", true),
    ("DirectMap4k", "mem.direct_map_4k", true),
    ("DirectMap2M", "mem.direct_map_2m", true),
    ("DirectMap1G", "mem.direct_map_1g", true),
];

/// A line with a name that is not in the catalogue follows one in this many of the lines above.
const STRANGER_EVERY: usize = 9;

/// The lines of vmstat. Those without a metric are not in the catalogue.
const VMSTAT: &[(&str, Option<&str>)] = &[
    ("nr_free_pages_blocks", None),
    ("nr_zone_active_file", None),
    ("nr_mlock", None),
    ("numa_hit", Some("vm.numa_hits")),
    ("numa_miss", Some("vm.numa_misses")),
    ("numa_foreign", Some("vm.numa_foreign")),
    ("nr_inactive_anon", None),
    ("nr_anon_pages", None),
    ("nr_file_pages", None),
    ("nr_shmem", None),
    ("nr_file_hugepages", None),
    ("nr_vmscan_write", None),
    ("nr_dirtied", Some("vm.pages_dirtied")),
    ("nr_written", Some("vm.pages_written")),
    ("nr_throttled_written", None),
    ("nr_kernel_stack", None),
    ("nr_iommu_pages", None),
    ("nr_hugetlb", None),
    ("nr_balloon_pages", None),
    ("nr_memmap_pages", None),
    ("pgpgin", Some("vm.page_in_bytes")),
    ("pgpgout", Some("vm.page_out_bytes")),
    ("pswpin", Some("vm.swap_in_pages")),
    ("pswpout", Some("vm.swap_out_pages")),
    ("pgfree", Some("vm.pages_freed")),
    ("pgactivate", Some("vm.pages_activated")),
    ("pgdeactivate", Some("vm.pages_deactivated")),
    ("pgfault", Some("vm.page_faults")),
    ("pgmajfault", Some("vm.major_page_faults")),
    ("pglazyfreed", None),
    ("pgreuse", None),
    ("pgsteal_kswapd", Some("vm.pages_stolen_kswapd")),
    ("pgsteal_direct", Some("vm.pages_stolen_direct")),
    ("pgscan_kswapd", Some("vm.pages_scanned_kswapd")),
    ("pgscan_direct", Some("vm.pages_scanned_direct")),
    ("pgscan_anon", None),
    ("kswapd_inodesteal", None),
    ("oom_kill", Some("vm.oom_kills")),
    ("numa_huge_pte_updates", None),
    ("numa_hint_faults", None),
    ("numa_pages_migrated", Some("vm.numa_migrated")),
    ("thp_migration_fail", None),
    ("thp_migration_split", None),
    ("compact_stall", Some("vm.compact_stalls")),
    ("compact_fail", None),
    ("compact_daemon_wake", None),
    ("thp_fault_alloc", Some("vm.huge_page_faults")),
    ("thp_fault_fallback", Some("vm.huge_page_fallbacks")),
    ("thp_file_fallback", None),
    ("thp_underused_split_page", None),
    ("thp_split_pmd", None),
    ("thp_split_pud", None),
    ("thp_zero_page_alloc", None),
    ("balloon_inflate", None),
    ("balloon_deflate", None),
    ("cow_ksm", None),
    ("zswpwb", None),
];

/// The counters in KiB.
const KIB: [&str; 2] = ["pgpgin", "pgpgout"];

/// A made-up `/proc/meminfo`.
#[derive(Clone, Debug)]
pub struct Meminfo {
    values: Vec<u64>,
    strangers: u64,
}

impl Meminfo {
    pub(crate) fn new(noise: &mut Noise) -> Self {
        let mut meminfo = Meminfo { values: vec![0; MEMINFO.len()], strangers: 0 };
        meminfo.advance(noise);
        meminfo
    }
}

impl KernelFile for Meminfo {
    fn path(&self) -> &'static str {
        "proc/meminfo"
    }

    fn advance(&mut self, noise: &mut Noise) {
        for value in &mut self.values {
            // Half of them stay, some change a little, few jump: 2^44 KiB are 16 PiB.
            *value = match noise.below(8) {
                0 => noise.counter(44),
                1..4 => (*value + noise.below(64)).saturating_sub(noise.below(64)),
                _ => *value,
            };
        }
        self.strangers = noise.counter(30);
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (line, ((name, _, is_kib), value)) in MEMINFO.iter().zip(&self.values).enumerate() {
            // Name and colon take 15 columns; the number ends in column 24, with or without a unit.
            let _ = write!(text, "{:<15} {value:>8}", format!("{name}:"));
            text.push_str(if *is_kib { " kB\n" } else { "\n" });
            if line % STRANGER_EVERY == 0 {
                let _ = writeln!(text, "{:<15} {:>8} kB", format!("Stranger{line}:"), self.strangers);
            }
        }
        text
    }

    fn truth(&self) -> Vec<Truth> {
        let truth = |(&(_, metric, is_kib), &value): (&(_, _, _), &u64)| Truth {
            metric,
            instance: None,
            value: if is_kib { value * 1_024 } else { value },
        };
        MEMINFO.iter().zip(&self.values).map(truth).collect()
    }
}

/// A made-up `/proc/vmstat`.
#[derive(Clone, Debug)]
pub struct Vmstat {
    values: Vec<u64>,
}

impl Vmstat {
    pub(crate) fn new(noise: &mut Noise) -> Self {
        Vmstat { values: VMSTAT.iter().map(|_| noise.counter(50)).collect() }
    }
}

impl KernelFile for Vmstat {
    fn path(&self) -> &'static str {
        "proc/vmstat"
    }

    fn advance(&mut self, noise: &mut Noise) {
        self.values.iter_mut().for_each(|value| *value += noise.growth());
    }

    fn text(&self) -> String {
        VMSTAT.iter().zip(&self.values).map(|((name, _), value)| format!("{name} {value}\n")).collect()
    }

    fn truth(&self) -> Vec<Truth> {
        let truth = |(&(name, metric), &value): (&(&str, Option<&'static str>), &u64)| {
            let step = if KIB.contains(&name) { 1_024 } else { 1 };
            metric.map(|metric| Truth { metric, instance: None, value: value * step })
        };
        VMSTAT.iter().zip(&self.values).filter_map(truth).collect()
    }
}
