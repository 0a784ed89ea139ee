package dev.kilohertz;

import java.time.Instant;
import java.util.List;

/**
 * What a node measured at one instant.
 *
 * @param columns what the readings mean
 * @param readings one for each column
 * @param time when, by the node's clock
 * @param bootNanos the same as nanoseconds since the node was booted: take differences of these for rates, because setting the clock
 *     does not touch them
 * @param lost how many rows before this one were lost on the way, or dropped because this reader was slow
 */
public record Row(Columns columns, List<Reading> readings, Instant time, long bootNanos, long lost) implements Event {
    /**
     * Whose row it is.
     *
     * @return the name of the node
     */
    public String node() {
        return columns.node();
    }

    /**
     * A reading by its name.
     *
     * @param name metric and instance: {@code net.rx_bytes[eth0]}
     * @return the reading; absent if the node has no such series
     */
    public Reading reading(String name) {
        int i = columns.indexOf(name);
        return i < 0 ? new Reading.Absent("the node has no such series") : readings.get(i);
    }

    /**
     * A value by its name, as the nearest double.
     *
     * @param name metric and instance
     * @return NaN if there is no value
     */
    public double doubleValue(String name) {
        return reading(name).doubleValue();
    }
}
