package dev.kilohertz.gather;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/**
 * Clocks of the C library, and a sleep until a time of the wall clock. The JDK sleeps only for a duration: what passes between the
 * look at the clock and the sleep comes on top. Its ProcessCpuTime may count in steps of 10 ms; the clock here counts nanoseconds. Not
 * safe for several threads at once.
 */
@SuppressWarnings("restricted")
final class Clocks {
    static final long SECOND = 1_000_000_000;

    private static final int CALLS_UNTIL_WARM = 300;
    private static final int REALTIME = 0;
    private static final int PROCESS_CPU = 2;
    private static final int ABSOLUTE = 1;

    private static final MethodHandle GETTIME =
            function("clock_gettime", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS));
    private static final MethodHandle NANOSLEEP =
            function("clock_nanosleep", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS, ADDRESS));

    private final MemorySegment time = Arena.ofAuto().allocate(JAVA_LONG, 2);

    private static MethodHandle function(String name, FunctionDescriptor type) {
        Linker linker = Linker.nativeLinker();
        return linker.downcallHandle(linker.defaultLookup().findOrThrow(name), type);
    }

    /**
     * Calls each function some hundred times. The JVM remakes a method handle once, after 127 calls, and allocates for it; at a low
     * rate that would be seconds after the start.
     */
    void warm() {
        for (int call = 0; call < CALLS_UNTIL_WARM; call++) {
            realTime();
            sleepUntil(0);
        }
    }

    /** The wall clock, in nanoseconds since 1970. */
    long realTime() {
        return read(REALTIME);
    }

    /** CPU nanoseconds of all threads of this process, those that have ended included. */
    long processCpu() {
        return read(PROCESS_CPU);
    }

    private long read(int clock) {
        try {
            int error = (int) GETTIME.invokeExact(clock, time);
            if (error != 0) {
                throw new IllegalStateException("clock_gettime fails for clock " + clock);
            }
        } catch (Throwable problem) {
            throw bug(problem);
        }
        return time.getAtIndex(JAVA_LONG, 0) * SECOND + time.getAtIndex(JAVA_LONG, 1);
    }

    /** Sleeps until this time of the wall clock. A signal does not end the sleep. */
    void sleepUntil(long nanos) {
        time.setAtIndex(JAVA_LONG, 0, nanos / SECOND);
        time.setAtIndex(JAVA_LONG, 1, nanos % SECOND);
        int error = Errno.INTR;
        while (error == Errno.INTR) {
            try {
                error = (int) NANOSLEEP.invokeExact(REALTIME, ABSOLUTE, time, MemorySegment.NULL);
            } catch (Throwable problem) {
                throw bug(problem);
            }
        }
        if (error != 0) {
            throw new IllegalStateException("clock_nanosleep: " + Errno.words(error));
        }
    }

    private static RuntimeException bug(Throwable problem) {
        if (problem instanceof Error error) {
            throw error;
        }
        if (problem instanceof RuntimeException known) {
            return known;
        }
        return new IllegalStateException("BUG: a native call with a wrong type", problem);
    }
}
