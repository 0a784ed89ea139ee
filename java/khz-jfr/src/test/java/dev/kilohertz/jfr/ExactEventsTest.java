package dev.kilohertz.jfr;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.PageFile;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.Function;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Events of a snapshot that the test writes itself: it knows every number. */
class ExactEventsTest {
    private static final int PRESENT = 0;
    private static final int ABSENT = 2;
    private static final int GONE = 3;
    private static final int TICKS = 2;
    private static final int MICROSECONDS = 6;
    private static final int COUNTER = 0;
    private static final int GAUGE = 1;
    private static final long SECOND = 1_000_000_000;
    private static final List<String> MODES = List.of("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal");

    @TempDir
    Path folder;
    private PageFile file;
    private LiveSnapshot node;
    private final Recording recording = new Recording();
    private Recorded recorded;

    @BeforeEach
    void write() throws Exception {
        file = PageFile.create(folder.resolve("snapshot"));
        node = LiveSnapshot.at(folder, Duration.ofHours(1));
    }

    @AfterEach
    void close() {
        recording.close();
        node.close();
        file.close();
    }

    /** Ends a row that was made now, at this time of the machine. */
    private void endRow(int group, long bootNanos) {
        file.endRow(group, bootNanos, System.currentTimeMillis() * 1_000_000 - bootNanos);
    }

    /** Records events of one type; the test itself asks for them. */
    private Source recorded(String type, Function<LiveSnapshot, Source> made) {
        recording.enable(type);
        recording.start();
        Source source = made.apply(node);
        source.begin();
        return source;
    }

    private List<RecordedEvent> events(String type) throws Exception {
        recorded = new Recorded(folder.resolve("recording.jfr"));
        recording.dump(folder.resolve("recording.jfr"));
        return recorded.events(type);
    }

    private static RecordedEvent only(List<RecordedEvent> events) {
        assertEquals(1, events.size());
        return events.getFirst();
    }

    private void cpuRow(int first, long bootNanos, long... ticks) {
        file.beginRow(1);
        for (int i = 0; i < ticks.length; i++) {
            file.set(first + i, ticks[i], PRESENT, 1, TICKS);
        }
        endRow(1, bootNanos);
    }

    @Test
    void sharesAreThoseOfThePeriod() throws Exception {
        int first = file.add("cpu.all.user", "seconds", 1, COUNTER, 0, TICKS);
        MODES.stream().skip(1).forEach(mode -> file.add("cpu.all." + mode, "seconds", 1, COUNTER, 0, TICKS));
        cpuRow(first, 10 * SECOND, 100, 10, 50, 1000, 20, 3, 4, 5);
        Source source = recorded("khz.Cpu", CpuSource::new);
        // 200 ticks, of which user has 50.
        cpuRow(first, 11 * SECOND, 150, 20, 80, 1100, 22, 4, 6, 10);
        source.run();
        // The kernel was not read again.
        source.run();
        RecordedEvent event = only(events("khz.Cpu"));
        assertEquals(0.25f, event.getFloat("user"));
        assertEquals(0.05f, event.getFloat("nice"));
        assertEquals(0.15f, event.getFloat("system"));
        assertEquals(0.5f, event.getFloat("idle"));
        assertEquals(0.01f, event.getFloat("iowait"));
        assertEquals(0.015f, event.getFloat("interrupts"));
        assertEquals(0.025f, event.getFloat("steal"));
        assertEquals(Duration.ofSeconds(1), event.getDuration("period"));
        assertEquals(List.of("0.25"), recorded.json("khz.Cpu", "user"));
        // Iowait steps back.
        cpuRow(first, 12 * SECOND, 250, 20, 80, 1100, 21, 4, 6, 10);
        source.run();
        RecordedEvent next = events("khz.Cpu").get(1);
        assertTrue(Float.isNaN(next.getFloat("iowait")));
        assertEquals(0f, next.getFloat("idle"));
        assertEquals(100f / 99, next.getFloat("user"));
    }

    @Test
    void numbersThatNobodyReadsAnyMoreMakeNoEvents() throws Exception {
        int load = file.add("load.1m", "tasks", 6, GAUGE, 0, TICKS);
        int running = file.add("kernel.procs_running", "tasks", 7, GAUGE, 0, 0);
        int blocked = file.add("kernel.procs_blocked", "tasks", 7, GAUGE, 0, 0);
        loadRow(load, 10 * SECOND, 150);
        tasksRow(running, blocked, 10 * SECOND, 3);
        Source source = recorded("khz.RunQueue", RunQueueSource::new);
        // The agent was killed: the same numbers stay in its snapshot.
        source.run();
        assertEquals(List.of(), events("khz.RunQueue"));
        // One of the two files of the kernel was read again.
        tasksRow(running, blocked, 11 * SECOND, 4);
        source.run();
        source.run();
        RecordedEvent event = only(events("khz.RunQueue"));
        assertEquals(1.5, event.getDouble("load1m"));
        assertEquals(4, event.getLong("running"));
        loadRow(load, 15 * SECOND, 175);
        source.run();
        assertEquals(1.75, events("khz.RunQueue").get(1).getDouble("load1m"));
    }

    private void loadRow(int slot, long bootNanos, long hundredths) {
        file.beginRow(6);
        file.set(slot, hundredths, PRESENT, 6, TICKS);
        endRow(6, bootNanos);
    }

    private void tasksRow(int running, int blocked, long bootNanos, long tasks) {
        file.beginRow(7);
        file.set(running, tasks, PRESENT, 7, 0);
        file.set(blocked, 0, PRESENT, 7, 0);
        endRow(7, bootNanos);
    }

    @Test
    void whatAKernelDoesNotPrintIsUnknownAndNotZero() throws Exception {
        int[] slots = new int[12];
        int at = 0;
        for (String resource : List.of("cpu", "memory", "io")) {
            int group = 2 + at / 4;
            for (String field : List.of("some.avg10", "some.total", "full.avg10", "full.total")) {
                boolean isTotal = field.endsWith("total");
                slots[at++] = file.add("pressure." + resource + "." + field, isTotal ? "seconds" : "percent", group, isTotal ? COUNTER : GAUGE, 0,
                        isTotal ? MICROSECONDS : TICKS);
            }
        }
        pressureRow(slots, 10 * SECOND, 1_000_000);
        Source source = recorded("khz.Pressure", PressureSource::new);
        pressureRow(slots, 12 * SECOND, 1_500_000);
        source.run();
        List<RecordedEvent> two = events("khz.Pressure");
        // Memory has no values at all, and so no event.
        assertEquals(List.of("cpu", "io"), two.stream().map(event -> event.getString("resource")).toList());
        RecordedEvent cpu = two.getFirst();
        assertEquals(0.125f, cpu.getFloat("someAverage"));
        assertEquals(Duration.ofMillis(500), cpu.getDuration("someStalled"));
        assertEquals(Duration.ofSeconds(2), cpu.getDuration("period"));
        assertTrue(Float.isNaN(cpu.getFloat("fullAverage")));
        assertEquals(PressureEvent.UNKNOWN, cpu.getLong("fullStalled"));
        assertEquals(Duration.ofMillis(500), two.get(1).getDuration("fullStalled"));
        assertTrue(recorded.printed("--events", "khz.Pressure").contains("N/A"), recorded.printed("--events", "khz.Pressure"));
    }

    /** All pressures are 12.5 %. The kernel has no full pressure of CPUs, and none at all of memory. */
    private void pressureRow(int[] slots, long bootNanos, long micros) {
        for (int group = 2; group < 5; group++) {
            file.beginRow(group);
            for (int i = 0; i < 4; i++) {
                int state = group == 3 || group == 2 && i > 1 ? ABSENT : PRESENT;
                boolean isTotal = i % 2 == 1;
                file.set(slots[(group - 2) * 4 + i], isTotal ? micros : 1250, state, group, isTotal ? MICROSECONDS : TICKS);
            }
            endRow(group, bootNanos);
        }
    }

    @Test
    void aNewInterfaceIsRecordedAndOneThatWasMadeAgainIsNot() throws Exception {
        int old = addInterface("eth0");
        networkRow(10 * SECOND, old, 1_000);
        Source source = recorded("khz.Network", NetworkSource::new);
        networkRow(12 * SECOND, old, 5_000);
        source.run();
        RecordedEvent first = only(events("khz.Network"));
        assertEquals("eth0", first.getString("device"));
        assertEquals(2_000, first.getDouble("received"));
        assertEquals(2_000, first.getDouble("packetsSent"));
        int later = addInterface("eth0:1");
        networkRow(13 * SECOND, old, 100, later, 700);
        source.run();
        assertEquals(1, events("khz.Network").size());
        networkRow(14 * SECOND, old, 200, later, 900);
        source.run();
        List<RecordedEvent> all = events("khz.Network");
        assertEquals(List.of("100.0", "200.0"), all.stream().skip(1).map(event -> Double.toString(event.getDouble("received"))).sorted().toList());
        assertEquals(List.of("eth0", "eth0:1"), all.stream().skip(1).map(event -> event.getString("device")).sorted().toList());
    }

    @Test
    void interfacesThatAreGoneTakeNoPlaceFromNewOnes() throws Exception {
        long bootNanos = 10 * SECOND;
        // An agent that has gathered nothing does not live yet.
        networkRow(bootNanos);
        Source source = recorded("khz.Network", NetworkSource::new);
        for (int i = 0; i <= NetworkSource.INTERFACES_MAX; i++) {
            int slot = addInterface("veth" + i);
            networkRow(bootNanos, slot, 1);
            source.run();
            bootNanos += SECOND;
            for (int s = slot; s < slot + 4; s++) {
                file.set(s, 0, GONE, 5, 0);
            }
        }
        source.run();
        assertTrue(events("khz.Network").isEmpty());
        int last = addInterface("eth0");
        networkRow(bootNanos + SECOND, last, 1);
        source.run();
        networkRow(bootNanos + 2 * SECOND, last, 8);
        source.run();
        assertEquals(7, only(events("khz.Network")).getDouble("received"));
    }

    private int addInterface(String device) {
        String name = "[" + device.replace(":", "%3A") + "]";
        int first = file.add("net.rx_bytes" + name, "bytes", 5, COUNTER, 0, 0);
        file.add("net.rx_packets" + name, "packets", 5, COUNTER, 0, 0);
        file.add("net.tx_bytes" + name, "bytes", 5, COUNTER, 0, 0);
        file.add("net.tx_packets" + name, "packets", 5, COUNTER, 0, 0);
        return first;
    }

    /** Pairs of the first slot of an interface, and its counters. */
    private void networkRow(long bootNanos, long... counters) {
        file.beginRow(5);
        for (int i = 0; i < counters.length; i += 2) {
            for (int slot = 0; slot < 4; slot++) {
                file.set((int) counters[i] + slot, counters[i + 1], PRESENT, 5, 0);
            }
        }
        endRow(5, bootNanos);
    }
}
