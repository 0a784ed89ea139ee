package dev.kilohertz.gather;

/**
 * Ticks at the multiples of a period in wall-clock time, with the definitions of {@code bench/c/paced.c}: a tick is late when it starts
 * more than a tenth of the period (at least 100 us, at most 10 ms) after its time; it is missed when the next one is already due, and is
 * then skipped.
 */
final class Pacer {
    private static final long LATE_MIN = 100_000;
    private static final long LATE_MAX = 10_000_000;

    private final Clocks clocks;
    private final long period;
    private final long lateAfter;
    private long due;
    private long first;
    private long last;
    private long ticks;
    private long late;
    private long missed;

    Pacer(Clocks clocks, long rate) {
        this.clocks = clocks;
        period = Clocks.SECOND / rate;
        lateAfter = Math.clamp(period / 10, LATE_MIN, LATE_MAX);
    }

    /** Sleeps until the next tick; returns its time. */
    long sleep() {
        due = (clocks.realTime() / period + 1) * period;
        if (last != 0 && due > last + period) {
            missed += (due - last) / period - 1;
        }
        clocks.sleepUntil(due);
        return due;
    }

    /** The tick begins; returns how long after its time, in nanoseconds. */
    long begin() {
        long after = clocks.realTime() - due;
        if (after > lateAfter) {
            late++;
        }
        return after;
    }

    /** The tick's work is done. */
    void done() {
        if (first == 0) {
            first = due;
        }
        last = due;
        ticks++;
    }

    long ticks() {
        return ticks;
    }

    long late() {
        return late;
    }

    long missed() {
        return missed;
    }

    /** From the first tick's time to the last one's. */
    long span() {
        return last - first;
    }
}
