package dev.kilohertz.micrometer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import dev.kilohertz.KhzProgram;
import dev.kilohertz.Patience;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.composite.CompositeMeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.time.Duration;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Registries of Micrometer over a real khz. */
class KhzMetricsTest {
    @TempDir
    Path folder;
    private KhzProgram khz;
    private final MeterRegistry registry = new SimpleMeterRegistry();

    @AfterEach
    void end() {
        if (khz != null) {
            khz.close();
        }
    }

    private KhzMetrics.Builder here() {
        return KhzMetrics.builder().snapshot(folder.resolve("ring/n1")).refreshEvery(Duration.ZERO);
    }

    /** Starts a khz, and waits until its snapshot has values. */
    private KhzMetrics boundTo(MeterRegistry registry, KhzMetrics.Builder options, String awaited) throws Exception {
        khz = KhzProgram.alone(folder);
        KhzMetrics metrics = options.build();
        Patience.until(awaited + " is bound", () -> {
            metrics.bindTo(registry);
            return registry.find(awaited).meter() != null;
        });
        return metrics;
    }

    /** What {@code khz get} shows. */
    private double get(String series) throws Exception {
        String line = khz.run("get", series, "--format", "properties").lines().filter(l -> !l.startsWith("#")).findFirst().orElseThrow();
        return Double.parseDouble(line.substring(line.lastIndexOf('=') + 1).strip());
    }

    @Test
    void argumentsThatAreNullAreNamed() {
        KhzMetrics.Builder options = here();
        assertNames("path", () -> options.snapshot(null));
        assertNames("wanted", () -> options.series((String[]) null));
        assertNames("wanted", () -> options.alsoSeries((String[]) null));
        assertNames("tags", () -> options.tags(null));
        assertNames("pause", () -> options.refreshEvery(null));
        assertNames("silence", () -> options.staleAfter(null));
        try (KhzMetrics metrics = options.build()) {
            assertNames("registry", () -> metrics.bindTo(null));
        }
    }

    private static void assertNames(String parameter, Executable call) {
        assertEquals(parameter, assertThrows(NullPointerException.class, call).getMessage());
    }

    @Test
    void aGaugeHasTheValueThatKhzHas() throws Exception {
        try (KhzMetrics _ = boundTo(registry, here().tags(Tags.of("node", "n1")), "khz.mem.total")) {
            Gauge total = registry.get("khz.mem.total").tag("node", "n1").gauge();
            assertEquals(get("mem.total"), total.value());
            assertEquals("bytes", total.getId().getBaseUnit());
            assertNull(registry.get("khz.load.1m").gauge().getId().getBaseUnit());
        }
    }

    @Test
    void aCounterIsBetweenTheValuesOfKhzBeforeAndAfter() throws Exception {
        try (KhzMetrics _ = boundTo(registry, here(), "khz.net.rx.bytes")) {
            double before = get("net.rx_bytes[lo]");
            FunctionCounter bytes = registry.get("khz.net.rx.bytes").tag("device", "lo").functionCounter();
            Patience.until("the snapshot is as new as the answer", () -> bytes.count() >= before);
            assertTrue(before > 0);
            double count = bytes.count();
            Patience.until("khz counts on", () -> get("net.rx_bytes[lo]") >= count);
            assertEquals("bytes", bytes.getId().getBaseUnit());
            double modes = registry.get("khz.cpu.all").functionCounters().stream().mapToDouble(FunctionCounter::count).sum();
            assertEquals(8, registry.get("khz.cpu.all").functionCounters().size());
            assertTrue(modes > 0);
        }
    }

    @Test
    void aValueAllocatesNothing() throws Exception {
        try (KhzMetrics _ = boundTo(registry, here(), "khz.net.rx.bytes")) {
            Gauge free = registry.get("khz.mem.free").gauge();
            FunctionCounter bytes = registry.get("khz.net.rx.bytes").tag("device", "lo").functionCounter();
            int reads = 100_000;
            double sum = 0;
            long allocated = Long.MAX_VALUE;
            // The first rounds also compile.
            for (int round = 0; round < 5; round++) {
                long before = allocated();
                for (int i = 0; i < reads; i++) {
                    sum += free.value() + bytes.count();
                }
                allocated = Math.min(allocated, allocated() - before);
            }
            assertTrue(allocated < reads, allocated + " bytes in " + reads + " reads");
            assertTrue(sum > 0);
        }
    }

    private static long allocated() {
        return ((ThreadMXBean) ManagementFactory.getThreadMXBean()).getCurrentThreadAllocatedBytes();
    }

    @Test
    void prometheusScrapesNamesUnitsAndTheValuesOfKhz() throws Exception {
        PrometheusMeterRegistry prometheus = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
        try (KhzMetrics _ = boundTo(prometheus, here(), "khz.pressure.memory.some")) {
            String text = prometheus.scrape();
            assertEquals(get("mem.total"), scraped(text, "khz_mem_total_bytes "));
            assertTrue(scraped(text, "khz_cpu_all_seconds_total{mode=\"user\"} ") > 0, text);
            assertTrue(scraped(text, "khz_net_rx_bytes_total{device=\"lo\"} ") > 0, text);
            assertTrue(scraped(text, "khz_pressure_memory_some_seconds_total ") >= 0, text);
            assertTrue(scraped(text, "khz_pressure_memory_some_avg10_percent ") >= 0, text);
            assertTrue(text.contains("# TYPE khz_mem_total_bytes gauge\n"), text);
            assertTrue(text.contains("# TYPE khz_net_rx_bytes_total counter\n"), text);
            khz.end();
            String after = prometheus.scrape();
            assertTrue(Double.isNaN(scraped(after, "khz_mem_total_bytes ")), after);
            assertTrue(Double.isNaN(scraped(after, "khz_net_rx_bytes_total{device=\"lo\"} ")), after);
        }
    }

    private static double scraped(String text, String name) {
        String line = text.lines().filter(l -> l.startsWith(name)).findFirst().orElseThrow(() -> new AssertionError(name + " is not in " + text));
        return Double.parseDouble(line.substring(name.length()));
    }

    @Test
    void withoutAnAgentThereIsNoValueAndAfterItsStartThereIs() throws Exception {
        KhzProgram.program();
        try (KhzMetrics metrics = here().refreshEvery(Duration.ofMillis(20)).build()) {
            metrics.bindTo(registry);
            assertTrue(registry.getMeters().isEmpty());
            assertTrue(metrics.problem().contains("there is no snapshot"), metrics.problem());
            khz = KhzProgram.alone(folder);
            Patience.until("the refresh has bound it", () -> registry.find("khz.mem.total").gauge() != null);
            assertEquals("", metrics.problem());
            Gauge total = registry.get("khz.mem.total").gauge();
            double value = total.value();
            assertTrue(value > 0);
            khz.end();
            assertTrue(Double.isNaN(total.value()));
            assertTrue(metrics.problem().contains("has ended") || metrics.problem().contains("there is no snapshot"), metrics.problem());
            khz = KhzProgram.alone(folder);
            Patience.until("the value is back", () -> total.value() == value);
        }
    }

    @Test
    void anAgentThatWasKilledHasNoValuesAfterAWhile() throws Exception {
        try (KhzMetrics metrics = boundTo(registry, here().staleAfter(Duration.ofSeconds(2)), "khz.mem.total")) {
            Gauge total = registry.get("khz.mem.total").gauge();
            khz.kill();
            Patience.until("its last value is not given any more", () -> Double.isNaN(total.value()));
            metrics.refresh();
            assertNotNull(registry.find("khz.mem.total").gauge());
            assertTrue(metrics.problem().contains("has gathered nothing for"), metrics.problem());
        }
    }

    @Test
    void onlyWhatIsNamedIsBoundAndWhatComesLaterIsBoundOnARefresh() throws Exception {
        // It warns of what comes late, which this test is about.
        Logger log = Logger.getLogger(KhzMetrics.class.getName());
        log.setLevel(Level.OFF);
        try (KhzMetrics metrics = boundTo(registry, here().series("mem.free").alsoSeries("job.*"), "khz.mem.free")) {
            assertEquals(1, registry.getMeters().size());
            khz.run("publish", "queue[worker 3,rank=1]=17");
            Patience.until("the new series is bound", () -> {
                metrics.refresh();
                return registry.find("khz.job.queue").gauge() != null;
            });
            assertEquals(17, registry.get("khz.job.queue").tags("name", "worker 3", "rank", "1").gauge().value());
            assertEquals(2, registry.getMeters().size());
        } finally {
            log.setLevel(null);
        }
    }

    @Test
    void aMisspeltSeriesIsAProblem() throws Exception {
        try (KhzMetrics metrics = boundTo(registry, here().alsoSeries("mem.fre", "mem.fr*x"), "khz.mem.total")) {
            assertTrue(metrics.problem().contains("has no series 'mem.fre' (did you mean mem.free?)"), metrics.problem());
            assertTrue(metrics.problem().endsWith(" (and 1 more)"), metrics.problem());
        }
    }

    @Test
    void tooManySeriesAreCountedAndNotBound() throws Exception {
        try (KhzMetrics metrics = boundTo(registry, here().series("mem.*").metersMax(3), "khz.mem.total")) {
            assertEquals(3, registry.getMeters().size());
            Patience.until("those that are left out are counted", () -> {
                metrics.refresh();
                return metrics.problem().contains("series have no meter: more than 3 match");
            });
        }
    }

    @Test
    void aClosedBinderTakesItsMetersAway() throws Exception {
        Meter other = Gauge.builder("other", () -> 1).register(registry);
        KhzMetrics metrics = boundTo(registry, here(), "khz.mem.total");
        metrics.close();
        metrics.close();
        assertEquals(other, registry.getMeters().getFirst());
        assertEquals(1, registry.getMeters().size());
    }

    @Test
    void aCompositeRegistryIsBoundBeforeItHasAnyChildren() throws Exception {
        // It warns of children that come late, which this test is about.
        Logger log = Logger.getLogger(CompositeMeterRegistry.class.getName());
        log.setLevel(Level.OFF);
        CompositeMeterRegistry composite = new CompositeMeterRegistry();
        try (KhzMetrics _ = boundTo(composite, here(), "khz.mem.total")) {
            composite.add(registry);
            assertEquals(get("mem.total"), registry.get("khz.mem.total").gauge().value());
            // A collection must not end the counters.
            System.gc();
            assertFalse(Double.isNaN(registry.get("khz.net.rx.bytes").tag("device", "lo").functionCounter().count()));
        } finally {
            log.setLevel(null);
        }
    }

    @Test
    void settingsThatCannotBeAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> KhzMetrics.builder().series("n1:mem.free"));
        assertThrows(IllegalArgumentException.class, () -> KhzMetrics.builder().metersMax(0));
        assertThrows(IllegalArgumentException.class, () -> KhzMetrics.builder().refreshEvery(Duration.ofSeconds(-1)));
        assertThrows(IllegalArgumentException.class, () -> KhzMetrics.builder().staleAfter(Duration.ZERO).build());
    }
}
