package dev.kilohertz;

import java.io.IOException;
import java.util.concurrent.TimeUnit;

/**
 * How long the reads of one part of an answer may take together: of its head and body, of an event of a stream, of a part of the past.
 * A peer that sends a byte now and then is never silent, and yet never done. What the program does between two reads does not count.
 */
final class ReadTime {
    private final long maxNanos;
    private boolean isCounting;
    private long spentNanos;

    /** The part takes longer than it may. */
    static final class OverException extends IOException {
        private static final long serialVersionUID = 1;

        private OverException(long nanos) {
            super("after " + TimeUnit.NANOSECONDS.toMillis(nanos) + " ms the answer, or an event or part of it, is still not whole");
        }
    }

    ReadTime(long maxNanos) {
        this.maxNanos = maxNanos;
    }

    /** A part begins, unless one has begun already. */
    void begin() {
        if (!isCounting) {
            isCounting = true;
            spentNanos = 0;
        }
    }

    /** The part is whole: waiting for the next one does not count. */
    void end() {
        isCounting = false;
    }

    /** Counts a read. */
    void add(long nanos) throws OverException {
        if (isCounting) {
            spentNanos += nanos;
            if (spentNanos > maxNanos) {
                throw new OverException(spentNanos);
            }
        }
    }
}
