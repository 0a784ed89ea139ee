package dev.kilohertz.gather;

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
import org.openjdk.jmh.annotations.Warmup;

/** Each of the five files: the bare read, the parse of captured texts, and both together, as in khz's own table. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(value = 1, jvmArgsAppend = "--enable-native-access=ALL-UNNAMED")
public class FiveFilesBench {
    /** The file below /proc. */
    @Param({"stat", "meminfo", "loadavg", "uptime", "net/dev"})
    public String file;

    private final Room room = new Room();
    private KernelText text;
    private KernelText textForSource;
    private Source source;
    private Parser replayed;
    private Frames frames;
    private long now;

    /** Opens the file twice, and captures its texts. */
    @Setup(Level.Trial)
    public void open() {
        KernelFile kernelFile =
                Catalogue.FILES.stream().filter(one -> one.name().equals(file)).findFirst().orElseThrow();
        Kernel kernel = Kernels.fastest();
        text = new KernelText(kernel, "/proc/" + file, kernelFile.longestRecord());
        textForSource = new KernelText(kernel, "/proc/" + file, kernelFile.longestRecord());
        source = new Source(kernelFile, textForSource, 0);
        replayed = new Parser(kernelFile);
        frames = Frames.capture(kernelFile);
    }

    /** A bare read of the file kept open. */
    @Benchmark
    public int load() {
        return text.read(room);
    }

    /** Copies and parses a captured text. */
    @Benchmark
    public boolean parse() {
        byte[] captured = frames.next();
        return replayed.advance(room, room.fill(captured, 0, captured.length));
    }

    /** Reads and parses. */
    @Benchmark
    public long total() {
        source.gather(room, now++, now);
        return source.readings().changes();
    }
}
