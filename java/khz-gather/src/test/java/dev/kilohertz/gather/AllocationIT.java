package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

/** A gather allocates nothing: counted by the JVM itself. The first line shows that the count sees an allocation. */
class AllocationIT {
    private static final String NATIVE = "--enable-native-access=ALL-UNNAMED";
    private static final String EXPECTED = """
            an array of two: 32.0
            take: 0.0
            take with a fallback: 0.0
            take through a channel: 0.0
            take through a channel with a fallback: 0.0
            full parse of stat: 0.0
            full parse of meminfo: 0.0
            full parse of loadavg: 0.0
            full parse of uptime: 0.0
            full parse of net/dev: 0.0""";

    /** Without the JIT compiler, which can remove an allocation: so the code itself has none. */
    @Test
    void interpretedCodeAllocatesNothing() throws Exception {
        assertEquals(new Jvm.Output(0, EXPECTED, ""),
                Jvm.onClassPath(AllocationProgram.class, List.of(NATIVE, "-Xint"), "300"));
    }

    @Test
    void compiledCodeAllocatesNothing() throws Exception {
        assertEquals(new Jvm.Output(0, EXPECTED, ""),
                Jvm.onClassPath(AllocationProgram.class, List.of(NATIVE), "5000"));
    }
}
