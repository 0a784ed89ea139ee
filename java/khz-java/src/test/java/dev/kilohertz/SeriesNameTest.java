package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class SeriesNameTest {
    @Test
    void aNameIsWrittenAsKhzWritesIt() {
        assertEquals("mem.free", SeriesName.of("mem.free").toString());
        assertEquals("fs.available[%2Fhome%20b]", SeriesName.of("fs.available", "/home b").toString());
        assertEquals("infiniband.rx_bytes[mlx5_0,port=1]", SeriesName.of("infiniband.rx_bytes", "mlx5_0").label("port", "1").toString());
        assertEquals("job.queue[gpu=0,rank=1]", SeriesName.of("job.queue").label("rank", "1").label("gpu", "0").toString());
        assertEquals("a.b[%2E%2E]", SeriesName.of("a.b", "..").toString());
        assertEquals("a.b[ü😀%E2%80%AE]", SeriesName.of("a.b", "ü😀\u202e").toString());
    }

    @Test
    void aLabelWithoutAValueIsNone() {
        assertEquals(SeriesName.of("a.b", "c"), SeriesName.of("a.b", "c").label("x", ""));
    }

    @Test
    void everyCharacterSurvives() {
        StringBuilder all = new StringBuilder();
        for (int c = 1; c < 0x3100; c++) {
            all.appendCodePoint(c);
        }
        all.appendCodePoint(0x1f600).appendCodePoint(0xe0001).appendCodePoint(0xfeff);
        SeriesName name = SeriesName.of("a.b", all.toString()).label("x", all.toString());
        String text = name.toString();
        assertEquals(name, SeriesName.parse(text));
        assertTrue(text.chars().noneMatch(c -> Character.isISOControl(c) || Character.isWhitespace(c)), text);
    }

    @Test
    void whatIsNoNameIsRefused() {
        for (String text : new String[] {"a[b", "a[b]c", "a[b,c]", "a[%]", "a[%4]", "a[%zz]", "a[%ff]"}) {
            IllegalArgumentException error = assertThrows(IllegalArgumentException.class, () -> SeriesName.parse(text), text);
            assertTrue(error.getMessage().contains("'"), error.getMessage());
        }
    }
}
