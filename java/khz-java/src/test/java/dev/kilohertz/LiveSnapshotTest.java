package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A snapshot whose agent comes, ends, dies and comes back. */
class LiveSnapshotTest {
    private static final long NANOS_A_MILLISECOND = 1_000_000;

    @TempDir
    Path folder;

    /** A file whose newest row is this old. */
    private PageFile written(long free, Duration age) throws IOException {
        PageFile file = PageFile.create(folder.resolve("snapshot"));
        int slot = file.add("mem.free", "bytes", 1, 1, 0, 0);
        file.beginRow(1);
        file.set(slot, free, 0, 1, 0);
        file.endRow(1, 1_000_000_000L, (System.currentTimeMillis() - age.toMillis()) * NANOS_A_MILLISECOND - 1_000_000_000L);
        return file;
    }

    @Test
    void anAgentMayStartLaterEndAndComeBack() throws Exception {
        try (LiveSnapshot node = LiveSnapshot.at(folder, Duration.ofHours(1))) {
            assertTrue(node.now().isEmpty());
            assertTrue(node.problem().contains("there is no snapshot"), node.problem());
            Snapshot opened;
            Snapshot.Handle handle;
            try (PageFile first = written(7, Duration.ZERO)) {
                Patience.until("the agent is found", () -> node.now().isPresent());
                assertEquals("", node.problem());
                opened = node.now().orElseThrow();
                handle = opened.handle("mem.free");
                assertEquals(7, node.doubleValue(handle));
                first.end();
                assertTrue(Double.isNaN(node.doubleValue(handle)));
                assertTrue(node.now().isEmpty());
                assertTrue(node.problem().contains("has ended"), node.problem());
            }
            try (PageFile _ = written(8, Duration.ZERO)) {
                Patience.until("the next agent is found", () -> node.doubleValue(handle) == 8);
                assertSame(opened, node.now().orElseThrow());
            }
        }
    }

    @Test
    void theLastValuesOfAnAgentThatWasKilledAreNotGiven() throws Exception {
        try (PageFile _ = written(7, Duration.ofMinutes(5));
                LiveSnapshot strict = LiveSnapshot.at(folder);
                LiveSnapshot lenient = LiveSnapshot.at(folder, Duration.ofHours(1))) {
            Snapshot.Handle handle = lenient.now().orElseThrow().handle("mem.free");
            assertEquals(7, lenient.doubleValue(handle));
            assertTrue(strict.now().isEmpty());
            assertTrue(strict.problem().contains("has gathered nothing for"), strict.problem());
        }
    }

    @Test
    void aClosedOneHasNoValues() throws Exception {
        try (PageFile _ = written(7, Duration.ZERO)) {
            LiveSnapshot node = LiveSnapshot.at(folder, Duration.ofHours(1));
            Snapshot.Handle handle = node.now().orElseThrow().handle("mem.free");
            node.close();
            node.close();
            assertTrue(Double.isNaN(node.doubleValue(handle)));
            assertTrue(node.now().isEmpty());
            assertTrue(node.problem().contains("closed"), node.problem());
        }
    }

    @Test
    void aFileThatIsNoSnapshotIsAProblemAndNoException() throws Exception {
        Files.writeString(folder.resolve("snapshot"), "x".repeat(5000));
        try (LiveSnapshot node = LiveSnapshot.at(folder)) {
            assertTrue(node.now().isEmpty());
            assertTrue(node.problem().contains("snapshot"), node.problem());
        }
    }

    @Test
    void withNoLimitForSilenceOldValuesAreGiven() throws Exception {
        try (PageFile _ = written(7, Duration.ofDays(1)); LiveSnapshot node = LiveSnapshot.at(folder, ChronoUnit.FOREVER.getDuration())) {
            assertEquals(7, node.doubleValue(node.now().orElseThrow().handle("mem.free")));
        }
    }

    @Test
    void nothingIsDeadAtOnce() {
        IllegalArgumentException error = assertThrows(IllegalArgumentException.class, () -> LiveSnapshot.local(Duration.ZERO));
        assertTrue(error.getMessage().contains("above zero"), error.getMessage());
    }
}
