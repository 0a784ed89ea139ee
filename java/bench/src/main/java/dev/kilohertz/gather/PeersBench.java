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
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/** The gatherer beside OSHI (through JNA), which gives some of the same values. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(value = 1, jvmArgsAppend = "--enable-native-access=ALL-UNNAMED")
public class PeersBench {
    /** Whether OSHI reads at each call. Otherwise it gives values again for 300 ms, as it does by default. */
    @Param({"true", "false"})
    public boolean isFresh;

    private OshiNumbers oshi;
    private Gatherer gatherer;
    private Sample sample;

    /** Makes both. */
    @Setup(Level.Trial)
    public void open() {
        oshi = new OshiNumbers(isFresh);
        gatherer = Gatherer.with().window(Duration.ZERO).open();
        sample = gatherer.sample();
        gatherer.series().forEach(series -> sample.find(series.toString()));
    }

    /** Closes the files. */
    @TearDown(Level.Trial)
    public void close() {
        gatherer.close();
    }

    /** OSHI. */
    @Benchmark
    public long oshi() {
        return oshi.read();
    }

    /** The gatherer, always fresh, with every value of the five files. */
    @Benchmark
    public boolean ours() {
        return sample.take();
    }
}
