package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SampleTest {
    private static final Duration LONG = Duration.ofHours(1);

    @TempDir
    private Path folder;
    private TemporaryHost host;

    @BeforeEach
    void makeHost() {
        host = new TemporaryHost(folder);
        host.write("uptime", "442.81 873.80\n");
        host.write("loadavg", "0.52 0.58 0.59 1/389 12345\n");
    }

    private Gatherer.Options options() {
        return Gatherer.with().root(host.root()).nativeAccess(false).window(Duration.ZERO);
    }

    private static long gathers(Gatherer gatherer, String source) {
        return gatherer.status().stream().filter(one -> one.name().equals(source)).findFirst().orElseThrow().gathers();
    }

    @Test
    void numbersAreExact() {
        try (Gatherer gatherer = options().open()) {
            Sample sample = gatherer.sample();
            int up = sample.find("uptime.up");
            assertEquals(State.NOT_YET, sample.state(up));
            assertNull(sample.decimal(up));
            assertEquals("not gathered yet", sample.text(up));
            sample.take();
            assertEquals(State.PRESENT, sample.state(up));
            assertEquals(44_281, sample.steps(up));
            assertEquals(new BigDecimal("442.81"), sample.decimal(up));
            assertEquals(new Metric("uptime.up", Kind.GAUGE, Unit.SECONDS, 2, ""), sample.metric(up));
        }
    }

    @Test
    void aSampleThatIsClosedTakesNoMoreAndKeepsItsNumbers() {
        try (Gatherer gatherer = options().open()) {
            Sample sample = gatherer.sample();
            Sample other = gatherer.sample();
            int up = sample.find("uptime.up");
            sample.take();
            sample.close();
            assertEquals(44_281, sample.steps(up));
            assertTrue(assertThrows(IllegalStateException.class, sample::take).getMessage().contains("this sample is closed"));
            other.find("uptime.up");
            assertTrue(other.take(), "the files are open for the others");
        }
    }

    @Test
    void aHandleThatFindHasNotGivenIsRefused() {
        try (Gatherer gatherer = options().open(); Fallback fallback = new Fallback(() -> gatherer.sample(), gatherer.sample(), Duration.ZERO)) {
            for (Numbers numbers : new Numbers[] {gatherer.sample(), fallback}) {
                numbers.find("uptime.up");
                for (int handle : new int[] {-1, 1, 99}) {
                    assertThrows(IndexOutOfBoundsException.class, () -> numbers.state(handle));
                    assertThrows(IndexOutOfBoundsException.class, () -> numbers.steps(handle));
                    assertThrows(IndexOutOfBoundsException.class, () -> numbers.metric(handle));
                    assertThrows(IndexOutOfBoundsException.class, () -> numbers.isChanged(handle));
                }
            }
        }
    }

    @Test
    void numbersBeyond63BitsHaveNoSign() {
        host.write("uptime", "184467440737095516.15 0.00\n");
        try (Gatherer gatherer = options().open()) {
            Sample sample = gatherer.sample();
            int up = sample.find("uptime.up");
            sample.take();
            assertEquals("184467440737095516.15", sample.text(up));
        }
    }

    @Test
    void whatHasChangedIsToldApart() {
        try (Gatherer gatherer = options().open()) {
            Sample sample = gatherer.sample();
            int up = sample.find("uptime.up");
            int idle = sample.find("uptime.idle");
            int total = sample.find("tasks.total");
            assertTrue(sample.take());
            assertFalse(sample.take());
            assertFalse(sample.isChanged(up));
            host.write("uptime", "442.82 873.80\n");
            assertTrue(sample.take());
            assertTrue(sample.isChanged(up));
            assertFalse(sample.isChanged(idle));
            assertFalse(sample.isChanged(total));
            assertFalse(sample.take());
            host.write("loadavg", "0.52 0.58 0.59 1/390 12345\n");
            assertTrue(sample.take());
            assertTrue(sample.isChanged(total));
            assertFalse(sample.isChanged(up));
        }
    }

    @Test
    void aReaderHearsOfChangesThatAnotherGathered() {
        try (Gatherer gatherer = options().open()) {
            Sample slow = gatherer.sample();
            Sample fast = gatherer.sample();
            int ofSlow = slow.find("uptime.up");
            int ofFast = fast.find("uptime.up");
            slow.take();
            fast.take();
            host.write("uptime", "442.82 873.80\n");
            assertTrue(fast.take());
            host.write("uptime", "442.83 873.80\n");
            assertTrue(fast.take());
            assertEquals(44_281, slow.steps(ofSlow), "a sample stays as it is");
            assertTrue(slow.take());
            assertEquals(44_283, slow.steps(ofSlow));
            assertEquals(44_283, fast.steps(ofFast));
        }
    }

    @Test
    void onlyTheSourcesThatAreWantedAreRead() {
        try (Gatherer gatherer = options().open()) {
            Sample sample = gatherer.sample();
            sample.find("mem.free");
            long before = gathers(gatherer, "stat");
            sample.take();
            sample.take();
            assertEquals(before, gathers(gatherer, "stat"));
            assertEquals(before + 2, gathers(gatherer, "meminfo"));
        }
    }

    @Test
    void allWhoAskWithinTheWindowShareOneGather() {
        try (Gatherer gatherer = options().window(LONG).open()) {
            for (int reader = 0; reader < 10; reader++) {
                Sample sample = gatherer.sample();
                int up = sample.find("uptime.up");
                assertTrue(sample.take());
                assertEquals(44_281, sample.steps(up));
            }
            assertEquals(1, gathers(gatherer, "uptime"));
        }
    }

    @Test
    void eachSourceHasARateOfItsOwn() {
        try (Gatherer gatherer = options().window("uptime", LONG).open()) {
            Sample sample = gatherer.sample();
            int up = sample.find("uptime.up");
            int total = sample.find("tasks.total");
            sample.take();
            host.write("uptime", "442.99 873.80\n");
            host.write("loadavg", "0.52 0.58 0.59 1/390 12345\n");
            sample.take();
            assertEquals(44_281, sample.steps(up));
            assertEquals(390, sample.steps(total));
        }
        IllegalArgumentException unknown =
                assertThrows(IllegalArgumentException.class, () -> options().window("disk", LONG));
        assertEquals("there is no source 'disk'; there are stat, meminfo, loadavg, uptime, net/dev", unknown.getMessage());
        assertThrows(IllegalArgumentException.class, () -> options().window(Duration.ofNanos(-1)));
        assertThrows(IllegalArgumentException.class, () -> options().window(Duration.ofDays(1_000_000_000)));
    }

    @Test
    void anInstanceMayComeAndGo() {
        try (Gatherer gatherer = options().open()) {
            Sample sample = gatherer.sample();
            int later = sample.find("cpu.user[7]");
            sample.take();
            assertEquals(State.INSTANCE_GONE, sample.state(later));
            host.replace("stat", "cpu1 ", "cpu7 ");
            assertTrue(sample.take());
            assertEquals(State.PRESENT, sample.state(later));
            host.replace("stat", "cpu7 ", "cpu1 ");
            assertTrue(sample.take());
            assertEquals(State.INSTANCE_GONE, sample.state(later));
            assertEquals(0, sample.steps(later));
        }
    }

    @Test
    void namesThatDoNotExistAreRefusedWithTheReason() {
        try (Gatherer gatherer = options().open()) {
            Sample sample = gatherer.sample();
            for (String[] refused : List.of(
                    new String[] {"disk.ios[sda]", "the gatherer has no metric 'disk.ios'; Gatherer.metrics() lists those that it has"},
                    new String[] {"cpu.user", "'cpu.user' has a number for each cpu: name one, as in cpu.user[0]"},
                    new String[] {"mem.free[0]", "'mem.free[0]': 'mem.free' has no instances: leave out the brackets"},
                    new String[] {"cpu.user[0", "'cpu.user[0' has no ']' at its end"},
                    new String[] {"net.rx_bytes[a%2]", "'net.rx_bytes[a%2]': '%' needs two hex digits after it; '%' itself is %25"})) {
                Exception reason = assertThrows(IllegalArgumentException.class, () -> sample.find(refused[0]));
                assertEquals(refused[1], reason.getMessage());
            }
        }
    }

    @Test
    void aSourceThatIsMissingIsAbsentAndOneThatIsBrokenHasFailed() {
        host.remove("loadavg");
        try (Gatherer gatherer = options().open()) {
            Sample sample = gatherer.sample();
            int load = sample.find("load.1m");
            int free = sample.find("mem.free");
            int up = sample.find("uptime.up");
            sample.take();
            assertEquals(State.NO_SOURCE, sample.state(load));
            assertEquals("this host does not have the source", sample.text(load));
            assertFalse(sample.state(load).isFailure());
            host.write("meminfo", "MemTotal: 5 kB\nMemFree: x kB\n");
            host.write("uptime", "");
            sample.take();
            assertEquals(State.MALFORMED, sample.state(free));
            assertEquals(State.MALFORMED, sample.state(up));
            assertTrue(sample.state(free).isFailure());
            assertEquals(List.of(new FaultNote(2, "mem.free", "not a number")), gatherer.faults("meminfo"));
            SourceStatus meminfo = gatherer.status().get(1);
            assertEquals(host.path("meminfo") + ": line 2: mem.free: not a number", meminfo.problem());
            assertEquals(1, meminfo.failures());
            host.write("meminfo", "MemTotal: 5 kB\nMemFree: 3 kB\n");
            sample.take();
            assertEquals(State.PRESENT, sample.state(free));
            assertEquals("", gatherer.status().get(1).problem());
        }
    }

    @Test
    void seriesAreThoseThatLiveNow() {
        Gatherer gatherer = options().open();
        assertTrue(names(gatherer).contains("cpu.user[1]"));
        host.replace("stat", "cpu1 ", "cpu7 ");
        assertFalse(names(gatherer).contains("cpu.user[1]"));
        assertTrue(names(gatherer).contains("cpu.user[7]"), "nobody wants it, and it is found all the same");
        host.replace("stat", "cpu7 ", "cpu1 ");
        List<String> last = names(gatherer);
        assertTrue(last.contains("cpu.user[1]"));
        assertFalse(last.contains("cpu.user[7]"));
        gatherer.close();
        host.replace("stat", "cpu1 ", "cpu7 ");
        assertEquals(last, names(gatherer), "a closed one reads nothing");
    }

    private static List<String> names(Gatherer gatherer) {
        return gatherer.series().stream().map(Series::toString).toList();
    }

    @Test
    void aFileThatIsMissingAtTheStartIsTriedAgain() {
        Map<String, String> numbers = Map.of("stat", "cpu.user[0]", "meminfo", "mem.free", "loadavg", "load.1m", "uptime", "uptime.up",
                "net/dev", "net.rx_bytes[lo]");
        for (KernelFile file : Catalogue.FILES) {
            long[] now = {1};
            String text = new String(Fixtures.text(host.root(), file), StandardCharsets.UTF_8);
            host.remove(file.name());
            try (Gatherer gatherer = options().clock(() -> now[0]).open()) {
                boolean hasInstances = !file.grouped().isEmpty();
                String name = numbers.get(file.name());
                Sample sample = gatherer.sample();
                int number = sample.find(name);
                sample.take();
                assertEquals(State.NO_SOURCE, sample.state(number), name);
                assertEquals(!hasInstances, names(gatherer).contains(name));
                host.write(file.name(), text);
                now[0] += Source.LOOK_AGAIN_NANOS - 1;
                sample.take();
                assertEquals(State.NO_SOURCE, sample.state(number), name);
                now[0]++;
                assertTrue(names(gatherer).contains(name), "nobody wants it, and it is found all the same: " + name);
                sample.take();
                assertEquals(State.PRESENT, sample.state(number), name);
            }
        }
    }

    @Test
    void anInterfaceWhoseFileCannotBeReadIsNotGone() {
        try (Gatherer gatherer = options().open()) {
            Sample sample = gatherer.sample();
            int received = sample.find("net.rx_bytes[none0]");
            sample.take();
            assertEquals(State.INSTANCE_GONE, sample.state(received));
            host.write("net/dev", "nothing\n");
            assertTrue(sample.take());
            assertEquals(State.MALFORMED, sample.state(received));
        }
    }

    @Test
    void whereNothingCanBeReadTheGathererDoesNotStart() {
        Path empty = folder.resolve("empty");
        GatherException reason = assertThrows(GatherException.class,
                () -> Gatherer.with().root(empty).nativeAccess(false).open());
        assertEquals("nothing can be read below " + empty + ": " + empty + "/proc/stat: no such file; is /proc mounted there?",
                reason.getMessage());
    }

    @Test
    void stampsAreThoseOfTheGather() {
        try (Gatherer gatherer = options().window("loadavg", LONG).open()) {
            Sample sample = gatherer.sample();
            assertEquals(0, sample.stampNanos());
            sample.find("uptime.up");
            long opened = System.currentTimeMillis();
            while (System.currentTimeMillis() < opened + 2) {
                Thread.onSpinWait();
            }
            long before = TimeUnit.MILLISECONDS.toNanos(System.currentTimeMillis());
            sample.take();
            long after = TimeUnit.MILLISECONDS.toNanos(System.currentTimeMillis());
            assertTrue(before <= sample.stampNanos() && sample.stampNanos() <= after);
            long fresh = sample.stampNanos();
            sample.find("load.1m");
            sample.take();
            assertTrue(sample.stampNanos() < fresh, "the oldest counts");
        }
    }

    @Test
    void aClosedGathererGivesNothingMore() {
        Gatherer gatherer = options().open();
        Sample sample = gatherer.sample();
        int up = sample.find("uptime.up");
        sample.take();
        gatherer.close();
        gatherer.close();
        assertThrows(IllegalStateException.class, sample::take);
        assertEquals(44_281, sample.steps(up));
    }

    @Test
    void theOnlySampleClosesItsGathererAndOneOfSeveralDoesNot() {
        Sample only = options().openSample();
        only.find("uptime.up");
        only.take();
        only.close();
        assertThrows(IllegalStateException.class, only::take);
        try (Gatherer gatherer = options().open()) {
            Sample one = gatherer.sample();
            one.find("uptime.up");
            one.close();
            Sample another = gatherer.sample();
            another.find("uptime.up");
            assertTrue(another.take());
        }
    }
}
