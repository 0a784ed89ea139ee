package dev.kilohertz;

import java.time.Duration;
import java.util.List;

/** What the readings of a node's rows mean. It stays the same object until the node's columns or rate change. */
public final class Columns {
    private final String node;
    private final String rate;
    private final Duration period;
    private final SeriesTable series;

    Columns(String node, String rate, Duration period, SeriesTable series) {
        this.node = node;
        this.rate = rate;
        this.period = period;
        this.series = series;
    }

    /**
     * Whose rows they are.
     *
     * @return the name of the node
     */
    public String node() {
        return node;
    }

    /**
     * The rate at which rows come. It is slower than asked if the node would exceed its CPU ceiling.
     *
     * @return such as {@code 100Hz}
     */
    public String rate() {
        return rate;
    }

    /**
     * The same as the time between two rows.
     *
     * @return such as 10 ms
     */
    public Duration period() {
        return period;
    }

    /**
     * The series, in the order of the readings.
     *
     * @return the list
     */
    public List<Series> series() {
        return series.all();
    }

    /** Node, rate and names of the series. */
    @Override
    public String toString() {
        return node + " at " + rate + ": " + series().stream().map(Series::name).toList();
    }

    /**
     * Where a series is.
     *
     * @param name metric and instance: {@code net.rx_bytes[eth0]}
     * @return its place among the readings, or -1 if there is no such series
     */
    public int indexOf(String name) {
        return series.indexOf(name);
    }
}
