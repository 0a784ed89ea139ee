package dev.kilohertz.micrometer;

import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.Snapshot;

/**
 * The value of a counter, as monitors expect one: it falls only when it begins again. The kernel's idle and iowait times may step
 * back a little, which would be taken for a restart, and the whole value for an increase.
 */
final class CounterValue {
    /** A fall below this part of the highest value is a new beginning. */
    private static final double RESTARTED = 0.5;

    private final LiveSnapshot node;
    private final Snapshot.Handle handle;
    private final boolean isSinceNow;
    /** What is not counted; NaN until the first value. */
    private double base;
    private double highest = Double.NaN;

    private CounterValue(LiveSnapshot node, Snapshot.Handle handle, boolean isSinceNow) {
        this.node = node;
        this.handle = handle;
        this.isSinceNow = isSinceNow;
        this.base = isSinceNow ? Double.NaN : 0;
    }

    /** As the kernel counts, mostly since the start of the machine. */
    static CounterValue ofKernel(LiveSnapshot node, Snapshot.Handle handle) {
        return new CounterValue(node, handle, false);
    }

    /** What is counted from now on; it never falls. */
    static CounterValue sinceNow(LiveSnapshot node, Snapshot.Handle handle) {
        CounterValue counter = new CounterValue(node, handle, true);
        counter.get();
        return counter;
    }

    /** NaN if it is unknown. Threads that scrape at the same time get the same. */
    double get() {
        return counted(node.doubleValue(handle));
    }

    /** The count at a value of the kernel. */
    synchronized double counted(double value) {
        if (Double.isNaN(value)) {
            return value;
        }
        if (Double.isNaN(base)) {
            base = value;
        }
        if (value < highest * RESTARTED) {
            restart(value);
        } else if (!(value < highest)) {
            highest = value;
        }
        return highest - base;
    }

    private void restart(double value) {
        if (isSinceNow) {
            // What was counted before stays counted.
            base -= highest;
        }
        highest = value;
    }
}
