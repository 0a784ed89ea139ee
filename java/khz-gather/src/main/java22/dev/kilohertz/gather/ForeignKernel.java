package dev.kilohertz.gather;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;
import java.util.HashSet;
import java.util.Set;

/**
 * The calls of the C library, through the Foreign Function and Memory API.
 *
 * <p>The calls are ordinary ones, not <em>critical</em>: a critical call would save some nanoseconds, but the garbage collector waits
 * for it, and the kernel may take milliseconds to make {@code /proc/stat} of a large machine.
 */
@SuppressWarnings("restricted")
final class ForeignKernel implements Kernel {
    private static final int CLOCK_REALTIME = 0;
    private static final int O_CLOEXEC = 0x80000;
    /** Below a captured root a file could be a pipe without a writer, and opening it would wait. */
    private static final int O_NONBLOCK = 0x800;
    private static final long NANOS_IN_SECOND = 1_000_000_000;

    private static final Linker LINKER = Linker.nativeLinker();
    private static final StructLayout ERRNO = Linker.Option.captureStateLayout();
    private static final VarHandle ERRNO_VALUE =
            ERRNO.varHandle(MemoryLayout.PathElement.groupElement("errno"));

    private static final FunctionDescriptor PREAD_TYPE =
            FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG);
    /** Without the error's number, which costs time. */
    private static final MethodHandle PREAD = function("pread", PREAD_TYPE);
    /** The same with it: for the second try. */
    private static final MethodHandle PREAD_WITH_ERRNO =
            function("pread", PREAD_TYPE, Linker.Option.captureCallState("errno"));
    private static final MethodHandle OPEN =
            function("open", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT),
                    Linker.Option.captureCallState("errno"), Linker.Option.firstVariadicArg(2));
    private static final MethodHandle CLOSE = function("close", FunctionDescriptor.of(JAVA_INT, JAVA_INT));
    private static final MethodHandle CLOCK_GETTIME =
            function("clock_gettime", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS));

    /** A buffer starts at a cache line. */
    private static final long ALIGNMENT = 64;

    /** Memory that the garbage collector frees: a call need not hold it by counting its users. */
    private final Arena arena = Arena.ofAuto();
    private final MemorySegment errno = arena.allocate(ERRNO);
    private final MemorySegment time = arena.allocate(JAVA_LONG, 2);
    private final Set<Integer> files = new HashSet<>();
    private MemorySegment buffer = MemorySegment.NULL;

    private static MethodHandle function(String name, FunctionDescriptor type, Linker.Option... options) {
        MemorySegment symbol = LINKER.defaultLookup().find(name)
                .orElseThrow(() -> new GatherException("the C library of this host has no function " + name));
        return LINKER.downcallHandle(symbol, type, options);
    }

    @Override
    public int open(String path) {
        try (Arena ofCall = Arena.ofConfined()) {
            int file = (int) OPEN.invokeExact(errno, ofCall.allocateFrom(path), O_CLOEXEC | O_NONBLOCK);
            if (file >= 0) {
                files.add(file);
                return file;
            }
            return -(int) ERRNO_VALUE.get(errno, 0L);
        } catch (Throwable impossible) {
            throw bug(impossible);
        }
    }

    @Override
    public int read(int file, byte[] bytes, int at, int count, int offset) {
        if (buffer.byteSize() < count) {
            buffer = Arena.ofAuto().allocate(count, ALIGNMENT);
        }
        try {
            long got = (long) PREAD.invokeExact(file, buffer, (long) count, (long) offset);
            if (got < 0) {
                got = readAgain(file, count, offset);
            }
            if (got > 0) {
                MemorySegment.copy(buffer, JAVA_BYTE, 0, bytes, at, (int) got);
            }
            return (int) got;
        } catch (Throwable impossible) {
            throw bug(impossible);
        }
    }

    private long readAgain(int file, int count, int offset) throws Throwable {
        long got = (long) PREAD_WITH_ERRNO.invokeExact(errno, file, buffer, (long) count, (long) offset);
        return got < 0 ? -(int) ERRNO_VALUE.get(errno, 0L) : got;
    }

    @Override
    public void close(int file) {
        files.remove(file);
        try {
            int ignored = (int) CLOSE.invokeExact(file);
        } catch (Throwable impossible) {
            throw bug(impossible);
        }
    }

    @Override
    public long realTime() {
        try {
            int ignored = (int) CLOCK_GETTIME.invokeExact(CLOCK_REALTIME, time);
        } catch (Throwable impossible) {
            throw bug(impossible);
        }
        return time.getAtIndex(JAVA_LONG, 0) * NANOS_IN_SECOND + time.getAtIndex(JAVA_LONG, 1);
    }

    @Override
    public void closeAll() {
        Set.copyOf(files).forEach(this::close);
    }

    private static AssertionError bug(Throwable impossible) {
        if (impossible instanceof Error error) {
            throw error;
        }
        return new AssertionError("BUG: a native call with a wrong type", impossible);
    }
}
