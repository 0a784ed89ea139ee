package dev.kilohertz.gather;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/** All five files together: as a program gathers them, and without what several readers need. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(value = 1, jvmArgsAppend = "--enable-native-access=ALL-UNNAMED")
public class AllFilesBench {
    private final Room room = new Room();
    private Source[] sources;
    private Gatherer gatherer;
    private Gatherer channelGatherer;
    private Gatherer sharedGatherer;
    private Sample sample;
    private Sample channelSample;
    private Sample sharedSample;
    private long now;

    /** Opens everything. */
    @Setup(Level.Trial)
    public void open() {
        Kernel kernel = Kernels.fastest();
        sources = Catalogue.FILES.stream()
                .map(file -> new Source(file, new KernelText(kernel, "/proc/" + file.name(), file.longestRecord()), 0))
                .toArray(Source[]::new);
        gatherer = Gatherer.with().window(Duration.ZERO).open();
        sample = sampleOfAll(gatherer);
        channelGatherer = Gatherer.with().window(Duration.ZERO).nativeAccess(false).open();
        channelSample = sampleOfAll(channelGatherer);
        sharedGatherer = Gatherer.with().window(Duration.ofHours(1)).open();
        sharedSample = sampleOfAll(sharedGatherer);
    }

    private static Sample sampleOfAll(Gatherer gatherer) {
        Sample sample = gatherer.sample();
        gatherer.series().forEach(series -> sample.find(series.toString()));
        return sample;
    }

    /** Closes the files. */
    @TearDown(Level.Trial)
    public void close() {
        gatherer.close();
        channelGatherer.close();
        sharedGatherer.close();
    }

    /** Gather and parse, as khz's own benchmark does. */
    @Benchmark
    public void gatherAndParse() {
        now++;
        for (Source source : sources) {
            source.gather(room, now, now);
        }
    }

    /** The same with clocks, a lock and a copy of every number for one reader. */
    @Benchmark
    public boolean take() {
        return sample.take();
    }

    /** The same through FileChannel. */
    @Benchmark
    public boolean takeByChannel() {
        return channelSample.take();
    }

    /** A reader who comes within the window: somebody else has gathered. */
    @Benchmark
    public boolean takeShared() {
        return sharedSample.take();
    }
}
