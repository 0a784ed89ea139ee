package dev.kilohertz.gather;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * {@code /proc/stat}: CPU times in ticks of 10 ms, interrupts, context switches, forks, boot time. {@code user} already contains
 * {@code guest}, and {@code nice} contains {@code guest_nice}: never add them.
 */
final class StatFile extends KernelFile {
    private static final List<String> STATES = List.of("user", "nice", "system", "idle", "iowait", "irq", "softirq",
            "steal", "guest", "guest_nice");

    private static final List<Entry> SINGLE = List.of(
            Entry.counter("kernel.interrupts", "intr (first number)", Unit.COUNT),
            Entry.counter("kernel.context_switches", "ctxt", Unit.COUNT),
            Entry.gauge("kernel.boot_time", "btime", Unit.SECONDS),
            Entry.counter("kernel.forks", "processes", Unit.COUNT),
            Entry.gauge("kernel.procs_running", "procs_running", Unit.COUNT),
            Entry.gauge("kernel.procs_blocked", "procs_blocked", Unit.COUNT));

    /** The names of the lines of {@link #SINGLE}. */
    private static final List<byte[]> LINES =
            List.of(bytes("intr"), bytes("ctxt"), bytes("btime"), bytes("processes"), bytes("procs_running"),
                    bytes("procs_blocked"));

    private static final byte[] CPU = bytes("cpu");

    StatFile() {
        super("stat", WHOLE, scalarEntries(), cpuEntries());
    }

    private static List<Entry> scalarEntries() {
        List<Entry> entries = new ArrayList<>();
        STATES.forEach(state -> entries.add(time("cpu.all." + state, "cpu " + state)));
        entries.addAll(SINGLE);
        return List.copyOf(entries);
    }

    private static List<Entry> cpuEntries() {
        return STATES.stream().map(state -> time("cpu." + state, "cpuN " + state).each("cpu")).toList();
    }

    private static Entry time(String name, String field) {
        return Entry.counter(name, field, Unit.SECONDS).steps(2);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    @Override
    void parse(Sink sink) {
        while (sink.nextLine()) {
            Words words = sink.words(sink.lineStart(), sink.lineEnd());
            if (words.next()) {
                line(sink, words.start(), words.end());
            }
        }
    }

    private static void line(Sink sink, int name, int nameEnd) {
        byte[] text = sink.text();
        if (Words.is(text, name, nameEnd, CPU)) {
            allCpus(sink, nameEnd);
            return;
        }
        // cpu1 is not cpu: rstatd once confused the two.
        int number = name + CPU.length;
        if (nameEnd > number && Words.is(text, name, number, CPU) && areDigits(text, number, nameEnd)) {
            oneCpu(sink, number, nameEnd);
            return;
        }
        for (int single = 0; single < LINES.size(); single++) {
            if (Words.is(text, name, nameEnd, LINES.get(single))) {
                firstNumber(sink, STATES.size() + single, nameEnd);
                return;
            }
        }
        // softirq, and lines that only kernel 2.4 printed (page, swap, disk_io): no metric needs them.
        sink.ignore(nameEnd, sink.lineEnd());
    }

    private static boolean areDigits(byte[] text, int from, int to) {
        for (int at = from; at < to; at++) {
            if (text[at] < '0' || text[at] > '9') {
                return false;
            }
        }
        return true;
    }

    private static void allCpus(Sink sink, int rest) {
        Words words = sink.words(rest, sink.lineEnd());
        for (int state = 0; state < STATES.size(); state++) {
            // Kernel 2.4 printed four states; the later states are absent there.
            if (!words.next()) {
                return;
            }
            sink.scalar(state, words.start(), words.end());
        }
        sink.ignore(words.rest(), sink.lineEnd());
    }

    private static void oneCpu(Sink sink, int number, int rest) {
        int cpu = sink.instance(number, rest);
        if (cpu == Slots.NONE) {
            return;
        }
        Words words = sink.words(rest, sink.lineEnd());
        for (int state = 0; state < STATES.size(); state++) {
            if (!words.next()) {
                return;
            }
            sink.field(cpu, state, words.start(), words.end());
        }
        sink.ignore(words.rest(), sink.lineEnd());
    }

    /** The first number of a line. On {@code intr} thousands may follow, one for each interrupt; they are ignored. */
    private static void firstNumber(Sink sink, int scalar, int rest) {
        Words words = sink.words(rest, sink.lineEnd());
        if (words.next()) {
            sink.scalar(scalar, words.start(), words.end());
        } else {
            sink.failScalar(scalar, "the line has no number");
        }
        sink.ignore(words.rest(), sink.lineEnd());
    }
}
