package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Everything of this library against a real khz that runs alone. */
class AloneTest {
    @TempDir
    static Path folder;
    private static KhzProgram khz;
    private static Client client;

    @BeforeAll
    static void start() throws IOException {
        khz = KhzProgram.alone(folder);
        client = Client.connect(khz.door());
    }

    @AfterAll
    static void end() {
        if (khz != null) {
            khz.close();
        }
    }

    @Test
    void theSnapshotHasEverySeriesThatTheDoorHas() throws Exception {
        try (Snapshot node = Snapshot.open(khz.snapshot())) {
            assertEquals("n1", node.node());
            Patience.until("everything was gathered once", () -> node.series().size() > 100);
            Now now = client.now();
            assertTrue(now.samples().size() > 100);
            int numbers = 0;
            for (Sample sample : now) {
                if (sample.reading() instanceof Reading.Value) {
                    assertEquals(sample.kind(), series(node, sample.name()).kind(), sample.name());
                    assertEquals(sample.unit(), series(node, sample.name()).unit(), sample.name());
                    assertEquals(sample.name(), SeriesName.parse(sample.name()).toString());
                    numbers++;
                }
            }
            assertTrue(numbers > 100, "only " + numbers + " numbers");
            Snapshot.Handle total = node.handle("mem.total");
            assertEquals(client.now("mem.total").samples().getFirst().doubleValue(), node.doubleValue(total));
            assertTrue(node.doubleValue(total) > 1e6);
            assertTrue(node.age().compareTo(Duration.ofMinutes(1)) < 0, node.age().toString());
        }
    }

    /** The snapshot gets a series with the next row: a process that has just begun is at the door before. */
    private static Series series(Snapshot node, String name) throws Exception {
        Patience.until("the snapshot has " + name, () -> find(node, name).isPresent());
        return find(node, name).orElseThrow();
    }

    private static Optional<Series> find(Snapshot node, String name) {
        return node.series().stream().filter(series -> series.name().equals(name)).findFirst();
    }

    @Test
    void theLocalSocketAnswersAsTheDoorDoes() {
        Client local = Client.connect("unix:" + khz.runDirectory().resolve("khz.sock"));
        String total = client.now("mem.total").samples().getFirst().reading().toString();
        assertEquals(total, local.now("mem.total").samples().getFirst().reading().toString());
        assertEquals("n1", local.nodes().getFirst().name());
        assertTrue(local.nodes("n1").getFirst().isUp());
        assertTrue(local.nodes("other").isEmpty());
        assertTrue(client.now(Duration.ofMillis(1), "mem.free").samples().getFirst().time().getEpochSecond() > 0);
        try (EventStream stream = local.stream(Subscription.of("mem.total").rate("50Hz"))) {
            assertEquals(total, stream.nextRow().orElseThrow().reading("mem.total").toString());
        }
    }

    @Test
    void labelsAreReadings() {
        Sample uname = client.now("host.uname").samples().getFirst();
        assertEquals("Linux", ((Reading.Labels) uname.reading()).labels().get("sysname"));
    }

    @Test
    void rowsComeAtTheRateAndNoneIsMissing() {
        try (EventStream stream = client.stream(Subscription.of("mem.*", "load.1m").rate("100Hz"))) {
            Row last = stream.nextRow().orElseThrow();
            assertEquals("100Hz", last.columns().rate());
            assertEquals(Duration.ofMillis(10), last.columns().period());
            for (int i = 0; i < 30; i++) {
                Row row = stream.nextRow().orElseThrow();
                assertEquals(last.columns().series().size(), row.readings().size());
                assertTrue(row.bootNanos() > last.bootNanos());
                assertTrue(row.doubleValue("mem.total") > 1e6);
                assertTrue(row.doubleValue("mem.free") <= row.doubleValue("mem.total"));
                last = row;
            }
        }
    }

    @Test
    void conditionsAreThoseOfTheNode() {
        try (EventStream stream = client.stream(Subscription.of("mem.total").rate("10Hz").when("{\"mem.total\"} > 0").once())) {
            assertTrue(stream.nextRow().orElseThrow().doubleValue("mem.total") > 0);
        }
        try (EventStream stream = client.stream(Subscription.of().expression("{\"mem.total\"} * 0 + 7").rate("10Hz"))) {
            assertEquals(7.0, stream.nextRow().orElseThrow().doubleValue("channel.adhoc"));
        }
        try (EventStream stream = client.stream(Subscription.of("mem.total").each("max 1s").rate("10Hz").every("200ms"))) {
            assertTrue(stream.nextRow().orElseThrow().columns().series().getFirst().name().contains("mem.total"));
        }
        RefusedException error = assertThrows(RefusedException.class, () -> client.stream(Subscription.of("mem.total").when("{\"mem.total\"} >")));
        assertEquals(400, error.status());
    }

    @Test
    void aChannelIsFollowedByItsName() throws Exception {
        client.defineChannel("hot", Subscription.of().expression("{\"mem.total\"} * 0 + 5").rate("10Hz").when("{\"mem.total\"} > 1").atLeast(1, 2));
        assertTrue(khz.run("channel", "list").contains("hot"));
        try (EventStream stream = client.stream(Subscription.channel("hot"))) {
            assertEquals(5.0, stream.nextRow().orElseThrow().doubleValue("channel.hot"));
            client.removeChannel("hot");
            assertThrows(RefusedException.class, () -> {
                while (stream.next().isPresent()) {
                    // Rows that were on their way.
                }
            });
        }
        assertEquals(404, assertThrows(RefusedException.class, () -> client.stream(Subscription.channel("no_such"))).status());
        assertEquals(404, assertThrows(RefusedException.class, () -> client.removeChannel("no_such")).status());
        assertEquals(400, assertThrows(RefusedException.class, () -> client.defineChannel("bad", Subscription.of("mem.free").rate("fast"))).status());
        assertThrows(IllegalArgumentException.class, () -> client.defineChannel("bad", Subscription.channel("hot")));
    }

    @Test
    void aChangedChannelIsAnEvent() {
        client.defineChannel("turn", Subscription.of("mem.total").rate("10Hz"));
        try (EventStream stream = client.stream(Subscription.channel("turn"))) {
            assertTrue(stream.nextRow().orElseThrow().doubleValue("mem.total") > 0);
            client.defineChannel("turn", Subscription.of("load.1m").rate("10Hz").when("{\"load.1m\"} >= 0").once().exact());
            for (Event event : stream) {
                if (event instanceof ChannelChange change) {
                    assertEquals("turn", change.name());
                    assertTrue(change.definition().contains("load.1m"), change.definition());
                    break;
                }
            }
        }
        client.removeChannel("turn");
    }

    @Test
    void whatNobodyHasIsRefusedWithASuggestion() {
        RefusedException error = assertThrows(RefusedException.class, () -> client.now("mem.fre"));
        assertEquals(404, error.status());
        assertTrue(error.getMessage().contains("did you mean mem.free?"), error.getMessage());
        Now now = client.now("mem.free", "mem.fre");
        assertEquals("mem.fre (did you mean mem.free?)", now.misses().patterns().getFirst().toString());
        RefusedException shown = assertThrows(RefusedException.class, () -> client.now("mem.[fre"));
        assertTrue(shown.shown().orElseThrow().contains("^"), shown.getMessage());
        assertEquals(400, assertThrows(RefusedException.class, () -> client.stream(Subscription.of("mem.free").rate("fast"))).status());
    }

    @Test
    void theLastSecondsArePast() throws Exception {
        Patience.until("two rows are past", () -> past("mem.total").size() >= 2);
        for (RangePart.PastReading reading : past("mem.total")) {
            assertTrue(reading.reading().doubleValue() > 1e6);
        }
    }

    private static List<RangePart.PastReading> past(String pattern) {
        List<RangePart.PastReading> rows = new ArrayList<>();
        try (RangeStream range = client.range(Range.of(pattern).from("-1min"))) {
            range.forEach(part -> rows.addAll(part.rows()));
        }
        return rows;
    }

    @Test
    void publishedNumbersAreExactForEveryReader() throws Exception {
        try (Publisher job = Publisher.at(khz.runDirectory()); Snapshot node = Snapshot.open(khz.snapshot())) {
            Published steps = job.counter("steps").help("Steps that are done").define();
            Published drift = job.gauge("drift").unit("seconds").places(6).define();
            Published loss = job.gauge("loss").floating().define();
            steps.set(new BigDecimal("18446744073709551615"));
            drift.set(new BigDecimal("-0.0125"));
            loss.set(2.5e-7);
            Patience.until("the agent takes them", job::send);
            Patience.until("they are in the snapshot", () -> node.series().stream().anyMatch(series -> series.name().equals("job.loss")));
            Latest latest = new Latest();
            Snapshot.Handle handle = node.handle("job.steps");
            Patience.until("they have a value", () -> node.read(handle, latest));
            assertEquals("18446744073709551615", latest.toString());
            assertTrue(node.read(node.handle("job.drift"), latest));
            assertEquals(new BigDecimal("-0.012500"), latest.decimal());
            assertEquals(2.5e-7, node.doubleValue(node.handle("job.loss")));
            assertEquals("-0.012500", client.now("job.drift").samples().getFirst().reading().toString());
            assertEquals(Kind.COUNTER, client.now("job.steps").samples().getFirst().kind());
            for (double value : new double[] {Double.NaN, Double.NEGATIVE_INFINITY, Double.MIN_VALUE, -Double.MAX_VALUE}) {
                loss.set(value);
                assertTrue(job.send());
                Patience.until(value + " is shown", () -> Double.compare(client.now("job.loss").samples().getFirst().doubleValue(), value) == 0);
            }
            assertRefusesNothing();
        }
    }

    private static void assertRefusesNothing() {
        List<String> counts = List.of("bad_lines", "mismatched", "collided", "unfit", "too_old", "too_new", "refused", "dropped");
        Now now = client.now(counts.stream().map(count -> "khz.publish." + count).toArray(String[]::new));
        assertEquals(counts.size(), now.samples().size());
        for (Sample count : now) {
            assertEquals("0", count.reading().toString(), count.name());
        }
    }

    @Test
    void namesMayHaveAnyCharacters() throws Exception {
        List<String> instances = List.of("a b", "a,b=c", "[x]", "100 %", "/home/ü/😀", "..", "line\nbreak\ttab", "\u202eright to left", "a\\\"'*?:", "\u00a0\u2003\u3000");
        try (Publisher job = Publisher.at(khz.runDirectory()); Snapshot node = Snapshot.open(khz.snapshot())) {
            List<Published> numbers = new ArrayList<>();
            for (int i = 0; i < instances.size(); i++) {
                Published number = job.gauge("any").instance(instances.get(i)).label("label", instances.get(instances.size() - 1 - i)).define();
                number.set(i);
                numbers.add(number);
            }
            Patience.until("the agent takes them", job::send);
            Patience.until("they are in the snapshot", () -> node.series().stream().filter(series -> series.name().startsWith("job.any")).count() == instances.size());
            for (int i = 0; i < instances.size(); i++) {
                String name = numbers.get(i).name();
                Snapshot.Handle handle = node.handle(name);
                double value = i;
                Patience.until(name + " has its value", () -> node.doubleValue(handle) == value);
                // A name is the pattern of itself.
                Now now = client.now(name);
                assertEquals(1, now.samples().size(), name);
                assertEquals(name, now.samples().getFirst().name());
                assertEquals(instances.get(i), SeriesName.parse(name).instance());
                assertEquals(value, now.samples().getFirst().doubleValue());
            }
            assertRefusesNothing();
        }
    }

    @Test
    void manyNumbersAreSentInSeveralDatagrams() throws Exception {
        try (Publisher job = Publisher.at(khz.runDirectory())) {
            for (int i = 0; i < 200; i++) {
                job.gauge("many").label("number", "x" + i).help("h".repeat(200)).define().set(i);
            }
            Patience.until("the agent takes them", job::send);
            assertEquals(Optional.empty(), job.problem());
            Patience.until("all are shown", () -> client.now("job.many").samples().size() == 200);
            assertRefusesNothing();
        }
    }

    @Test
    void aPublisherSendsByItself() throws Exception {
        long[] count = {0};
        try (Publisher job = Publisher.at(khz.runDirectory().resolve("publish.sock"))) {
            job.counter("beats").define(() -> ++count[0]);
            job.sendEvery(Duration.ofMillis(20));
            assertThrows(IllegalStateException.class, () -> job.sendEvery(Duration.ofMillis(20)));
            Patience.until("it is shown", () -> !client.now("job.*").samples().stream().filter(sample -> sample.name().equals("job.beats")).toList().isEmpty());
            double first = client.now("job.beats").samples().getFirst().doubleValue();
            Patience.until("it grows", () -> client.now("job.beats").samples().getFirst().doubleValue() > first);
        }
    }

    @Test
    void aRestartIsSurvivedByEveryReader(@TempDir Path other) throws Exception {
        KhzProgram first = KhzProgram.alone(other);
        try (Snapshot node = Snapshot.open(first.snapshot()); Publisher job = Publisher.at(first.runDirectory())) {
            Published queue = job.gauge("queue").define();
            Patience.until("it gathers", () -> node.series().stream().anyMatch(series -> series.name().equals("mem.total")));
            Snapshot.Handle handle = node.handle("mem.total");
            Patience.until("it has a value", () -> node.doubleValue(handle) > 0);
            double total = node.doubleValue(handle);
            first.end();
            assertThrows(SnapshotException.class, () -> node.doubleValue(handle));
            queue.set(7);
            assertFalse(job.send());
            try (KhzProgram second = KhzProgram.alone(other)) {
                Patience.until("the new file is read", () -> isRead(node, handle, total));
                Patience.until("what waited is sent", job::send);
                Patience.until("and shown", () -> client(second).now("job.*").samples().getFirst().doubleValue() == 7);
                second.kill();
            }
            try (KhzProgram third = KhzProgram.alone(other)) {
                Patience.until("the file after a crash is read", () -> isRead(node, handle, total));
                assertTrue(Files.exists(third.snapshot()));
            }
        } finally {
            first.close();
        }
    }

    private static Client client(KhzProgram program) {
        return Client.connect(program.door());
    }

    private static boolean isRead(Snapshot node, Snapshot.Handle handle, double value) {
        try {
            return node.doubleValue(handle) == value && node.age().compareTo(Duration.ofSeconds(5)) < 0;
        } catch (SnapshotException e) {
            return false;
        }
    }
}
