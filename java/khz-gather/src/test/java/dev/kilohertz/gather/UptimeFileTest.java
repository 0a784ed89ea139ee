package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.junit.jupiter.api.Test;

class UptimeFileTest {
    @Test
    void hundredthsOfASecond() {
        Read read = Read.of(new UptimeFile(), "442.81 873.80\n");
        assertEquals(Map.of("uptime.up", "44281", "uptime.idle", "87380"), read.readings());
        assertTrue(read.advance("442.82 873.81\n"));
        assertEquals(Map.of("uptime.up", "44282", "uptime.idle", "87381"), read.readings());
        assertFalse(read.advance("1442.82 873.81\n"));
        assertEquals(Map.of("uptime.up", "144282", "uptime.idle", "87381"), read.readings());
    }
}
