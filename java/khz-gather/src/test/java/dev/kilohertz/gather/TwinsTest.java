package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Of damaged texts the gatherer reads what khz's own parser reads: values, states, and faults with line and words. */
class TwinsTest {
    @Test
    void damagedTextsAreReadAsByKhz() throws IOException {
        List<String> expected;
        try (InputStream in = TwinsTest.class.getResourceAsStream("/twins.crc")) {
            expected = new String(in.readAllBytes(), StandardCharsets.US_ASCII).lines().toList();
        }
        List<String> lines = Twins.lines();
        assertEquals(Twins.COUNT, lines.size());
        assertTrue(lines.stream().filter(line -> line.contains(" | line ")).count() > Twins.COUNT / 3, "few are damaged");
        List<String> found = TwinsFile.checksums(lines);
        assertEquals(expected.size(), found.size());
        for (int block = 0; block < found.size(); block++) {
            int first = block * TwinsFile.LINES;
            assertEquals(expected.get(block), found.get(block), "of texts " + first + " to " + (first + TwinsFile.LINES - 1)
                    + " khz reads something else (TwinsFile.java says how to see what)");
        }
    }
}
