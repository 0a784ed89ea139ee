package dev.kilohertz.micrometer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.PageFile;
import dev.kilohertz.Patience;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.MockClock;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.config.MeterFilter;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Meters of a snapshot that the test writes itself. */
class BoundMetersTest {
    private static final int PRESENT = 0;
    private static final int GONE = 3;
    private static final int UNREADABLE = 128;

    @TempDir
    Path folder;
    private final MeterRegistry registry = new SimpleMeterRegistry();
    private PageFile file;
    private LiveSnapshot node;
    private BoundMeters meters;

    @BeforeEach
    void write() throws Exception {
        file = PageFile.create(folder.resolve("snapshot"));
        // It counts as alive for hundreds of years: the rows of this file are of 2001.
        node = LiveSnapshot.at(folder, Duration.ofDays(100_000));
        meters = new BoundMeters(registry, node, List.of(SeriesPattern.parse("*")), List.of(), Tags.empty(), 100);
    }

    @AfterEach
    void close() {
        node.close();
        file.close();
    }

    private int add(String name, int group, int kind) {
        return file.add(name, "bytes", group, kind, 0, 0);
    }

    private void refresh(int times) {
        for (int i = 0; i < times; i++) {
            meters.refresh();
        }
    }

    @Test
    void anInterfaceThatIsGoneLosesItsMeterAndGetsItBack() {
        int slot = add("net.rx_bytes[veth7]", 1, 0);
        file.row(slot, 500, PRESENT, 1, 0);
        refresh(1);
        assertEquals(500, registry.get("khz.net.rx.bytes").tag("device", "veth7").functionCounter().count());
        file.row(slot, 0, GONE, 1, 0);
        assertTrue(Double.isNaN(registry.get("khz.net.rx.bytes").functionCounter().count()));
        refresh(2);
        assertNotNull(registry.find("khz.net.rx.bytes").functionCounter());
        refresh(1);
        assertNull(registry.find("khz.net.rx.bytes").meter());
        file.row(slot, 9, PRESENT, 1, 0);
        refresh(1);
        assertEquals(9, registry.get("khz.net.rx.bytes").functionCounter().count());
    }

    @Test
    void whatIsOfTheWholeNodeStaysWithoutAValue() {
        int slot = add("mem.free", 1, 1);
        file.row(slot, 500, PRESENT, 1, 0);
        refresh(1);
        file.row(slot, 0, GONE, 1, 0);
        refresh(5);
        Gauge free = registry.get("khz.mem.free").gauge();
        assertTrue(Double.isNaN(free.value()));
        file.row(slot, 501, PRESENT, 1, 0);
        assertEquals(501, free.value());
    }

    @Test
    void whatTheKernelDoesNotHaveGetsNoMeterAndWhatCannotBeReadGetsOne() {
        file.row(add("mem.high_total", 1, 1), 0, 2, 1, 0);
        file.row(add("mem.free", 2, 1), 0, UNREADABLE, 2, 0);
        refresh(1);
        assertNull(registry.find("khz.mem.high.total").meter());
        assertTrue(Double.isNaN(registry.get("khz.mem.free").gauge().value()));
    }

    @Test
    void afterARestartMetersFollowTheirSeriesToOtherSlots() throws Exception {
        file.row(add("mem.free", 1, 1), 500, PRESENT, 1, 0);
        file.row(add("net.rx_bytes[eth0]", 2, 0), 70, PRESENT, 2, 0);
        refresh(1);
        Gauge free = registry.get("khz.mem.free").gauge();
        file.end();
        assertTrue(Double.isNaN(free.value()));
        refresh(5);
        assertEquals(2, registry.getMeters().size());
        file.close();
        file = PageFile.create(folder.resolve("snapshot"));
        file.row(add("net.rx_bytes[eth1]", 2, 0), 7, PRESENT, 2, 0);
        file.row(add("mem.free", 1, 1), 501, PRESENT, 1, 0);
        Patience.until("the next agent is found", () -> free.value() == 501);
        refresh(3);
        assertEquals(7, registry.get("khz.net.rx.bytes").tag("device", "eth1").functionCounter().count());
        assertNull(registry.find("khz.net.rx.bytes").tag("device", "eth0").meter());
    }

    @Test
    void aRegistryOfStepsCountsFromTheMomentOfBinding() {
        int slot = add("net.rx_bytes[eth0]", 1, 0);
        file.row(slot, 1_000, PRESENT, 1, 0);
        MockClock clock = new MockClock();
        Steps steps = new Steps(clock);
        new BoundMeters(steps, node, List.of(SeriesPattern.parse("net.*")), List.of(), Tags.empty(), 1).refresh();
        FunctionCounter bytes = steps.get("khz.net.rx.bytes").functionCounter();
        file.row(slot, 1_050, PRESENT, 1, 0);
        bytes.count();
        clock.add(Duration.ofMinutes(1));
        assertEquals(50, bytes.count());
        file.row(slot, 0, GONE, 1, 0);
        clock.add(Duration.ofMinutes(1));
        bytes.count();
        file.row(slot, 1_080, PRESENT, 1, 0);
        clock.add(Duration.ofMinutes(1));
        // Nobody knows when the other 30 came.
        assertTrue(Double.isNaN(bytes.count()));
        clock.add(Duration.ofMinutes(1));
        bytes.count();
        file.row(slot, 1_087, PRESENT, 1, 0);
        bytes.count();
        clock.add(Duration.ofMinutes(1));
        assertEquals(7, bytes.count());
        steps.close();
    }

    @Test
    void whatNothingMatchesIsSaidAndLoggedOnce() {
        List<SeriesPattern> named = Stream.of("mem.fre", "mem.free", "net.*[eth7]", "host.uname", "net.rx_bytes").map(SeriesPattern::parse).toList();
        BoundMeters some = new BoundMeters(registry, node, named, named, Tags.empty(), 100);
        file.row(add("mem.free", 1, 1), 500, PRESENT, 1, 0);
        file.add("host.uname", "count", 2, 1, 3, 0);
        String later = ". There is no meter for it until one comes: check the spelling in series()";
        List<String> atOnce = Logged.during(() -> {
            some.refresh();
            assertEquals(List.of("node n1 has no series 'mem.fre' (did you mean mem.free?)" + later,
                    "no series of node n1 with numbers matches 'net.*[eth7]'" + later, "no series of node n1 with numbers matches 'host.uname'" + later,
                    "node n1 has no series 'net.rx_bytes': list them with series(), or with 'khz catalog'" + later), some.unmatched());
            file.row(add("net.rx_bytes[eth7]", 3, 0), 7, PRESENT, 3, 0);
            some.refresh();
        });
        assertEquals(List.of(), atOnce, "an agent has not gathered everything at once");
        List<String> logged = Logged.during(() -> {
            some.refresh();
            some.refresh();
        });
        assertEquals(some.unmatched().stream().map(sentence -> "WARNING " + sentence).toList(), logged);
        assertEquals(2, logged.size());
    }

    private BoundMeters another(String... patterns) {
        return new BoundMeters(registry, node, Stream.of(patterns).map(SeriesPattern::parse).toList(), List.of(), Tags.empty(), 100);
    }

    @Test
    void twoBindersOfOneRegistryRemoveOnlyTheirOwn() {
        file.row(add("mem.free", 1, 1), 500, PRESENT, 1, 0);
        file.row(add("load.1m", 2, 1), 3, PRESENT, 2, 0);
        BoundMeters first = another("mem.free");
        BoundMeters second = another("mem.free", "load.1m");
        first.refresh();
        List<String> logged = Logged.during(() -> {
            second.refresh();
            second.refresh();
        });
        String sentence = "the registry had a meter khz.mem.free[] before, which this binder did not make, so the series mem.free has none: give these "
                + "meters other tags with tags(), or remove the other one, and the next refresh makes it";
        assertEquals(List.of(sentence), second.collisions());
        assertEquals(List.of("WARNING " + sentence), logged);
        assertEquals(List.of(), first.collisions());
        first.clear();
        assertNull(registry.find("khz.mem.free").meter());
        second.refresh();
        assertEquals(List.of(), second.collisions());
        assertEquals(500, registry.get("khz.mem.free").gauge().value());
        first.refresh();
        second.clear();
        assertEquals(List.of(), registry.getMeters(), "a binder that was cleared makes no more meters");
    }

    @Test
    void aMeterOfTheProgramItselfStays() {
        file.row(add("load.1m", 1, 1), 3, PRESENT, 1, 0);
        Gauge.builder("khz.load.1m", () -> 42).register(registry);
        BoundMeters binder = another("load.1m");
        binder.refresh();
        assertEquals(1, binder.collisions().size());
        binder.clear();
        assertEquals(42, registry.get("khz.load.1m").gauge().value());
    }

    @Test
    void aMeterOfAnotherTypeKeepsNoOtherSeriesFromHavingOne() {
        file.row(add("load.1m", 1, 1), 3, PRESENT, 1, 0);
        file.row(add("mem.free", 2, 1), 500, PRESENT, 2, 0);
        registry.counter("khz.load.1m");
        refresh(1);
        assertTrue(meters.collisions().getFirst().startsWith("the registry refuses the meter of the series load.1m: "), meters.collisions().toString());
        assertEquals(500, registry.get("khz.mem.free").gauge().value());
    }

    @Test
    void whatARegistrySaysIsOneLine() {
        file.row(add("load.1m", 1, 1), 3, PRESENT, 1, 0);
        registry.config().meterFilter(new MeterFilter() {
            @Override
            public Meter.Id map(Meter.Id id) {
                throw new IllegalArgumentException("not\r\nhere,\tat " + id.getName());
            }
        });
        refresh(1);
        assertEquals(List.of("the registry refuses the meter of the series load.1m: not; here, at khz.load.1m"), meters.collisions());
    }

    @Test
    void aRefreshPutsBackWhatOthersHaveRemoved() {
        file.row(add("mem.free", 1, 1), 500, PRESENT, 1, 0);
        refresh(1);
        registry.clear();
        refresh(1);
        assertEquals(500, registry.get("khz.mem.free").gauge().value());
        // In its place the program now has one of its own.
        registry.clear();
        Gauge.builder("khz.mem.free", () -> 42).register(registry);
        meters.clear();
        assertEquals(42, registry.get("khz.mem.free").gauge().value());
    }

    @Test
    void whatAFilterDeniesIsNoCollision() {
        file.row(add("mem.free", 1, 1), 500, PRESENT, 1, 0);
        file.row(add("mem.total", 2, 1), 501, PRESENT, 2, 0);
        registry.config().meterFilter(MeterFilter.denyNameStartsWith("khz.mem.free")).commonTags("site", "north");
        refresh(2);
        assertEquals(List.of(), meters.collisions());
        assertEquals(501, registry.get("khz.mem.total").tag("site", "north").gauge().value());
        meters.clear();
        assertEquals(List.of(), registry.getMeters());
    }

    @Test
    void beyondTheLimitSeriesAreCounted() {
        BoundMeters few = new BoundMeters(registry, node, List.of(SeriesPattern.parse("mem.*")), List.of(), Tags.empty(), 1);
        file.row(add("mem.free", 1, 1), 1, PRESENT, 1, 0);
        file.row(add("mem.total", 2, 1), 2, PRESENT, 2, 0);
        file.row(add("load.1m", 3, 1), 3, PRESENT, 3, 0);
        few.refresh();
        assertEquals(1, registry.getMeters().size());
        assertEquals(1, few.leftOut());
        few.clear();
        assertTrue(registry.getMeters().isEmpty());
    }
}
