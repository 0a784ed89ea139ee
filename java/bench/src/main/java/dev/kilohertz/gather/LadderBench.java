package dev.kilohertz.gather;

import java.io.IOException;
import java.util.Map;
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

/** The ladder of {@link LadderWays}, step by step. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(value = 1, jvmArgsAppend = "--enable-native-access=ALL-UNNAMED")
public class LadderBench {
    private LadderWays ways;

    /** Opens the files that are kept open. */
    @Setup(Level.Trial)
    public void open() throws IOException {
        ways = new LadderWays();
    }

    /** Closes them. */
    @TearDown(Level.Trial)
    public void close() throws IOException {
        ways.close();
    }

    /** Step 1. */
    @Benchmark
    public Map<String, Long> step1Character() throws IOException {
        return ways.character();
    }

    /** Step 2, line by line. */
    @Benchmark
    public Map<String, Long> step2Stream() throws IOException {
        return ways.stream();
    }

    /** Step 2, in one block. */
    @Benchmark
    public Map<String, Long> step2Block() throws IOException {
        return ways.block();
    }

    /** Step 3. */
    @Benchmark
    public int step3Plain() throws IOException {
        return ways.plain();
    }

    /** Step 4 by RandomAccessFile. */
    @Benchmark
    public int step4RandomAccessFile() throws IOException {
        return ways.keptRandom();
    }

    /** Step 4 by FileChannel. */
    @Benchmark
    public int step4FileChannel() throws IOException {
        return ways.keptChannel();
    }

    /** Step 4 by pread. */
    @Benchmark
    public int step4Pread() {
        return ways.keptForeign();
    }

    /** Step 5: the gatherer. */
    @Benchmark
    public long step5Ours() {
        return ways.ours();
    }
}
