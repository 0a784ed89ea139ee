package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class SourceTest {
    private static final long SECOND = 1_000_000_000L;

    private final OneText kernel = new OneText("1.50 2.00\n".getBytes(StandardCharsets.US_ASCII), Integer.MAX_VALUE);
    private final Room room = new Room();

    private Source source(long window) {
        return new Source(new UptimeFile(), new KernelText(kernel, "known", KernelFile.WHOLE), window);
    }

    @Test
    void aSourceIsDueOnceItsWindowIsOver() {
        Source source = source(5);
        assertTrue(source.isDue(-100));
        source.gather(room, 100, 7);
        assertFalse(source.isDue(104));
        assertTrue(source.isDue(105));
        assertEquals(7, source.stamp());
    }

    @Test
    void aMissingSourceIsTriedAgainAfterAWhileAndThenReadAsOften() {
        kernel.isMissing = true;
        Source source = source(0);
        source.gather(room, 0, 1);
        assertTrue(source.readings().is(0, State.NO_SOURCE));
        assertFalse(source.isDue(10 * SECOND - 1));
        assertTrue(source.isDue(10 * SECOND));
        kernel.isMissing = false;
        source.gather(room, 10 * SECOND, 2);
        assertTrue(source.readings().is(0, State.PRESENT));
        assertEquals(150, source.readings().value(0));
        assertTrue(source.isDue(10 * SECOND));
    }
}
