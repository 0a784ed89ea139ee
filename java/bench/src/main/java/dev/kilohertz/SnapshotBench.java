package dev.kilohertz;

import java.nio.file.Path;
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

/** Values out of the shared memory of an agent that runs. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 10, time = 1)
@Fork(value = 1, jvmArgsAppend = "--enable-native-access=ALL-UNNAMED")
public class SnapshotBench {
    /** The agent's file. */
    @Param("")
    public String page;

    private final Latest latest = new Latest();
    private Snapshot snapshot;
    private Snapshot.Handle free;
    private SnapshotRow row;

    /** Opens it. */
    @Setup(Level.Trial)
    public void open() {
        snapshot = Snapshot.open(Path.of(page));
        free = snapshot.handle("mem.free");
        row = snapshot.row("mem.free", "mem.available", "mem.cached");
    }

    /** Closes it. */
    @TearDown(Level.Trial)
    public void close() {
        snapshot.close();
    }

    /** A value as a double. */
    @Benchmark
    public double value() {
        return snapshot.doubleValue(free);
    }

    /** A value with its state and all its digits. */
    @Benchmark
    public boolean exact() {
        return snapshot.read(free, latest);
    }

    /** Three values of one instant. */
    @Benchmark
    public SnapshotRow row() {
        row.read();
        return row;
    }
}
