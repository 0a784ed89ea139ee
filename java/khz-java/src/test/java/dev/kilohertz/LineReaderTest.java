package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class LineReaderTest {
    /** Gives a few bytes at a time, as a network does. */
    private static InputStream in(String text, int piece) {
        return new ByteArrayInputStream(text.getBytes(StandardCharsets.ISO_8859_1)) {
            @Override
            public synchronized int read(byte[] into, int from, int length) {
                return super.read(into, from, Math.min(length, piece));
            }
        };
    }

    @Test
    void linesAreTheSameHoweverTheyCome() throws IOException {
        String longLine = "x".repeat(40_000);
        String text = "a\r\n\nbc\n" + longLine + "\n\r\nno end";
        for (int piece : new int[] {1, 2, 3, 7, 1000, 100_000}) {
            LineReader reader = new LineReader(in(text, piece), 1 << 20, "", new ReadTime(Long.MAX_VALUE));
            List<String> lines = new ArrayList<>();
            while (reader.next()) {
                lines.add(reader.text());
            }
            assertEquals(List.of("a", "", "bc", longLine, ""), lines, "in pieces of " + piece);
        }
    }

    @Test
    void aLineBeyondTheLimitIsRefused() {
        LineReader reader = new LineReader(in("x".repeat(100_000), 1000), 50_000, "ask for less", new ReadTime(Long.MAX_VALUE));
        MalformedException error = assertThrows(MalformedException.class, reader::next);
        assertTrue(error.getMessage().contains("50000 bytes: ask for less"), error.getMessage());
    }
}
