package dev.kilohertz;

import java.time.Instant;
import java.util.List;

/**
 * One series of one node over some time: its readings, or points that sum them up.
 *
 * @param node the node
 * @param series what it is
 * @param step parts of one node with the same step have the same rows
 * @param rows every reading; empty if points were asked for
 * @param points what the series did in equal times; empty if points were not asked for
 */
public record RangePart(String node, Series series, String step, List<PastReading> rows, List<Point> points) {
    /** Copies the lists. */
    public RangePart {
        rows = List.copyOf(rows);
        points = List.copyOf(points);
    }

    /**
     * A reading of the past.
     *
     * @param time when it was gathered
     * @param bootNanos nanoseconds since the node was booted
     * @param reading the value, or why there is none
     */
    public record PastReading(Instant time, long bootNanos, Reading reading) {}

    /**
     * What a series did for the width of a point ({@link RangeStream#width}). Readings without a value do not count, and where there
     * is no value there is no point.
     *
     * @param time when it begins
     * @param count how many values it has
     * @param first the first value
     * @param last the last value
     * @param lowest the lowest value; null for labels
     * @param highest the highest value; null for labels
     * @param sum all values together; null for labels
     * @param resets how many times the value fell: for a counter, how often it began again; a gauge falls in ordinary life
     */
    public record Point(Instant time, long count, Reading first, Reading last, Reading lowest, Reading highest, Reading sum, long resets) {
        /**
         * The mean.
         *
         * @return the mean of the values; NaN for labels
         */
        public double mean() {
            return sum == null ? Double.NaN : sum.doubleValue() / count;
        }
    }
}
