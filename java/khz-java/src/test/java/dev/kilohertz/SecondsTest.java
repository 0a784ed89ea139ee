package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Instant;
import org.junit.jupiter.api.Test;

class SecondsTest {
    @Test
    void timesKeepEveryNanosecond() {
        assertEquals(1_763_690_000_000_000_001L, Seconds.nanos("1763690000.000000001"));
        assertEquals(-500_000_000L, Seconds.nanos("-0.500000000"));
        assertEquals(500_000_000L, Seconds.nanos("0.5"));
        assertEquals(Instant.parse("2025-11-21T01:53:20.000000001Z"), Seconds.instant("1763690000.000000001"));
    }

    @Test
    void whatIsNoTimeIsRefused() {
        for (String text : new String[] {"", "1", ".5", "1.", "1.0000000001", "a.5", "1.-5", "1.5e3", "99999999999999999999.0", "-.5", "9999999999.5x"}) {
            assertThrows(MalformedException.class, () -> Seconds.nanos(text), text);
        }
    }
}
