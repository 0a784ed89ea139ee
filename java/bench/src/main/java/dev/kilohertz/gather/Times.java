package dev.kilohertz.gather;

import java.util.Arrays;

/** Durations in nanoseconds, in their order. The room is there from the start: to add one allocates nothing. */
final class Times {
    /** So many in a row have their median compared: a single interruption does not move it. */
    private static final int ROW = 11;

    private final int[] nanos;
    private int count;

    Times(int most) {
        nanos = new int[most];
    }

    /** Keeps one, if there is room. */
    void add(long duration) {
        if (count < nanos.length) {
            nanos[count++] = (int) Math.min(duration, Integer.MAX_VALUE);
        }
    }

    int count() {
        return count;
    }

    void clear() {
        count = 0;
    }

    Long median() {
        return median(0, count);
    }

    /** The median of the first ones, at most so many. */
    Long medianOfFirst(int most) {
        return median(0, Math.min(most, count));
    }

    /** The median of the last ones, at most so many. */
    Long medianOfLast(int most) {
        return median(Math.max(0, count - most), count);
    }

    /** The number of the first one, from 1 on, from which eleven in a row have a median of at most {@code limit}; null if there is none. */
    Integer firstWithin(long limit) {
        for (int from = 0; from + ROW <= count; from++) {
            if (median(from, from + ROW) <= limit) {
                return from + 1;
            }
        }
        return null;
    }

    private Long median(int from, int to) {
        if (from >= to) {
            return null;
        }
        int[] sorted = Arrays.copyOfRange(nanos, from, to);
        Arrays.sort(sorted);
        return (long) sorted[sorted.length / 2];
    }
}
