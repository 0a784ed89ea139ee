package dev.kilohertz.machine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import dev.kilohertz.KhzProgram;
import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.PageFile;
import dev.kilohertz.Patience;
import dev.kilohertz.Snapshot;
import dev.kilohertz.gather.Fallback;
import dev.kilohertz.gather.Gatherer;
import dev.kilohertz.gather.Kind;
import dev.kilohertz.gather.Series;
import dev.kilohertz.gather.State;
import java.io.RandomAccessFile;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The numbers of this machine over a real agent that runs, is killed, comes back, or was never there. */
class MachineNumbersTest {
    private static final int CALLS = 20_000;
    private static final int BATCHES = 5;
    private static final int BATCH = 50;

    @TempDir
    Path folder;

    private Path snapshot() {
        return folder.resolve("ring/n1/snapshot");
    }

    private MachineNumbers numbers() {
        return MachineNumbers.of(LiveSnapshot.at(snapshot()), Gatherer.openSample());
    }

    /** An agent that has gathered. */
    private KhzProgram agent() throws Exception {
        KhzProgram khz = KhzProgram.alone(folder);
        LiveSnapshot node = LiveSnapshot.at(snapshot());
        Patience.until("the agent has gathered", () -> node.now().isPresent());
        node.close();
        return khz;
    }

    /** Takes until the numbers come from the agent, or do not. */
    private static void takeUntil(boolean isFromAgent, MachineNumbers numbers) throws Exception {
        Patience.until("from the agent: " + isFromAgent, () -> {
            numbers.take();
            return numbers.isFromAgent() == isFromAgent;
        });
    }

    @Test
    void theSameNamesGiveLikeNumbersFromBothSides() throws Exception {
        try (KhzProgram _ = agent(); Gatherer gatherer = Gatherer.open(); Snapshot node = Snapshot.open(snapshot());
                LiveSnapshot live = LiveSnapshot.at(snapshot())) {
            AgentNumbers agent = AgentNumbers.open(live);
            var own = gatherer.sample();
            List<Series> all = gatherer.series();
            for (Series series : all) {
                Patience.until("the agent has " + series,
                        () -> node.series().stream().anyMatch(known -> known.name().equals(series.toString())));
                assertEquals(own.find(series.toString()), agent.find(series.toString()));
            }
            own.take();
            long[] before = new long[all.size()];
            Arrays.setAll(before, own::steps);
            long stamp = own.stampNanos();
            Patience.until("the agent has gathered since", () -> {
                agent.take();
                return agent.stampNanos() > stamp + 1_000_000;
            });
            Thread.sleep(2);
            own.take();
            for (int i = 0; i < all.size(); i++) {
                String about = all.get(i).toString();
                assertEquals(own.state(i), agent.state(i), about);
                assertEquals(own.metric(i), agent.metric(i), about);
                // The kernel itself may take a little of iowait back.
                if (all.get(i).metric().kind() == Kind.COUNTER && !about.contains("iowait")) {
                    assertTrue(before[i] <= agent.steps(i) && agent.steps(i) <= own.steps(i),
                            about + ": " + before[i] + " " + agent.text(i) + " " + own.text(i));
                }
            }
            int total = agent.find("mem.total");
            agent.take();
            assertEquals(gathered("mem.total"), agent.text(total));
        }
    }

    private static String gathered(String name) {
        try (var sample = Gatherer.openSample()) {
            int number = sample.find(name);
            sample.take();
            return sample.text(number);
        }
    }

    @Test
    void whenTheAgentIsKilledTheGathererAnswersUntilItIsBack() throws Exception {
        try (MachineNumbers numbers = numbers()) {
            int total = numbers.find("mem.total");
            int user = numbers.find("cpu.all.user");
            String expected = gathered("mem.total");
            try (KhzProgram khz = agent()) {
                takeUntil(true, numbers);
                assertEquals("", numbers.problem());
                assertEquals(expected, numbers.text(total));
                khz.kill();
                takeUntil(false, numbers);
            }
            assertTrue(numbers.problem().contains("has gathered nothing for"), numbers.problem());
            assertEquals(expected, numbers.text(total));
            long killed = numbers.steps(user);
            assertEquals(State.PRESENT, numbers.state(user));
            try (KhzProgram khz = agent()) {
                takeUntil(true, numbers);
                assertEquals(expected, numbers.text(total));
                assertTrue(numbers.steps(user) >= killed);
                khz.end();
                numbers.take();
                assertFalse(numbers.isFromAgent());
                assertTrue(numbers.problem().contains("ended"), numbers.problem());
                assertEquals(expected, numbers.text(total));
            }
        }
    }

    @Test
    void theProblemIsThePresentOne() throws Exception {
        try (MachineNumbers numbers = MachineNumbers.of(LiveSnapshot.at(folder, Duration.ofDays(100_000)), Gatherer.openSample())) {
            numbers.take();
            assertTrue(numbers.problem().startsWith("there is no snapshot"), numbers.problem());
            try (PageFile agent = PageFile.create(folder.resolve("snapshot"))) {
                agent.row(agent.add("mem.free", "bytes", 1, 1, 0, 0), 7, 0, 1, 0);
                Patience.until("the agent is noticed", () -> numbers.problem().startsWith("an agent gathers now, and is asked again within 10 s (before: there is no"));
                agent.end();
                Patience.until("its end is noticed", () -> numbers.problem().contains("has ended"));
            }
        }
    }

    /** A snapshot that the test writes: an agent's numbers are a little older than those of the gatherer. */
    @Test
    void countersDoNotFallWhenItChangesToAnAgentAndBack() throws Exception {
        LiveSnapshot live = LiveSnapshot.at(folder, Duration.ofDays(100_000));
        try (live; Fallback numbers = new Fallback(() -> AgentNumbers.open(live), Gatherer.openSample(), Duration.ZERO)) {
            int switches = numbers.find("kernel.context_switches");
            int running = numbers.find("kernel.procs_running");
            numbers.take();
            long gathered = numbers.steps(switches);
            assertTrue(!numbers.isBetter() && gathered > 10);
            try (PageFile agent = PageFile.create(folder.resolve("snapshot"))) {
                int counter = agent.add("kernel.context_switches", "count", 1, 0, 0, 0);
                int gauge = agent.add("kernel.procs_running", "count", 1, 1, 0, 0);
                agent.row(gauge, 0, 0, 1, 0);
                agent.row(counter, gathered - 10, 0, 1, 0);
                Patience.until("the agent is found", () -> {
                    numbers.take();
                    return numbers.isBetter();
                });
                assertTrue(numbers.steps(switches) >= gathered, numbers.steps(switches) + " is less than " + gathered);
                assertEquals(0, numbers.steps(running), "a gauge is what the agent says");
                long far = gathered + (1L << 40);
                agent.row(counter, far, 0, 1, 0);
                numbers.take();
                assertEquals(far, numbers.steps(switches));
                agent.end();
                numbers.take();
                assertFalse(numbers.isBetter());
                assertEquals(far, numbers.steps(switches));
            }
        }
    }

    @Test
    void withoutAnAgentTheGathererAnswersAndNamesThatNobodyHasAreRefused() {
        try (MachineNumbers numbers = numbers()) {
            int total = numbers.find("mem.total");
            int none = numbers.find("net.rx_bytes[none0]");
            assertTrue(numbers.take());
            assertFalse(numbers.isFromAgent());
            assertTrue(numbers.problem().contains("there is no snapshot"), numbers.problem());
            assertEquals(gathered("mem.total"), numbers.text(total));
            assertEquals(State.INSTANCE_GONE, numbers.state(none));
            assertTrue(assertThrows(IllegalArgumentException.class, () -> numbers.find("mem.nothing")).getMessage().contains("mem.nothing"));
        }
    }

    @Test
    void anAgentRefusesNamesThatItDoesNotHave() throws Exception {
        try (KhzProgram _ = agent(); LiveSnapshot live = LiveSnapshot.at(snapshot())) {
            AgentNumbers agent = AgentNumbers.open(live);
            for (String name : List.of("mem.nothing", "net.rx_bytes[none0]", "mem.total[0]", "")) {
                assertThrows(IllegalArgumentException.class, () -> agent.find(name), name);
            }
        }
    }

    @Test
    void aDamagedSnapshotIsNoSnapshot() throws Exception {
        Files.createDirectories(snapshot().getParent());
        for (int bytes : List.of(0, 5000, 20_983_808)) {
            try (RandomAccessFile file = new RandomAccessFile(snapshot().toFile(), "rw")) {
                file.setLength(0);
                file.setLength(bytes);
            }
            try (MachineNumbers numbers = numbers()) {
                int total = numbers.find("mem.total");
                numbers.take();
                assertFalse(numbers.isFromAgent());
                assertTrue(numbers.problem().contains("snapshot"), numbers.problem());
                assertEquals(gathered("mem.total"), numbers.text(total));
            }
        }
    }

    @Test
    void aTakeAndAReadAllocateNothing() throws Exception {
        try (KhzProgram _ = agent(); MachineNumbers numbers = numbers(); Snapshot node = Snapshot.open(snapshot())) {
            List<Integer> found = new ArrayList<>();
            for (String name : List.of("mem.total", "mem.free", "cpu.all.user", "load.1m")) {
                Patience.until("the agent has " + name, () -> node.series().stream().anyMatch(known -> known.name().equals(name)));
                found.add(numbers.find(name));
            }
            takeUntil(true, numbers);
            int first = found.getFirst();
            ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
            long self = Thread.currentThread().threadId();
            long[] bytes = new long[BATCHES];
            long sum = 0;
            for (int call = 0; call < CALLS; call++) {
                numbers.take();
                sum += numbers.steps(first);
            }
            for (int batch = 0; batch < BATCHES; batch++) {
                long before = threads.getThreadAllocatedBytes(self);
                for (int call = 0; call < BATCH; call++) {
                    numbers.take();
                    sum += numbers.steps(first);
                }
                bytes[batch] = threads.getThreadAllocatedBytes(self) - before;
            }
            Arrays.sort(bytes);
            assertTrue(numbers.isFromAgent() && sum != 0);
            assertEquals(0, bytes[BATCHES / 2]);
        }
    }
}
