package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class FallbackTest {
    private static final Long GONE = 0L;

    /** Numbers that a test decides. */
    private static final class Made implements Numbers {
        private final Map<String, Long> values;
        private final List<String> found = new ArrayList<>();
        private long stamp;
        private int takes;
        private boolean isBroken;
        private boolean isClosed;

        Made(long stamp, Map<String, Long> values) {
            this.stamp = stamp;
            this.values = values;
        }

        @Override
        public int find(String series) {
            if (isBroken) {
                throw new IllegalStateException("the agent has ended");
            }
            if (!values.containsKey(series)) {
                throw new IllegalArgumentException(series);
            }
            found.add(series);
            return found.size() - 1;
        }

        @Override
        public boolean take() {
            takes++;
            if (isBroken) {
                throw new IllegalStateException("the agent has ended");
            }
            return true;
        }

        @Override
        public State state(int number) {
            return values.get(found.get(number)) == GONE ? State.INSTANCE_GONE : State.PRESENT;
        }

        @Override
        public long steps(int number) {
            return values.get(found.get(number));
        }

        @Override
        public Metric metric(int number) {
            return new Metric(found.get(number), found.get(number).startsWith("count") ? Kind.COUNTER : Kind.GAUGE, Unit.COUNT, 0, "");
        }

        @Override
        public boolean isChanged(int number) {
            return true;
        }

        @Override
        public long stampNanos() {
            return stamp;
        }

        @Override
        public void close() {
            isClosed = true;
        }
    }

    private static final Duration RETRY = Duration.ofSeconds(10);

    private final Made other = new Made(1, Map.of("a", 1L, "b", 2L));
    private Made better = new Made(2, Map.of("b", 20L, "a", 10L));
    private int opens;
    private long now;
    private boolean isThere = true;
    private final Fallback numbers = new Fallback(this::open, other, RETRY, () -> now);

    private Numbers open() throws IOException {
        opens++;
        if (!isThere) {
            throw new IOException("no agent runs");
        }
        return better;
    }

    @Test
    void theBetterSourceIsUsedWhileItWorks() {
        int b = numbers.find("b");
        int a = numbers.find("a");
        assertTrue(numbers.take());
        assertTrue(numbers.isBetter());
        assertNull(numbers.problem());
        assertEquals(List.of(10L, 20L), List.of(numbers.steps(a), numbers.steps(b)));
        assertEquals(2, numbers.stampNanos());
        assertEquals(0, other.takes, "nobody needs the other one");
        assertFalse(numbers.take());
        assertFalse(numbers.isChanged(a));
    }

    @Test
    void withoutItTheOtherIsUsedAndItIsTriedAgainAfterAWhile() {
        isThere = false;
        int a = numbers.find("a");
        numbers.take();
        assertFalse(numbers.isBetter());
        assertEquals("no agent runs", numbers.problem().getMessage());
        assertEquals(1, numbers.steps(a));
        isThere = true;
        now = RETRY.toNanos() - 1;
        numbers.take();
        assertEquals(1, opens);
        now = RETRY.toNanos();
        assertTrue(numbers.take());
        assertEquals(2, opens);
        assertTrue(numbers.isChanged(a));
        assertEquals(10, numbers.steps(a));
    }

    @Test
    void whenItEndsTheOtherGoesOnAtOnce() {
        int a = numbers.find("a");
        numbers.take();
        better.isBroken = true;
        assertTrue(numbers.take());
        assertTrue(better.isClosed);
        assertEquals(1, numbers.steps(a));
        assertEquals(1, numbers.stampNanos());
        assertEquals("the agent has ended", numbers.problem().getMessage());
        now = RETRY.toNanos();
        better = new Made(3, Map.of("a", 11L));
        assertTrue(numbers.take());
        assertEquals(11, numbers.steps(a));
    }

    @Test
    void aNumberThatOnlyTheOtherHasComesFromThere() {
        better = new Made(2, Map.of("a", 10L));
        int a = numbers.find("a");
        int b = numbers.find("b");
        numbers.take();
        assertEquals(List.of(10L, 2L), List.of(numbers.steps(a), numbers.steps(b)));
        assertEquals(1, other.takes);
        assertEquals("b", numbers.metric(b).name());
    }

    @Test
    void aNumberThatComesLaterIsTakenFromTheBetterSource() {
        Map<String, Long> values = new HashMap<>(Map.of("a", 10L));
        better = new Made(2, values);
        numbers.find("a");
        int b = numbers.find("b");
        numbers.take();
        assertEquals(2, numbers.steps(b));
        assertEquals(1, numbers.stampNanos(), "the older of the two");
        values.put("b", 20L);
        now = RETRY.toNanos();
        numbers.take();
        assertEquals(20, numbers.steps(b));
        assertEquals(2, numbers.stampNanos());
        assertEquals(1, opens);
    }

    @Test
    void aSourceThatFailsWhileANumberIsFoundHasFailed() {
        int a = numbers.find("a");
        numbers.take();
        better.isBroken = true;
        int b = numbers.find("b");
        numbers.take();
        assertFalse(numbers.isBetter());
        assertEquals(List.of(1L, 2L), List.of(numbers.steps(a), numbers.steps(b)));
    }

    @Test
    void countersDoNotFallWhenTheSourceChanges() {
        Map<String, Long> late = new HashMap<>(Map.of("count", 90L, "gauge", 3L));
        Made gatherer = new Made(100, new HashMap<>(Map.of("count", 100L, "gauge", 5L)));
        Made agent = new Made(90, late);
        boolean[] isThere = {false};
        Fallback numbers = new Fallback(() -> {
            if (!isThere[0]) {
                throw new IOException("no agent runs");
            }
            return agent;
        }, gatherer, Duration.ZERO, () -> now);
        int count = numbers.find("count");
        int gauge = numbers.find("gauge");
        numbers.take();
        assertEquals(List.of(100L, 5L), List.of(numbers.steps(count), numbers.steps(gauge)));
        isThere[0] = true;
        assertTrue(numbers.take());
        assertTrue(numbers.isBetter());
        assertEquals(List.of(100L, 3L), List.of(numbers.steps(count), numbers.steps(gauge)));
        assertFalse(numbers.isChanged(count));
        assertEquals(90, numbers.stampNanos());
        late.put("count", 99L);
        numbers.take();
        assertEquals(100, numbers.steps(count));
        late.put("count", 101L);
        numbers.take();
        assertEquals(101, numbers.steps(count));
        late.put("count", 7L);
        numbers.take();
        assertEquals(7, numbers.steps(count), "the kernel has begun anew, and this source says so");
        // And back.
        isThere[0] = false;
        agent.isBroken = true;
        gatherer.values.put("count", 6L);
        numbers.take();
        assertFalse(numbers.isBetter());
        assertEquals(7, numbers.steps(count));
        now = Floor.NANOS_MAX;
        numbers.take();
        assertEquals(6, numbers.steps(count), "it has begun anew in that moment");
    }

    @Test
    void aCounterThatWasGoneBeginsAnew() {
        Map<String, Long> values = new HashMap<>(Map.of("count", 10L));
        better = new Made(2, values);
        Made gatherer = new Made(1, new HashMap<>(Map.of("count", 100L)));
        Fallback numbers = new Fallback(this::open, gatherer, RETRY, () -> now);
        isThere = false;
        int count = numbers.find("count");
        numbers.take();
        isThere = true;
        now = RETRY.toNanos();
        numbers.take();
        assertEquals(100, numbers.steps(count));
        values.put("count", GONE);
        numbers.take();
        assertEquals(State.INSTANCE_GONE, numbers.state(count));
        values.put("count", 1L);
        numbers.take();
        assertEquals(1, numbers.steps(count));
    }

    @Test
    void timesThatCannotBeAreRefusedAndHugeOnesAreNever() {
        assertThrows(IllegalArgumentException.class, () -> new Fallback(this::open, other, Duration.ofNanos(-1)));
        isThere = false;
        Fallback numbers = new Fallback(this::open, other, Duration.ofSeconds(Long.MAX_VALUE), () -> now);
        numbers.take();
        now = Long.MAX_VALUE - 1;
        numbers.take();
        assertEquals(1, opens);
    }

    @Test
    void bothAreClosedInTheEnd() {
        numbers.find("a");
        numbers.take();
        numbers.close();
        assertTrue(better.isClosed && other.isClosed);
    }
}
