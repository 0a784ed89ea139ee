package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class LoadavgFileTest {
    @Test
    void fiveFields() {
        Read read = Read.of(new LoadavgFile(), "0.52 0.58 12.59 1/389 12345\n");
        assertEquals(Map.of("load.1m", "52", "load.5m", "58", "load.15m", "1259", "tasks.running", "1", "tasks.total",
                "389"), read.readings());
        assertTrue(read.advance("0.52 0.58 12.59 3/389 12399\n"));
        assertEquals("3", read.get("tasks.running"));
    }

    @Test
    void damageIsFailedNeverZero() {
        for (String text : List.of("", "0.52", "0.52 0.58 0.59 1/389 12345", "a b c d e\n", "0.52 0.58 0.59 1389 5\n",
                "0,52 0,58 0,59 1-2 3\n")) {
            Read read = Read.of(new LoadavgFile(), text);
            assertFalse(read.faults().isEmpty(), text);
            assertEquals("MALFORMED", read.get("tasks.running"), text);
        }
    }

    @Test
    void aMissingAverageIsNotFilledWithTheNext() {
        Read read = Read.of(new LoadavgFile(), "0.58 0.59 1/389 12345\n");
        read.readings().forEach((series, reading) -> assertEquals("MALFORMED", reading, series));
    }
}
