package dev.kilohertz.micrometer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kilohertz.LiveSnapshot;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class CounterValueTest {
    /** Nobody writes it: the values of these tests are given. */
    private final LiveSnapshot none = LiveSnapshot.at(Path.of("/nonexistent"));

    @Test
    void aSmallStepBackIsNoRestart() {
        CounterValue iowait = CounterValue.ofKernel(none, null);
        assertEquals(80.4, iowait.counted(80.4));
        assertEquals(80.4, iowait.counted(80.39));
        assertEquals(80.5, iowait.counted(80.5));
    }

    @Test
    void aRestartIsSeenAsOne() {
        CounterValue bytes = CounterValue.ofKernel(none, null);
        assertEquals(1000, bytes.counted(1000));
        assertEquals(7, bytes.counted(7));
        assertEquals(0, bytes.counted(0));
        assertEquals(9, bytes.counted(9));
    }

    @Test
    void anUnknownValueIsNeverZero() {
        for (CounterValue counter : new CounterValue[] {CounterValue.ofKernel(none, null), CounterValue.sinceNow(none, null)}) {
            assertTrue(Double.isNaN(counter.get()));
            assertTrue(Double.isNaN(counter.counted(Double.NaN)));
            counter.counted(5);
            assertTrue(Double.isNaN(counter.counted(Double.NaN)));
        }
    }

    @Test
    void aCountFromNowOnNeverFalls() {
        CounterValue bytes = CounterValue.sinceNow(none, null);
        assertEquals(0, bytes.counted(1000));
        assertEquals(50, bytes.counted(1050));
        assertTrue(Double.isNaN(bytes.counted(Double.NaN)));
        // The interface was made again.
        assertEquals(57, bytes.counted(7));
        assertEquals(60, bytes.counted(10));
    }
}
