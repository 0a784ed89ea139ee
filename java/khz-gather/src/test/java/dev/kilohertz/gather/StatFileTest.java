package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class StatFileTest {
    private static final String TEXT = """
            cpu  699 0 283 87380 93 0 9 1 0 0
            cpu0 237 0 119 43858 1 0 2 0 0 0
            cpu1 462 0 163 43522 92 0 7 0 0 0
            intr 4711 0 9 0
            ctxt 5120
            btime 1763690000
            processes 2221
            procs_running 1
            procs_blocked 0
            softirq 9 1 2
            """;

    private static Read read(String text) {
        return Read.of(new StatFile(), text);
    }

    @Test
    void theWholeFile() {
        Read read = read(TEXT);
        assertEquals(List.of(), read.faults());
        Map<String, String> expected = Map.of("cpu.all.user", "699", "cpu.all.guest_nice", "0", "cpu.idle[0]", "43858",
                "cpu.softirq[1]", "7", "kernel.interrupts", "4711", "kernel.context_switches", "5120",
                "kernel.boot_time", "1763690000", "kernel.forks", "2221", "kernel.procs_running", "1",
                "kernel.procs_blocked", "0");
        expected.forEach((series, value) -> assertEquals(value, read.get(series), series));
    }

    @Test
    void cpu1IsNeverTakenForCpu() {
        Read read = read(TEXT.replace("cpu  699 0 283 87380 93 0 9 1 0 0\n", ""));
        assertEquals("NO_FIELD", read.get("cpu.all.user"));
        assertEquals("462", read.get("cpu.user[1]"));
        assertEquals("699", read("cpu1 462 0\ncpu0 237 0\ncpu  699 0\n").get("cpu.all.user"));
        assertEquals("7", read("cpu1000 5\ncpu100 6\ncpu10 7\ncpu 8\n").get("cpu.user[10]"));
    }

    @Test
    void aCpuThatGoesIsAbsentAndKeepsItsSlots() {
        Read read = read(TEXT);
        int slot = read.parser().slots().find("1", 0);
        read.advance(TEXT.replace("cpu1 462 0 163 43522 92 0 7 0 0 0\n", ""));
        assertEquals("INSTANCE_GONE", read.get("cpu.user[1]"));
        assertEquals("237", read.get("cpu.user[0]"));
        read.advance(TEXT.replace("cpu1", "cpu2"));
        assertEquals("462", read.get("cpu.user[2]"));
        read.advance(TEXT);
        assertEquals("462", read.get("cpu.user[1]"));
        assertEquals(slot, read.parser().slots().find("1", 0));
    }

    @Test
    void statesThatAnOldKernelDoesNotPrintAreAbsentNotZero() {
        Read read = read("cpu  1 2 3 4\ncpu0 1 2 3 4\npage 5741 1808\nswap 1 0\nintr 1462898\nctxt 115315\n"
                + "btime 769041601\nprocesses 86031\n");
        assertEquals(List.of(), read.faults());
        assertEquals("4", read.get("cpu.all.idle"));
        assertEquals("NO_FIELD", read.get("cpu.all.iowait"));
        assertEquals("NO_FIELD", read.get("cpu.steal[0]"));
        assertEquals("NO_FIELD", read.get("kernel.procs_running"));
    }

    @Test
    void interruptsMayChangeAfterTheFirstNumberWithoutAFullParse() {
        String many = TEXT.replace("4711 0 9 0", "4711" + " 0".repeat(500) + " 9 0");
        for (String text : List.of(TEXT, many)) {
            Read read = read(text);
            assertTrue(read.advance(text.replace("4711 0", "4712 0").replace("9 0\nctxt", "9 1\nctxt")));
            assertEquals("4712", read.get("kernel.interrupts"));
            assertTrue(read.advance(text));
            assertEquals("4711", read.get("kernel.interrupts"));
        }
    }

    @Test
    void aLineThatAppearsAmongTheInterruptsIsSeen() {
        String zeros = " 0".repeat(200);
        String before = "ctxt 5120\nintr 4711" + zeros + "\n";
        String line = "\nprocs_running 7\nx 0 0 0 0";
        String after = before.substring(0, 220) + line + before.substring(220 + line.length());
        Read read = read(before);
        assertEquals("NO_FIELD", read.get("kernel.procs_running"));
        assertFalse(read.advance(after));
        assertEquals("7", read.get("kernel.procs_running"));
    }

    @Test
    void aBrokenNumberIsFailedAndNamedAndTheRestGoesOn() {
        Read read = read(TEXT.replace("cpu1 462 0 163", "cpu1 462 x 163")
                .replace("ctxt 5120", "ctxt 99999999999999999999"));
        assertEquals("MALFORMED", read.get("cpu.nice[1]"));
        assertEquals("163", read.get("cpu.system[1]"));
        assertEquals("OUT_OF_RANGE", read.get("kernel.context_switches"));
        assertEquals(new FaultNote(3, "cpu.nice[1]", "not a number"), read.faults().get(0));
        assertEquals("line 5: kernel.context_switches: number beyond 64 bits", read.faults().get(1).toString());
    }
}
