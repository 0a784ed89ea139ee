package dev.kilohertz.gather;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.LongSupplier;

/**
 * Gathers the numbers of this host for many readers: it reads five files below {@code /proc} ({@code stat}, {@code meminfo},
 * {@code loadavg}, {@code uptime}, {@code net/dev}), keeps them open, and parses only what changed. Each thread that wants numbers
 * makes its own {@link Sample}; all who ask within a source's window share one gather.
 *
 * <p>From JDK 22 on it calls {@code pread} of the C library, which the program must allow:
 * {@code --enable-native-access=dev.kilohertz.gather}, or {@code ALL-UNNAMED} on the class path. On JDK 17 to 21, or with
 * {@link Options#nativeAccess nativeAccess(false)}, it reads through {@link java.nio.channels.FileChannel}. That is slower, and its
 * stamps are whole milliseconds.
 *
 * <pre>{@code
 * try (Gatherer gatherer = Gatherer.open()) {
 *     Sample sample = gatherer.sample();
 *     int idle = sample.find("cpu.all.idle");
 *     sample.take();
 *     System.out.println(sample.text(idle)); // 4090.19, in seconds
 * }
 * }</pre>
 */
public final class Gatherer implements AutoCloseable {
    private static final Path LIVE_ROOT = Path.of("/");

    private final Kernel kernel;
    private final Source[] sources;
    private final LongSupplier clock;
    private final Room room = new Room();
    private boolean isClosed;

    private Gatherer(Options options) {
        boolean isLive = options.root.equals(LIVE_ROOT);
        if (isLive && TickLength.ofThisKernel() != TickLength.USUAL) {
            throw new GatherException("this kernel counts CPU time " + TickLength.ofThisKernel()
                    + " times a second (USER_HZ); only " + TickLength.USUAL + " is supported");
        }
        clock = options.clock;
        kernel = options.nativeAccess ? Kernels.fastest() : new ChannelKernel();
        sources = new Source[Catalogue.FILES.size()];
        for (int number = 0; number < sources.length; number++) {
            KernelFile file = Catalogue.FILES.get(number);
            String path = options.root.resolve("proc").resolve(file.name()).toString();
            long window = options.windows.getOrDefault(file.name(), options.window).toNanos();
            sources[number] = new Source(file, new KernelText(kernel, path, file.longestRecord()), window);
        }
        gatherFirst(options.root);
    }

    private void gatherFirst(Path root) {
        long now = clock.getAsLong();
        long stamp = kernel.realTime();
        boolean isAnyThere = false;
        for (Source source : sources) {
            source.gather(room, now, stamp);
            isAnyThere |= source.status().bytes() > 0;
        }
        if (!isAnyThere) {
            kernel.closeAll();
            throw new GatherException("nothing can be read below " + root + ": " + sources[0].status().problem()
                    + "; is /proc mounted there?");
        }
    }

    /**
     * Opens the files of this host. All who ask within a millisecond share a gather.
     *
     * @return the gatherer
     * @throws GatherException if nothing can be read, or native access is not enabled
     */
    public static Gatherer open() {
        return with().open();
    }

    /**
     * Opens a gatherer for one reader.
     *
     * @return the only sample, whose {@code close} closes the files
     * @throws GatherException if nothing can be read, or native access is not enabled
     */
    public static Sample openSample() {
        return with().openSample();
    }

    /**
     * Begins a gatherer with other options than the usual ones.
     *
     * @return the options
     */
    public static Options with() {
        return new Options();
    }

    /** What can be chosen for a gatherer. */
    public static final class Options {
        private static final Duration WINDOW_MAX = Duration.ofDays(365);

        private Path root = LIVE_ROOT;
        private boolean nativeAccess = true;
        private LongSupplier clock = System::nanoTime;
        private Duration window = Duration.ofMillis(1);
        private final Map<String, Duration> windows = new HashMap<>();

        private Options() {
        }

        /**
         * Reads a captured host: files below {@code root/proc}.
         *
         * @param root the directory that stands for {@code /}
         * @return these options
         */
        public Options root(Path root) {
            this.root = Objects.requireNonNull(root, "root");
            return this;
        }

        /**
         * Reads each source at most once in this time, and gives what was read to all who ask within it. The usual value is 1 ms; with 0
         * each request reads.
         *
         * @param window the time
         * @return these options
         */
        public Options window(Duration window) {
            this.window = checked(window);
            return this;
        }

        /**
         * The same for one source, whatever the others have.
         *
         * @param source the source: {@code stat}, {@code meminfo}, {@code loadavg}, {@code uptime} or {@code net/dev}
         * @param window the time
         * @return these options
         */
        public Options window(String source, Duration window) {
            if (Catalogue.FILES.stream().noneMatch(file -> file.name().equals(source))) {
                throw new IllegalArgumentException("there is no source '" + source + "'; there are "
                        + String.join(", ", Catalogue.FILES.stream().map(KernelFile::name).toList()));
            }
            windows.put(source, checked(window));
            return this;
        }

        /**
         * Whether to call the C library (from JDK 22 on). The usual value is true.
         *
         * @param nativeAccess false: read through {@link java.nio.channels.FileChannel}, more slowly
         * @return these options
         */
        public Options nativeAccess(boolean nativeAccess) {
            this.nativeAccess = nativeAccess;
            return this;
        }

        /** Another clock for windows and for times of rest, in nanoseconds: for tests. */
        Options clock(LongSupplier clock) {
            this.clock = clock;
            return this;
        }

        /**
         * Opens the files.
         *
         * @return the gatherer
         * @throws GatherException if nothing can be read, or native access is not enabled
         */
        public Gatherer open() {
            return new Gatherer(this);
        }

        /**
         * Opens the files for one reader.
         *
         * @return the only sample, whose {@code close} closes the files
         * @throws GatherException if nothing can be read, or native access is not enabled
         */
        public Sample openSample() {
            Gatherer gatherer = open();
            return new Sample(gatherer, gatherer.sources.length, true);
        }

        private static Duration checked(Duration window) {
            if (window.isNegative() || window.compareTo(WINDOW_MAX) > 0) {
                throw new IllegalArgumentException("a window of " + window + " is not between 0 and " + WINDOW_MAX);
            }
            return window;
        }
    }

    /**
     * A sample, at first of no number.
     *
     * @return the sample, for one thread
     */
    public Sample sample() {
        return new Sample(this, sources.length, false);
    }

    /**
     * Every metric that a gatherer knows.
     *
     * @return the metrics, in khz's order
     */
    public static List<Metric> metrics() {
        List<Metric> metrics = new ArrayList<>();
        for (KernelFile file : Catalogue.FILES) {
            file.scalars().forEach(entry -> metrics.add(entry.metric()));
            file.grouped().forEach(entry -> metrics.add(entry.metric()));
        }
        return metrics;
    }

    /**
     * Every number that the host has now; the state of some may be that this kernel does not print them. CPUs and interfaces that are gone
     * are not among them. Sources are read if nobody has read them within their window; one that was missing is tried again after 10 s.
     *
     * @return the series, in khz's order; those of the latest gathers if this is closed
     */
    public synchronized List<Series> series() {
        long now = clock.getAsLong();
        long stamp = isClosed ? 0 : kernel.realTime();
        List<Series> series = new ArrayList<>();
        for (Source source : sources) {
            if (!isClosed && source.isDue(now)) {
                source.gather(room, now, stamp);
            }
            series.addAll(source.living());
        }
        return series;
    }

    /**
     * What each source has done, and its latest problem.
     *
     * @return the sources, in khz's order
     */
    public synchronized List<SourceStatus> status() {
        List<SourceStatus> status = new ArrayList<>();
        for (Source source : sources) {
            status.add(source.status());
        }
        return status;
    }

    /**
     * The faults of a source's latest text that was parsed in full, at most eight.
     *
     * @param source the source: {@code stat}, {@code meminfo}, {@code loadavg}, {@code uptime} or {@code net/dev}
     * @return the faults; empty if there is no such source
     */
    public synchronized List<FaultNote> faults(String source) {
        for (int number = 0; number < sources.length; number++) {
            if (Catalogue.FILES.get(number).name().equals(source)) {
                return sources[number].faults();
            }
        }
        return List.of();
    }

    /**
     * Gathers what the sample wants and nobody has read within its window, and copies it. One thread at a time: reading {@code /proc}
     * from several threads is slower than from one.
     */
    synchronized void serve(Sample sample) {
        if (isClosed) {
            throw new IllegalStateException("the gatherer is closed");
        }
        long now = clock.getAsLong();
        long stamp = 0;
        for (int number = 0; number < sources.length; number++) {
            if (sample.wants(number)) {
                Source source = sources[number];
                if (source.isDue(now)) {
                    stamp = stamp == 0 ? kernel.realTime() : stamp;
                    source.gather(room, now, stamp);
                }
                sample.copy(number, source);
            }
        }
    }

    /** Closes the files. Samples keep their last numbers, but cannot take more. */
    @Override
    public synchronized void close() {
        if (!isClosed) {
            isClosed = true;
            kernel.closeAll();
        }
    }
}
