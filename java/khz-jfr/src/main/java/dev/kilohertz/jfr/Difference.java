package dev.kilohertz.jfr;

import dev.kilohertz.Latest;
import dev.kilohertz.SnapshotRow;
import dev.kilohertz.ValueType;

/** What the counters of one row have counted between two readings. It refuses to guess: what is unknown, or has begun again, is NaN. */
final class Difference {
    private static final double SECOND = 1e9;

    private final SnapshotRow row;
    private final long[] before;
    private final boolean[] isKnownBefore;
    private final double[] counted;
    private long beforeNanos;
    private long nanos;

    Difference(SnapshotRow row) {
        this.row = row;
        this.before = new long[row.size()];
        this.isKnownBefore = new boolean[row.size()];
        this.counted = new double[row.size()];
    }

    /** Reads the row. True if the kernel was read again since the last time, and there was one. */
    boolean read() {
        row.read();
        long now = row.get(0).bootNanos();
        nanos = now - beforeNanos;
        boolean isFirst = beforeNanos == 0;
        beforeNanos = now;
        for (int i = 0; i < counted.length; i++) {
            count(i, row.get(i), isFirst);
        }
        // The same row has no time in it. A machine that has started again counts its time from 0.
        return !isFirst && nanos > 0;
    }

    private void count(int i, Latest value, boolean isFirst) {
        boolean isKnown = value.isPresent() && value.type() != ValueType.FLOAT;
        counted[i] = Double.NaN;
        if (isKnown) {
            long increase = value.unscaled() - before[i];
            if (!isFirst && isKnownBefore[i]) {
                counted[i] = increase / Math.pow(10, value.places());
            }
            before[i] = value.unscaled();
        }
        isKnownBefore[i] = isKnown;
    }

    /** What a counter has counted, in its unit; below zero if it stepped back, NaN if it is unknown. */
    double of(int i) {
        return counted[i];
    }

    /** The same of a counter that never steps back: NaN if it has begun again. */
    double increase(int i) {
        return counted[i] >= 0 ? counted[i] : Double.NaN;
    }

    /** The same for each second. */
    double rate(int i) {
        return increase(i) * SECOND / nanos;
    }

    /** A counted time in nanoseconds; {@link PressureEvent#UNKNOWN} if it is unknown. */
    long nanos(int i) {
        double seconds = increase(i);
        return Double.isNaN(seconds) ? PressureEvent.UNKNOWN : Math.round(seconds * SECOND);
    }

    /** The time between the two readings. */
    long period() {
        return nanos;
    }

    /** The last reading of a value that is no counter. */
    Latest latest(int i) {
        return row.get(i);
    }
}
