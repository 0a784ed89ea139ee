package dev.kilohertz;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * What a stream is to bring: which series, how often, and when. The nodes check conditions themselves, and send only rows that are
 * wanted. Each method returns another subscription; this one stays as it is.
 *
 * <pre>{@code
 * Subscription full = Subscription.of("node[1-8]:mem.*").rate("10Hz").when("node_load1 > 8").holdFor("5s");
 * }</pre>
 *
 * <p>Durations are texts with their unit ({@code 500ms}, {@code 10s}, {@code 1min}), rates too ({@code 100Hz}, {@code 1kHz}).
 * docs/channels.md says what each condition means. The khz that is asked checks all of them, and refuses what it cannot read.
 */
public final class Subscription {
    private static final String CHANNELS = "/khz/v1/channels/";

    private final String path;
    private final List<String> patterns;
    private final Map<String, String> parameters;

    private Subscription(String path, List<String> patterns, Map<String, String> parameters) {
        this.path = path;
        this.patterns = List.copyOf(patterns);
        this.parameters = parameters;
    }

    /**
     * Rows of series.
     *
     * @param patterns 64 at most, such as {@code node[1-8]:net.*[eth0]}; without one, everything. docs/names.md has the grammar
     * @return a subscription at 1 Hz, without a condition
     */
    public static Subscription of(String... patterns) {
        return new Subscription("/khz/v1/stream", List.of(Objects.requireNonNull(patterns, "patterns")), Map.of());
    }

    /**
     * The rows of a channel: a subscription with conditions that somebody has defined at the hub under a name.
     *
     * @param name the channel
     * @return a subscription that takes no further settings
     */
    public static Subscription channel(String name) {
        return new Subscription(channelPath(Objects.requireNonNull(name, "name")) + "/stream", List.of(), Map.of());
    }

    /** The path of a channel. */
    static String channelPath(String name) {
        return CHANNELS + Query.encode(name);
    }

    private Subscription with(String name, String value) {
        if (isNamed()) {
            throw new IllegalStateException("a channel is defined at the hub, and takes no setting " + name + ": use Subscription.of()");
        }
        Map<String, String> more = new LinkedHashMap<>(parameters);
        more.put(name, value);
        return new Subscription(path, patterns, more);
    }

    /**
     * How often rows are wanted. Nodes gather this often only while somebody wants it.
     *
     * @param rate {@code 100Hz}, {@code 1kHz}, or a period: {@code 5s}
     * @return the changed subscription
     */
    public Subscription rate(String rate) {
        return with("rate", Objects.requireNonNull(rate, "rate"));
    }

    /**
     * Samples at that rate even where the kernel renews the number more slowly.
     *
     * @return the changed subscription
     */
    public Subscription exact() {
        return with("exact", "1");
    }

    /**
     * Only these nodes.
     *
     * @param hostlist such as {@code node[1-8],login*}
     * @return the changed subscription
     */
    public Subscription nodes(String hostlist) {
        return with("nodes", Objects.requireNonNull(hostlist, "hostlist"));
    }

    /**
     * Rows with what an expression gives, as {@code channel.adhoc}, in place of series.
     *
     * @param promql PromQL that nodes can compute: {@code node_load1 / 2}
     * @return the changed subscription
     */
    public Subscription expression(String promql) {
        return with("expr", Objects.requireNonNull(promql, "promql"));
    }

    /**
     * A function of a window of each series, in place of its readings.
     *
     * @param function such as {@code mean 1s}
     * @return the changed subscription
     */
    public Subscription each(String function) {
        return with("each", Objects.requireNonNull(function, "function"));
    }

    /**
     * Rows only while a condition holds.
     *
     * @param promql the condition: {@code node_load1 > 2}
     * @return the changed subscription
     */
    public Subscription when(String promql) {
        return with("when", Objects.requireNonNull(promql, "promql"));
    }

    /**
     * The condition must hold this long first.
     *
     * @param duration such as {@code 10s}
     * @return the changed subscription
     */
    public Subscription holdFor(String duration) {
        return with("for", Objects.requireNonNull(duration, "duration"));
    }

    /**
     * What has begun goes on until this holds.
     *
     * @param promql the condition of the end
     * @return the changed subscription
     */
    public Subscription unless(String promql) {
        return with("unless", Objects.requireNonNull(promql, "promql"));
    }

    /**
     * The condition counts if it held in some of the last rows.
     *
     * @param rows in how many at least
     * @param of of how many
     * @return the changed subscription
     */
    public Subscription atLeast(int rows, int of) {
        return with("at_least", Integer.toString(rows)).with("of", Integer.toString(of));
    }

    /**
     * One row when the condition begins to hold, in place of all while it holds.
     *
     * @return the changed subscription
     */
    public Subscription once() {
        return with("once", "1");
    }

    /**
     * With {@link #once}: no other row for this long.
     *
     * @param duration such as {@code 1min}
     * @return the changed subscription
     */
    public Subscription quiet(String duration) {
        return with("quiet", Objects.requireNonNull(duration, "duration"));
    }

    /**
     * One row at most in each interval.
     *
     * @param duration the length of an interval: {@code 1s}
     * @return the changed subscription
     */
    public Subscription every(String duration) {
        return with("every", Objects.requireNonNull(duration, "duration"));
    }

    /**
     * Leaves out rows that differ little from the one before.
     *
     * @param difference a share, a difference, or both: {@code 5%}
     * @return the changed subscription
     */
    public Subscription deadband(String difference) {
        return with("deadband", Objects.requireNonNull(difference, "difference"));
    }

    /**
     * While the condition does not hold, rows come all the same, and nodes gather more slowly.
     *
     * @param times how many times more slowly
     * @return the changed subscription
     */
    public Subscription slower(int times) {
        return with("slower", Integer.toString(times));
    }

    /**
     * Rows of before the condition begins to hold, too.
     *
     * @param duration of how long before
     * @return the changed subscription
     */
    public Subscription before(String duration) {
        return with("before", Objects.requireNonNull(duration, "duration"));
    }

    /**
     * Rows of after the condition has held, too.
     *
     * @param duration of how long after
     * @return the changed subscription
     */
    public Subscription after(String duration) {
        return with("after", Objects.requireNonNull(duration, "duration"));
    }

    /** The path and query of its stream. Rows after the first have only what changed. */
    String url() {
        Query query = new Query(path);
        patterns.forEach(pattern -> query.add("match", pattern));
        parameters.forEach(query::add);
        return query.add("changes", "1").toString();
    }

    /** The same as the definition of a channel. */
    String definition() {
        JsonWriter json = new JsonWriter();
        if (!patterns.isEmpty()) {
            json.field("series", patterns);
        }
        parameters.forEach((name, value) -> {
            switch (name) {
                case "at_least", "of", "slower" -> json.plain(name, value);
                case "exact", "once" -> json.plain(name, "true");
                default -> json.field(name, value);
            }
        });
        return json.toString();
    }

    /** True if it names a channel, and is none itself. */
    boolean isNamed() {
        return path.startsWith(CHANNELS);
    }

    /** The names and values of what was set. */
    @Override
    public String toString() {
        return new ArrayList<>(patterns) + " " + parameters;
    }
}
