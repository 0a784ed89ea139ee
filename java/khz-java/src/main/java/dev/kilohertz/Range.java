package dev.kilohertz;

import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** Which part of the past is wanted. Each method returns another one; this one stays as it is. */
public final class Range {
    private final List<String> patterns;
    private final Map<String, String> parameters;

    private Range(List<String> patterns, Map<String, String> parameters) {
        this.patterns = List.copyOf(patterns);
        this.parameters = parameters;
    }

    /**
     * The last ten minutes of series.
     *
     * @param patterns 64 at most; without one, everything
     * @return every reading, without points
     */
    public static Range of(String... patterns) {
        return new Range(List.of(Objects.requireNonNull(patterns, "patterns")), Map.of());
    }

    private Range with(String name, String value) {
        Map<String, String> more = new LinkedHashMap<>(parameters);
        more.put(name, value);
        return new Range(patterns, more);
    }

    /**
     * From a time on.
     *
     * @param time {@code -1h} for an hour ago, {@code 2026-11-21T14:03:20Z}, or seconds since 1970
     * @return the changed range
     */
    public Range from(String time) {
        return with("from", Objects.requireNonNull(time, "time"));
    }

    /**
     * From a time on.
     *
     * @param time the first instant
     * @return the changed range
     */
    public Range from(Instant time) {
        return from(Objects.requireNonNull(time, "time").toString());
    }

    /**
     * Before a time.
     *
     * @param time written as in {@link #from(String)}; {@code now} is the default
     * @return the changed range
     */
    public Range to(String time) {
        return with("to", Objects.requireNonNull(time, "time"));
    }

    /**
     * Before a time.
     *
     * @param time the instant after the last
     * @return the changed range
     */
    public Range to(Instant time) {
        return to(Objects.requireNonNull(time, "time").toString());
    }

    /**
     * Points that sum up equal times, in place of every reading.
     *
     * @param most how many of each series at most
     * @return the changed range
     */
    public Range points(int most) {
        return with("points", Integer.toString(most));
    }

    /**
     * Only the newest reading of each series.
     *
     * @return the changed range
     */
    public Range newest() {
        return with("newest", "1");
    }

    /** The path and query of its answer. */
    String url() {
        Query query = new Query("/khz/v1/range");
        patterns.forEach(pattern -> query.add("match", pattern));
        parameters.forEach(query::add);
        return query.toString();
    }

    /** The patterns, and the names and values of what was set. */
    @Override
    public String toString() {
        return patterns + " " + parameters;
    }
}
