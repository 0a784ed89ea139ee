package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.math.BigDecimal;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SnapshotTest {
    @TempDir
    Path folder;
    private Path path;
    private PageFile file;

    @BeforeEach
    void write() throws IOException {
        path = folder.resolve("snapshot");
        file = PageFile.create(path);
    }

    @AfterEach
    void close() {
        file.close();
    }

    @Test
    void aValueIsExactInEveryType() {
        int big = file.add("net.rx_bytes[eth0]", "bytes", 1, 0, 0, 0);
        int cpu = file.add("cpu.all.user", "seconds", 2, 0, 0, 2);
        int below = file.add("job.drift", "seconds", 3, 1, 1, 6);
        int real = file.add("job.loss", "count", 4, 1, 2, 0);
        file.row(big, -1, 0, 1, 0);
        file.row(cpu, 52, 0, 2, 2);
        file.row(below, -12_500, 65, 3, 6);
        file.row(real, Double.doubleToLongBits(2.5e-7), 66, 4, 0);
        try (Snapshot node = Snapshot.open(folder)) {
            assertEquals("n1", node.node());
            Latest latest = new Latest();
            assertTrue(node.read(node.handle("net.rx_bytes[eth0]"), latest));
            assertEquals("18446744073709551615", latest.toString());
            assertEquals(-1, latest.unscaled());
            assertEquals(0x1p64, latest.doubleValue());
            assertTrue(node.read(node.handle("cpu.all.user"), latest));
            assertEquals(new BigDecimal("0.52"), latest.decimal());
            assertEquals(0.52, node.doubleValue(node.handle("cpu.all.user")));
            assertTrue(node.read(node.handle("job.drift"), latest));
            assertEquals(new BigDecimal("-0.012500"), latest.decimal());
            assertEquals(-0.0125, latest.doubleValue());
            assertTrue(node.read(node.handle("job.loss"), latest));
            assertEquals(2.5e-7, latest.doubleValue());
            assertEquals(ValueType.FLOAT, latest.type());
            assertThrows(IllegalStateException.class, latest::unscaled);
            assertEquals(5_000_000_000L, latest.bootNanos());
            assertEquals(Instant.ofEpochSecond(1_000_000_005L), latest.time());
            assertEquals(new Series("job.drift", "seconds", Kind.GAUGE, ValueType.SIGNED, 6), node.series().get(2));
            assertEquals(Kind.COUNTER, node.series().getFirst().kind());
        }
    }

    @Test
    void whatHasNoValueIsNeverZero() {
        int slot = file.add("mem.free", "bytes", 0, 1, 0, 0);
        try (Snapshot node = Snapshot.open(path)) {
            Snapshot.Handle handle = node.handle("mem.free");
            Latest latest = new Latest();
            for (int state = 1; state < 256; state++) {
                if (state == 65 || state == 66) {
                    continue;
                }
                file.row(slot, 0, state, 0, 0);
                assertFalse(node.read(handle, latest));
                assertEquals(state < 128 ? State.ABSENT : State.FAILED, latest.state());
                assertTrue(Double.isNaN(latest.doubleValue()));
                assertTrue(Double.isNaN(node.doubleValue(handle)));
                assertFalse(latest.why().isEmpty());
                assertThrows(IllegalStateException.class, latest::unscaled);
                assertThrows(IllegalStateException.class, latest::decimal);
                assertThrows(IllegalStateException.class, latest::type);
            }
            assertEquals("failed: source unreadable", latest.toString());
        }
    }

    @Test
    void anUnknownNameSaysWhatWasProbablyMeant() {
        file.add("mem.free", "bytes", 0, 1, 0, 0);
        file.add("mem.total", "bytes", 0, 1, 0, 0);
        try (Snapshot node = Snapshot.open(path)) {
            assertTrue(assertThrows(SnapshotException.class, () -> node.handle("mem.fre")).getMessage().contains("did you mean mem.free?"));
            assertTrue(assertThrows(SnapshotException.class, () -> node.handle("x")).getMessage().contains("khz catalog"));
        }
    }

    @Test
    void aSeriesThatComesLaterIsFound() {
        file.add("mem.free", "bytes", 0, 1, 0, 0);
        try (Snapshot node = Snapshot.open(path)) {
            assertThrows(SnapshotException.class, () -> node.handle("net.rx_bytes[eth1]"));
            int slot = file.add("net.rx_bytes[eth1]", "bytes", 1, 0, 0, 0);
            file.row(slot, 77, 0, 1, 0);
            assertEquals(77, node.doubleValue(node.handle("net.rx_bytes[eth1]")));
        }
    }

    @Test
    void theValuesOfARowAreReadTogether() {
        int free = file.add("mem.free", "bytes", 3, 1, 0, 0);
        int total = file.add("mem.total", "bytes", 3, 1, 0, 0);
        file.add("load.1m", "count", 4, 1, 0, 2);
        try (Snapshot node = Snapshot.open(path)) {
            SnapshotRow row = node.row("mem.total", "mem.free");
            file.beginRow(3);
            file.set(free, 7, 0, 3, 0);
            file.set(total, 9, 0, 3, 0);
            file.endRow(3, 1, 2);
            row.read();
            assertEquals(2, row.size());
            assertEquals("mem.total", row.name(0));
            assertEquals(9, row.get(0).unscaled());
            assertEquals(7, row.get(1).unscaled());
            SnapshotException error = assertThrows(SnapshotException.class, () -> node.row("mem.free", "load.1m"));
            assertTrue(error.getMessage().contains("mem.free and load.1m"), error.getMessage());
        }
    }

    @Test
    void theAgeIsThatOfTheNewestRow() {
        int slot = file.add("mem.free", "bytes", 0, 1, 0, 0);
        file.beginRow(0);
        file.set(slot, 1, 0, 0, 0);
        long now = System.currentTimeMillis() * 1_000_000;
        file.endRow(0, 1_000_000_000L, now - 1_000_000_000L - 60_000_000_000L);
        try (Snapshot node = Snapshot.open(path)) {
            Duration age = node.age();
            assertTrue(age.toSeconds() >= 59 && age.toMinutes() < 30, age.toString());
        }
    }

    @Test
    void aClosedSnapshotSaysSo() {
        file.add("mem.free", "bytes", 0, 1, 0, 0);
        Snapshot node = Snapshot.open(path);
        Snapshot.Handle handle = node.handle("mem.free");
        node.close();
        node.close();
        assertTrue(assertThrows(IllegalStateException.class, () -> node.doubleValue(handle)).getMessage().contains("closed"));
        assertThrows(IllegalStateException.class, node::series);
    }

    @Test
    void aHandleOfAnotherSnapshotIsRefused() {
        file.add("mem.free", "bytes", 0, 1, 0, 0);
        try (Snapshot one = Snapshot.open(path); Snapshot other = Snapshot.open(path)) {
            Snapshot.Handle handle = one.handle("mem.free");
            assertThrows(IllegalArgumentException.class, () -> other.doubleValue(handle));
        }
    }

    @Test
    void damagedNamesEndTheListAndNothingElse() {
        file.add("mem.free", "bytes", 0, 1, 0, 0);
        int slot = file.add("mem.total", "bytes", 0, 1, 0, 0);
        file.row(slot, 5, 0, 0, 0);
        file.damageName(0);
        try (Snapshot node = Snapshot.open(path)) {
            assertTrue(node.series().isEmpty());
            assertThrows(SnapshotException.class, () -> node.handle("mem.total"));
        }
    }

    @Test
    void aSlotOfAGroupThatCannotBeIsNoSeries() {
        int slot = file.add("mem.free", "bytes", 0, 1, 0, 0);
        file.set(slot, 5, 0, 64, 0);
        try (Snapshot node = Snapshot.open(path)) {
            assertThrows(SnapshotException.class, () -> node.handle("mem.free"));
        }
    }

    @Test
    void aReadAllocatesNothing() {
        int free = file.add("mem.free", "bytes", 3, 1, 0, 0);
        int huge = file.add("mem.huge", "bytes", 3, 1, 0, 9);
        file.row(free, 7, 0, 3, 0);
        file.row(huge, -77, 0, 3, 9);
        try (Snapshot node = Snapshot.open(path)) {
            Snapshot.Handle handle = node.handle("mem.huge");
            SnapshotRow row = node.row("mem.free", "mem.huge");
            Latest latest = new Latest();
            int reads = 100_000;
            double sum = 0;
            long bytes = Long.MAX_VALUE;
            // The first rounds also compile.
            for (int round = 0; round < 5; round++) {
                long before = allocated();
                for (int i = 0; i < reads; i++) {
                    node.read(handle, latest);
                    row.read();
                    sum += node.doubleValue(handle) + latest.doubleValue() + row.get(1).unscaled();
                }
                bytes = Math.min(bytes, allocated() - before);
            }
            assertTrue(bytes < reads, bytes + " bytes in " + reads + " reads");
            assertTrue(sum != 0);
        }
    }

    private static long allocated() {
        return ((ThreadMXBean) ManagementFactory.getThreadMXBean()).getCurrentThreadAllocatedBytes();
    }
}
