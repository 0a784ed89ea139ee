package dev.kilohertz.gather;

import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * What a counter has reached at one source, below which it does not fall at the next one: that may have read the kernel a little earlier.
 * It ends when the other source has counted as far. A counter that has begun anew in this moment never does: for that there is a time.
 */
final class Floor {
    /** Longer than an agent may be silent before it counts as dead (10 s). */
    static final long NANOS_MAX = TimeUnit.SECONDS.toNanos(30);

    private final LongSupplier clock;
    private boolean isSet;
    private long floor;
    private long since;

    Floor(LongSupplier clock) {
        this.clock = clock;
    }

    /** From now on nothing is below this number, which has no sign. */
    void set(long number) {
        isSet = true;
        floor = number;
        since = clock.getAsLong();
    }

    /** The number, or the floor above it. */
    long above(long number) {
        if (!isSet) {
            return number;
        }
        if (Long.compareUnsigned(number, floor) >= 0 || clock.getAsLong() - since >= NANOS_MAX) {
            isSet = false;
            return number;
        }
        return floor;
    }

    void clear() {
        isSet = false;
    }
}
