package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What happens to a mapped snapshot whose agent ends, dies, comes back, or whose file somebody harms. */
class RestartTest {
    @TempDir
    Path folder;

    /** A file in which mem.free is in slot {@code before}. */
    private PageFile written(int before, long free) throws IOException {
        PageFile file = PageFile.create(folder.resolve("snapshot"));
        for (int i = 0; i < before; i++) {
            file.add("other.series" + i, "count", 0, 1, 0, 0);
        }
        int slot = file.add("mem.free", "bytes", 1, 1, 0, 0);
        file.row(slot, free, 0, 1, 0);
        return file;
    }

    @Test
    void aHandleFindsItsSeriesInTheFileOfTheNextAgent() throws IOException {
        try (PageFile first = written(0, 7); Snapshot node = Snapshot.open(folder)) {
            Snapshot.Handle handle = node.handle("mem.free");
            SnapshotRow row = node.row("mem.free");
            assertEquals(7, node.doubleValue(handle));
            first.end();
            SnapshotException gone = assertThrows(SnapshotException.class, () -> node.doubleValue(handle));
            assertTrue(gone.getMessage().contains("has ended"), gone.getMessage());
            assertThrows(SnapshotException.class, row::read);
            Files.delete(folder.resolve("snapshot"));
            SnapshotException missing = assertThrows(SnapshotException.class, () -> node.doubleValue(handle));
            assertTrue(missing.getMessage().contains("there is no snapshot"), missing.getMessage());
            try (PageFile second = written(3, 8)) {
                assertEquals(8, node.doubleValue(handle));
                row.read();
                assertEquals(8, row.get(0).unscaled());
                second.end();
            }
        }
    }

    @Test
    void whoWaitsForTheNextAgentMapsNothing() throws IOException {
        try (PageFile first = written(0, 7); Snapshot node = Snapshot.open(folder)) {
            Snapshot.Handle handle = node.handle("mem.free");
            first.end();
            long before = mappings();
            for (int i = 0; i < 20; i++) {
                assertThrows(SnapshotException.class, () -> node.doubleValue(handle));
                assertThrows(SnapshotException.class, () -> Snapshot.open(folder));
            }
            assertTrue(mappings() <= before);
        }
    }

    private long mappings() throws IOException {
        return Files.readAllLines(Path.of("/proc/self/maps")).stream().filter(line -> line.contains(folder.toString())).count();
    }

    @Test
    void aSeriesThatTheNextAgentDoesNotHaveIsAbsentUntilItComes() throws IOException {
        try (PageFile first = written(0, 7); Snapshot node = Snapshot.open(folder)) {
            Snapshot.Handle handle = node.handle("mem.free");
            SnapshotRow row = node.row("mem.free");
            first.end();
            Latest latest = new Latest();
            try (PageFile second = PageFile.create(folder.resolve("snapshot"))) {
                assertFalse(node.read(handle, latest));
                assertEquals(State.ABSENT, latest.state());
                assertTrue(Double.isNaN(node.doubleValue(handle)));
                row.read();
                assertEquals(State.ABSENT, row.get(0).state());
                int slot = second.add("mem.free", "bytes", 2, 1, 0, 0);
                second.row(slot, 9, 0, 2, 0);
                assertTrue(node.read(handle, latest));
                assertEquals(9, latest.unscaled());
                row.read();
                assertEquals(9, row.get(0).unscaled());
            }
        }
    }

    @Test
    void theFileOfAnAgentThatWasKilledIsReplacedByThatOfTheNext() throws Exception {
        try (PageFile _ = written(0, 7); Snapshot node = Snapshot.open(folder)) {
            Snapshot.Handle handle = node.handle("mem.free");
            assertEquals(7, node.doubleValue(handle));
            // It does not say that it has ended.
            try (PageFile _ = written(2, 8)) {
                Patience.until("the new file is read", () -> node.doubleValue(handle) == 8);
            }
        }
    }

    @Test
    void anAgentThatDiedInsideARowIsReported() throws Exception {
        try (PageFile first = written(0, 7); Snapshot node = Snapshot.open(folder)) {
            Snapshot.Handle handle = node.handle("mem.free");
            first.beginRow(1);
            SnapshotException dead = assertThrows(SnapshotException.class, () -> node.doubleValue(handle));
            assertTrue(dead.getMessage().contains("died while it wrote"), dead.getMessage());
            try (PageFile _ = written(1, 8)) {
                assertEquals(8, node.doubleValue(handle));
            }
        }
    }

    @Test
    void aFileThatIsCutShortGivesAnErrorAndNoValue() throws Exception {
        Path path = folder.resolve("snapshot");
        try (PageFile _ = written(0, 7); Snapshot node = Snapshot.open(folder)) {
            Snapshot.Handle handle = node.handle("mem.free");
            assertEquals(7, node.doubleValue(handle));
            try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw")) {
                file.setLength(0);
            }
            Patience.until("reads fail with an error that says why", () -> isRefused(node, handle));
            try (PageFile _ = written(2, 8)) {
                assertEquals(8, node.doubleValue(handle));
            }
        }
    }

    private static boolean isRefused(Snapshot node, Snapshot.Handle handle) {
        try {
            node.doubleValue(handle);
            return false;
        } catch (SnapshotException e) {
            return e.getMessage().contains("short");
        } catch (InternalError e) {
            // The JVM reports a lost page when it likes.
            return false;
        }
    }
}
