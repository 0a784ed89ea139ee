package dev.kilohertz.gather;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
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

/**
 * Ways to read a file that is kept open, each until its text is in an array. A mapped file is not among them: the kernel refuses to map
 * files of /proc.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(value = 1, jvmArgsAppend = "--enable-native-access=ALL-UNNAMED")
@SuppressWarnings("restricted")
public class AccessBench {
    private static final Linker LINKER = Linker.nativeLinker();
    private static final MethodHandle PREAD = handle();
    private static final MethodHandle CRITICAL = handle(Linker.Option.critical(false));
    private static final MethodHandle HEAP = handle(Linker.Option.critical(true));
    private static final int SIZE = 8_192;

    /** The file below /proc. */
    @Param({"meminfo", "uptime"})
    public String file;

    private final byte[] bytes = new byte[SIZE];
    private final MemorySegment heap = MemorySegment.ofArray(bytes);
    private final MemorySegment buffer = Arena.ofAuto().allocate(SIZE, 64);
    private final ByteBuffer direct = ByteBuffer.allocateDirect(SIZE);
    private RandomAccessFile random;
    private FileChannel channel;
    private int number;

    private static MethodHandle handle(Linker.Option... options) {
        return LINKER.downcallHandle(LINKER.defaultLookup().findOrThrow("pread"),
                FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG), options);
    }

    /** Opens the file in every way. */
    @Setup(Level.Trial)
    public void open() throws IOException {
        Path path = Path.of("/proc").resolve(file);
        random = new RandomAccessFile(path.toFile(), "r");
        channel = FileChannel.open(path, StandardOpenOption.READ);
        number = new ForeignKernelAccess().open(path.toString());
    }

    /** Closes what can be closed. */
    @TearDown(Level.Trial)
    public void close() throws IOException {
        random.close();
        channel.close();
    }

    /** RandomAccessFile: a seek and a read. */
    @Benchmark
    public int randomAccessFile() throws IOException {
        random.seek(0);
        return random.read(bytes);
    }

    /** FileChannel: a positional read into a direct buffer, copied to the array. */
    @Benchmark
    public int fileChannel() throws IOException {
        int got = channel.read(direct.clear(), 0);
        direct.get(0, bytes, 0, got);
        return got;
    }

    /** pread through the Foreign Function and Memory API, copied to the array. */
    @Benchmark
    public int pread() throws Throwable {
        long got = (long) PREAD.invokeExact(number, buffer, (long) SIZE, 0L);
        MemorySegment.copy(buffer, JAVA_BYTE, 0, bytes, 0, (int) got);
        return (int) got;
    }

    /** The same as a critical call, for which the garbage collector waits. */
    @Benchmark
    public int preadCritical() throws Throwable {
        long got = (long) CRITICAL.invokeExact(number, buffer, (long) SIZE, 0L);
        MemorySegment.copy(buffer, JAVA_BYTE, 0, bytes, 0, (int) got);
        return (int) got;
    }

    /** A critical call that writes into the array itself. */
    @Benchmark
    public int preadHeap() throws Throwable {
        return (int) (long) HEAP.invokeExact(number, heap, (long) SIZE, 0L);
    }

    /** pread without a copy, for comparison. */
    @Benchmark
    public int preadOnly() throws Throwable {
        return (int) (long) PREAD.invokeExact(number, buffer, (long) SIZE, 0L);
    }

    /** Opens a file by its number. */
    private static final class ForeignKernelAccess {
        private static final MethodHandle OPEN = LINKER.downcallHandle(LINKER.defaultLookup().findOrThrow("open"),
                FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT), Linker.Option.firstVariadicArg(2));

        int open(String path) throws IOException {
            try (Arena ofCall = Arena.ofConfined()) {
                int opened = (int) OPEN.invokeExact(ofCall.allocateFrom(path), 0);
                if (opened < 0) {
                    throw new IOException(path + " cannot be opened");
                }
                return opened;
            } catch (IOException refused) {
                throw refused;
            } catch (Throwable impossible) {
                throw new AssertionError("BUG: a native call with a wrong type", impossible);
            }
        }
    }
}
