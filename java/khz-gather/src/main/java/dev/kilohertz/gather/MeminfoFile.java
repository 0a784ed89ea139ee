package dev.kilohertz.gather;

import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * {@code /proc/meminfo}: each line is {@code Name:   value kB}. Names come and go with kernels and configurations. A name that the
 * kernel does not print is absent; a name that khz does not know is skipped.
 */
final class MeminfoFile extends KernelFile {
    private static final List<Entry> ENTRIES = List.of(
            kib("mem.total", "MemTotal"),
            kib("mem.free", "MemFree"),
            kib("mem.available", "MemAvailable"),
            kib("mem.buffers", "Buffers"),
            kib("mem.cached", "Cached"),
            kib("mem.swap_cached", "SwapCached"),
            kib("mem.active", "Active"),
            kib("mem.inactive", "Inactive"),
            kib("mem.active_anon", "Active(anon)"),
            kib("mem.inactive_anon", "Inactive(anon)"),
            kib("mem.active_file", "Active(file)"),
            kib("mem.inactive_file", "Inactive(file)"),
            kib("mem.unevictable", "Unevictable"),
            kib("mem.locked", "Mlocked"),
            kib("mem.high_total", "HighTotal"),
            kib("mem.high_free", "HighFree"),
            kib("mem.low_total", "LowTotal"),
            kib("mem.low_free", "LowFree"),
            kib("mem.swap_total", "SwapTotal"),
            kib("mem.swap_free", "SwapFree"),
            kib("mem.zswap", "Zswap"),
            kib("mem.zswapped", "Zswapped"),
            kib("mem.dirty", "Dirty"),
            kib("mem.writeback", "Writeback"),
            kib("mem.anon_pages", "AnonPages"),
            kib("mem.mapped", "Mapped"),
            kib("mem.shared", "Shmem"),
            kib("mem.reclaimable", "KReclaimable"),
            kib("mem.slab", "Slab"),
            kib("mem.slab_reclaimable", "SReclaimable"),
            kib("mem.slab_unreclaimable", "SUnreclaim"),
            kib("mem.kernel_stack", "KernelStack"),
            kib("mem.page_tables", "PageTables"),
            kib("mem.secondary_page_tables", "SecPageTables"),
            kib("mem.nfs_unstable", "NFS_Unstable"),
            kib("mem.bounce", "Bounce"),
            kib("mem.writeback_tmp", "WritebackTmp"),
            kib("mem.commit_limit", "CommitLimit"),
            kib("mem.committed", "Committed_AS"),
            kib("mem.vmalloc_total", "VmallocTotal"),
            kib("mem.vmalloc_used", "VmallocUsed"),
            kib("mem.vmalloc_chunk", "VmallocChunk"),
            kib("mem.percpu", "Percpu"),
            kib("mem.hardware_corrupted", "HardwareCorrupted"),
            kib("mem.anon_huge_pages", "AnonHugePages"),
            kib("mem.shared_huge_pages", "ShmemHugePages"),
            kib("mem.shared_pmd_mapped", "ShmemPmdMapped"),
            kib("mem.file_huge_pages", "FileHugePages"),
            kib("mem.file_pmd_mapped", "FilePmdMapped"),
            kib("mem.cma_total", "CmaTotal"),
            kib("mem.cma_free", "CmaFree"),
            kib("mem.balloon", "Balloon"),
            kib("mem.unaccepted", "Unaccepted"),
            count("mem.huge_pages_total", "HugePages_Total"),
            count("mem.huge_pages_free", "HugePages_Free"),
            count("mem.huge_pages_reserved", "HugePages_Rsvd"),
            count("mem.huge_pages_surplus", "HugePages_Surp"),
            kib("mem.huge_page_size", "Hugepagesize"),
            kib("mem.huge_pages", "Hugetlb"),
            kib("mem.direct_map_4k", "DirectMap4k"),
            kib("mem.direct_map_2m", "DirectMap2M"),
            kib("mem.direct_map_4m", "DirectMap4M"),
            kib("mem.direct_map_1g", "DirectMap1G"));

    private static final byte[][] NAMES =
            ENTRIES.stream().map(entry -> bytes(entry.field())).toArray(byte[][]::new);

    /** Kernel 2.4's name for {@code Shmem}. */
    private static final byte[] OLD_SHARED = bytes("MemShared");
    private static final byte[] SHARED = bytes("Shmem");
    private static final byte[] KB = bytes("kB");

    MeminfoFile() {
        super("meminfo", WHOLE, ENTRIES, List.of());
    }

    private static Entry kib(String name, String field) {
        return Entry.gauge(name, field, Unit.BYTES).kib();
    }

    private static Entry count(String name, String field) {
        return Entry.gauge(name, field, Unit.COUNT);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    @Override
    void parse(Sink sink) {
        // The kernel prints the names in the table's order, with gaps: search from the last hit onwards first.
        int expected = 0;
        while (sink.nextLine()) {
            int colon = Words.indexOf(sink.text(), sink.lineStart(), sink.lineEnd(), ':');
            // Kernel 2.4 began with a table (total: used: free: ...). Any other unknown line is passed over, too.
            if (colon < 0) {
                continue;
            }
            int scalar = find(sink.text(), sink.lineStart(), colon, expected);
            if (scalar < 0) {
                sink.ignore(colon + 1, sink.lineEnd());
            } else {
                expected = scalar + 1;
                line(sink, scalar, colon + 1);
            }
        }
    }

    private static void line(Sink sink, int scalar, int rest) {
        Words words = sink.words(rest, sink.lineEnd());
        if (!words.next()) {
            sink.failScalar(scalar, "the line has no number");
            return;
        }
        int start = words.start();
        int end = words.end();
        if (hasItsUnit(sink, words, scalar)) {
            sink.scalar(scalar, start, end);
        } else {
            sink.failScalar(scalar, "not followed by the unit that the kernel documents");
        }
    }

    private static boolean hasItsUnit(Sink sink, Words words, int scalar) {
        boolean isKb = ENTRIES.get(scalar).metric().unit() == Unit.BYTES;
        if (isKb && !(words.next() && Words.is(sink.text(), words.start(), words.end(), KB))) {
            return false;
        }
        return !words.next();
    }

    private static int find(byte[] text, int start, int end, int expected) {
        if (Words.is(text, start, end, OLD_SHARED)) {
            return find(SHARED, 0, SHARED.length, expected);
        }
        for (int tried = 0; tried < NAMES.length; tried++) {
            int scalar = (expected + tried) % NAMES.length;
            if (Words.is(text, start, end, NAMES[scalar])) {
                return scalar;
            }
        }
        return -1;
    }
}
