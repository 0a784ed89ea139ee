package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class MeminfoFileTest {
    private static final String TEXT = "MemTotal:       24674964 kB\nMemFree:        23551020 kB\n"
            + "Active(anon):     1024 kB\nHugePages_Total:       3\nNewThing:   77 kB\n";

    private static Read read(String text) {
        return Read.of(new MeminfoFile(), text);
    }

    @Test
    void kilobytesBecomeBytesAndCountsStay() {
        Read read = read(TEXT);
        assertEquals(List.of(), read.faults());
        assertEquals(Long.toString(24_674_964L * 1_024), read.get("mem.total"));
        assertEquals("1048576", read.get("mem.active_anon"));
        assertEquals("3", read.get("mem.huge_pages_total"));
        assertEquals("NO_FIELD", read.get("mem.high_total"));
    }

    @Test
    void linesInAnotherOrderAndStrangersMakeNoDifference() {
        Read reordered =
                read("NewThing:   77 kB\nMemFree:        23551020 kB\nMemTotal:       24674964 kB\nOther text\n");
        assertEquals(read(TEXT).get("mem.total"), reordered.get("mem.total"));
        assertEquals(read(TEXT).get("mem.free"), reordered.get("mem.free"));
    }

    @Test
    void aStrangerMayChangeWithoutAFullParse() {
        Read read = read(TEXT);
        long changes = read.parser().readings().changes();
        assertTrue(read.advance(TEXT.replace("77", "78")));
        assertEquals(changes, read.parser().readings().changes());
    }

    @Test
    void theTableOfKernel24IsPassedOverAndMemSharedIsShared() {
        Read read = read("        total:    used:    free:  shared: buffers:  cached:\n"
                + "Mem:  528457728 417628160 110829568        0 19607552 217260032\n"
                + "Swap: 271392768        0 271392768\nMemTotal:       516072 kB\nMemFree:        108232 kB\n"
                + "MemShared:           4 kB\nHighTotal:           0 kB\n");
        assertEquals(List.of(), read.faults());
        assertEquals(Long.toString(516_072L * 1_024), read.get("mem.total"));
        assertEquals("4096", read.get("mem.shared"));
        assertEquals("0", read.get("mem.high_total"));
    }

    @Test
    void anotherUnitIsFailedNotMisread() {
        Read read = read("MemTotal:  24 MB\nMemFree: 7\nHugePages_Free: 5 kB\nCached: 1 kB x\nBuffers:\n");
        for (String series : List.of("mem.total", "mem.free", "mem.huge_pages_free", "mem.cached", "mem.buffers")) {
            assertEquals("MALFORMED", read.get(series), series);
        }
    }

    @Test
    void aTextCutOffFailsWhatMayHaveFollowed() {
        Read read = read("MemTotal:  24674964 kB\nMemFree:  2355");
        assertEquals(Long.toString(24_674_964L * 1_024), read.get("mem.total"));
        assertEquals("MALFORMED", read.get("mem.free"));
        assertEquals("MALFORMED", read.get("mem.cached"));
    }

    @Test
    void kilobytesBeyond64BitsOfBytesAreOutOfRange() {
        assertEquals("OUT_OF_RANGE", read("MemTotal: 18446744073709551615 kB\n").get("mem.total"));
        Read grown = read("MemTotal: 00000000000000000001 kB\n");
        assertEquals(false, grown.advance("MemTotal: 18446744073709551615 kB\n"));
        assertEquals("OUT_OF_RANGE", grown.get("mem.total"));
    }
}
