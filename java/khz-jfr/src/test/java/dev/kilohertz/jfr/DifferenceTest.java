package dev.kilohertz.jfr;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kilohertz.PageFile;
import dev.kilohertz.Snapshot;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Counters of a snapshot that the test writes itself. */
class DifferenceTest {
    private static final int PRESENT = 0;
    private static final int ABSENT = 2;
    private static final int GROUP = 3;
    private static final int PLACES = 2;

    @TempDir
    Path folder;
    private PageFile file;
    private Snapshot node;
    private Difference times;
    private int user;
    private int idle;

    @BeforeEach
    void write() throws Exception {
        file = PageFile.create(folder.resolve("snapshot"));
        user = file.add("cpu.all.user", "seconds", GROUP, 0, 0, PLACES);
        idle = file.add("cpu.all.idle", "seconds", GROUP, 0, 0, PLACES);
        node = Snapshot.open(folder);
        times = new Difference(node.row("cpu.all.user", "cpu.all.idle"));
    }

    @AfterEach
    void close() {
        node.close();
        file.close();
    }

    private boolean row(long bootNanos, long userTicks, int state, long idleTicks) {
        file.beginRow(GROUP);
        file.set(user, userTicks, state, GROUP, PLACES);
        file.set(idle, idleTicks, PRESENT, GROUP, PLACES);
        file.endRow(GROUP, bootNanos, 0);
        return times.read();
    }

    @Test
    void theSecondReadingHasADifference() {
        assertFalse(row(1_000_000_000L, 500, PRESENT, 100));
        assertTrue(row(3_000_000_000L, 650, PRESENT, 150));
        assertEquals(1.5, times.increase(0));
        assertEquals(0.5, times.increase(1));
        assertEquals(0.75, times.rate(0));
        assertEquals(1_500_000_000L, times.nanos(0));
        assertEquals(2_000_000_000L, times.period());
    }

    @Test
    void theSameRowHasNone() {
        assertFalse(row(1_000_000_000L, 500, PRESENT, 100));
        assertFalse(times.read());
        assertTrue(row(2_000_000_000L, 501, PRESENT, 100));
        assertFalse(times.read());
    }

    @Test
    void aStepBackIsUnknown() {
        row(1_000_000_000L, 500, PRESENT, 100);
        assertTrue(row(2_000_000_000L, 510, PRESENT, 99));
        assertEquals(-0.01, times.of(1));
        assertTrue(Double.isNaN(times.increase(1)));
        assertTrue(Double.isNaN(times.rate(1)));
        assertEquals(PressureEvent.UNKNOWN, times.nanos(1));
        assertEquals(0.1, times.increase(0));
    }

    @Test
    void whatWasAbsentHasNoDifferenceUntilItWasThereTwice() {
        row(1_000_000_000L, 500, PRESENT, 100);
        assertTrue(row(2_000_000_000L, 0, ABSENT, 101));
        assertTrue(Double.isNaN(times.increase(0)));
        assertTrue(row(3_000_000_000L, 700, PRESENT, 102));
        assertTrue(Double.isNaN(times.increase(0)));
        assertEquals(0.01, times.increase(1));
        assertTrue(row(4_000_000_000L, 800, PRESENT, 103));
        assertEquals(1, times.increase(0));
    }

    @Test
    void aMachineThatHasStartedAgainHasNone() {
        row(9_000_000_000L, 500, PRESENT, 100);
        assertFalse(row(1_000_000_000L, 600, PRESENT, 200));
        assertTrue(row(2_000_000_000L, 601, PRESENT, 201));
        assertEquals(0.01, times.increase(0));
    }
}
