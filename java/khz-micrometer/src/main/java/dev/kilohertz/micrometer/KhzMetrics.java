package dev.kilohertz.micrometer;

import dev.kilohertz.LiveSnapshot;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * Binds the numbers of this machine to a meter registry: gauges, and counters as function counters.
 *
 * <pre>{@code
 * KhzMetrics machine = KhzMetrics.local();
 * machine.bindTo(registry);
 * double free = registry.get("khz.mem.free").gauge().value();
 * }</pre>
 *
 * <p><b>Names.</b> {@code mem.free} becomes {@code khz.mem.free} with the base unit bytes, and {@code net.rx_bytes[eth0]}
 * {@code khz.net.rx.bytes} with the tag {@code device=eth0}. Times of CPUs have a tag {@code mode}: {@code khz.cpu.all} with
 * {@code mode=user}. Labels of a series are tags.
 *
 * <p><b>Values</b> are read when the registry asks, out of shared memory: that takes nanoseconds, and names are looked up once. A
 * value is NaN while it is absent or no agent runs, never 0. When the agent is restarted, its values come back by themselves.
 * Registries that report the increase of each step count from the moment of binding; all others get the kernel's own count, and so
 * do those inside a composite registry.
 *
 * <p><b>What comes and goes.</b> Once in ten seconds, or when {@link #refresh} is called, series that are new get a meter, and those
 * of instances that are gone lose it. A program may start before the agent does.
 */
public final class KhzMetrics implements MeterBinder, AutoCloseable {
    /** More meters than this make registries slow, and are mostly a mistake in a pattern. */
    private static final int METERS_MAX = 10_000;
    private static final Duration REFRESH = Duration.ofSeconds(10);

    private final LiveSnapshot node;
    private final List<SeriesPattern> patterns;
    private final List<SeriesPattern> named;
    private final Tags tags;
    private final int metersMax;
    private final Map<MeterRegistry, BoundMeters> registries = new ConcurrentHashMap<>();
    private final Thread refresher;
    private volatile String failure = "";

    private KhzMetrics(Builder options) {
        node = options.path == null ? LiveSnapshot.local(options.staleAfter) : LiveSnapshot.at(options.path, options.staleAfter);
        patterns = options.patterns;
        named = options.named;
        tags = options.tags;
        metersMax = options.metersMax;
        Duration pause = options.refresh;
        refresher = pause.isZero() ? null : Thread.ofVirtual().name("khz-metrics").start(() -> refreshEvery(pause));
    }

    /**
     * The usual numbers of this machine: CPU time by mode, memory, load, pressure, network, disks.
     *
     * @return what binds them
     */
    public static KhzMetrics local() {
        return builder().build();
    }

    /**
     * Other numbers, or those of another snapshot.
     *
     * @return what makes the binder
     */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * Makes the meters of all series that are there now. Those that come later follow.
     *
     * @param registry where to; a registry that was bound before is refreshed
     */
    @Override
    public void bindTo(MeterRegistry registry) {
        Objects.requireNonNull(registry, "registry");
        registries.computeIfAbsent(registry, r -> new BoundMeters(r, node, patterns, named, tags, metersMax)).refresh();
    }

    /**
     * Makes meters for series that are new, and for those whose meter others have removed; removes those of instances that are gone for
     * three refreshes.
     */
    public void refresh() {
        registries.values().forEach(BoundMeters::refresh);
    }

    /**
     * Why there are no values, or why a series has no meter.
     *
     * @return a sentence that says what to do; empty if an agent runs and every series that is wanted has a meter. It names a pattern of
     *     {@link Builder#series} that nothing matches; the third refresh also logs such a pattern, as a warning. It names a series whose
     *     meter would be one that the registry had before, which is logged too
     */
    public String problem() {
        int leftOut = registries.values().stream().mapToInt(BoundMeters::leftOut).max().orElse(0);
        if (leftOut > 0) {
            return leftOut + " series have no meter: more than " + metersMax + " match. Name fewer with series(), or allow more with metersMax()";
        }
        String problem = failure.isEmpty() ? node.problem() : failure;
        problem = problem.isEmpty() ? first(BoundMeters::collisions) : problem;
        return problem.isEmpty() ? first(BoundMeters::unmatched) : problem;
    }

    private String first(Function<BoundMeters, List<String>> sentences) {
        List<String> all = registries.values().stream().map(sentences).filter(some -> !some.isEmpty()).findFirst().orElse(List.of());
        return all.size() < 2 ? String.join("", all) : all.getFirst() + " (and " + (all.size() - 1) + " more)";
    }

    /** Removes the meters that this made from their registries, and ends reading. Meters of others stay, whatever their names. */
    @Override
    public void close() {
        if (refresher != null) {
            refresher.interrupt();
        }
        registries.values().forEach(BoundMeters::clear);
        registries.clear();
        node.close();
    }

    private void refreshEvery(Duration pause) {
        try {
            while (true) {
                Thread.sleep(pause);
                refreshOrReport();
            }
        } catch (InterruptedException e) {
            // It was closed.
        }
    }

    /** A registry may refuse a meter, and a damaged file ends a read, with any exception: the next refresh is tried all the same. */
    private void refreshOrReport() {
        try {
            refresh();
            failure = "";
        } catch (RuntimeException | InternalError e) {
            failure = "the last refresh failed, the next one tries again: " + OneLine.of(e.toString());
        }
    }

    /** What to bind, and how. */
    public static final class Builder {
        private Path path;
        private List<SeriesPattern> patterns = DefaultSeries.PATTERNS.stream().map(SeriesPattern::parse).toList();
        private List<SeriesPattern> named = List.of();
        private Tags tags = Tags.empty();
        private Duration refresh = REFRESH;
        private Duration staleAfter = LiveSnapshot.STALE_AFTER;
        private int metersMax = METERS_MAX;

        private Builder() {}

        /**
         * Reads another snapshot than that of this machine's agent.
         *
         * @param path as for {@link dev.kilohertz.Snapshot#open}
         * @return this
         */
        public Builder snapshot(Path path) {
            this.path = Objects.requireNonNull(path, "path");
            return this;
        }

        /**
         * Binds these series in place of the usual ones. One that nothing matches is a {@link KhzMetrics#problem}, and is logged: it may be
         * misspelt, or come later.
         *
         * @param wanted names or patterns, as docs/names.md describes them, without a node: {@code mem.*}, {@code net.rx_bytes[eth*]}
         * @return this
         * @throws IllegalArgumentException one of them is no pattern
         */
        public Builder series(String... wanted) {
            named = Stream.of(Objects.requireNonNull(wanted, "wanted")).map(SeriesPattern::parse).toList();
            patterns = named;
            return this;
        }

        /**
         * Binds these series besides the usual ones, or besides those that were named before.
         *
         * @param wanted as for {@link #series}
         * @return this
         * @throws IllegalArgumentException one of them is no pattern
         */
        public Builder alsoSeries(String... wanted) {
            List<SeriesPattern> more = Stream.of(Objects.requireNonNull(wanted, "wanted")).map(SeriesPattern::parse).toList();
            named = Stream.concat(named.stream(), more.stream()).toList();
            patterns = Stream.concat(patterns.stream(), more.stream()).toList();
            return this;
        }

        /**
         * Gives every meter these tags.
         *
         * @param tags such as {@code Tags.of("node", "n1")}
         * @return this
         */
        public Builder tags(Iterable<Tag> tags) {
            this.tags = Tags.of(Objects.requireNonNull(tags, "tags"));
            return this;
        }

        /**
         * How often to check for series that are new or gone.
         *
         * @param pause 10 s unless it is set; zero: only when {@link KhzMetrics#refresh} is called
         * @return this
         */
        public Builder refreshEvery(Duration pause) {
            Objects.requireNonNull(pause, "pause");
            if (pause.isNegative()) {
                throw new IllegalArgumentException("nothing is done every " + pause + ": give a time above zero, or zero for never");
            }
            refresh = pause;
            return this;
        }

        /**
         * How long an agent may be silent before its last values are no longer given.
         *
         * @param silence 10 s unless it is set
         * @return this
         */
        public Builder staleAfter(Duration silence) {
            staleAfter = Objects.requireNonNull(silence, "silence");
            return this;
        }

        /**
         * The most meters in one registry.
         *
         * @param most 10 000 unless it is set
         * @return this
         */
        public Builder metersMax(int most) {
            if (most < 1) {
                throw new IllegalArgumentException(most + " meters are none: allow at least 1");
            }
            metersMax = most;
            return this;
        }

        /**
         * Makes the binder.
         *
         * @return what binds the series
         */
        public KhzMetrics build() {
            return new KhzMetrics(this);
        }
    }
}
