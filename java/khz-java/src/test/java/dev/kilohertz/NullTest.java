package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.function.DoubleSupplier;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Arguments that are null are refused at once, by name; and texts that cannot be sent. */
class NullTest {
    @TempDir
    Path folder;

    private static void refuses(String parameter, Executable call) {
        assertEquals(parameter, assertThrows(NullPointerException.class, call, parameter).getMessage());
    }

    @Test
    void whatAsksForNumbersNamesTheParameter() {
        Client client = Client.connect("http://localhost:1");
        refuses("address", () -> Client.connect(null));
        refuses("address", () -> Client.builder(null));
        refuses("text", () -> Client.builder("http://a").token(null));
        refuses("file", () -> Client.builder("http://a").authority(null));
        refuses("context", () -> Client.builder("http://a").tls(null));
        refuses("time", () -> Client.builder("http://a").connectMax(null));
        refuses("time", () -> Client.builder("http://a").silenceMax(null));
        refuses("time", () -> Client.builder("http://a").answerMax(null));
        refuses("pattern", () -> client.now((String) null));
        refuses("patterns", () -> client.now((String[]) null));
        refuses("age", () -> client.now((Duration) null, "a.b"));
        refuses("hostlist", () -> client.nodes(null));
        refuses("range", () -> client.range(null));
        refuses("subscription", () -> client.stream(null));
        refuses("subscription", () -> client.publisher(null));
        refuses("name", () -> client.defineChannel(null, Subscription.of()));
        refuses("subscription", () -> client.defineChannel("a", null));
        refuses("name", () -> client.removeChannel(null));
        refuses("patterns", () -> Subscription.of((String[]) null));
        refuses("name", () -> Subscription.channel(null));
        refuses("rate", () -> Subscription.of().rate(null));
        refuses("promql", () -> Subscription.of().when(null));
        refuses("duration", () -> Subscription.of().every(null));
        refuses("patterns", () -> Range.of((String[]) null));
        refuses("time", () -> Range.of().from((String) null));
        refuses("time", () -> Range.of().to((Instant) null));
    }

    @Test
    void whatReadsAndPublishesNamesTheParameter() {
        refuses("path", () -> Snapshot.open(null));
        refuses("path", () -> LiveSnapshot.at(null));
        refuses("staleAfter", () -> LiveSnapshot.local(null));
        refuses("metric", () -> SeriesName.of(null));
        refuses("labels", () -> new SeriesName("a", "b", null));
        refuses("name", () -> SeriesName.of("a").label(null, "b"));
        refuses("text", () -> SeriesName.parse(null));
        refuses("path", () -> Publisher.at(null));
        try (Publisher job = Publisher.at(folder)) {
            refuses("period", () -> job.sendEvery(null));
            refuses("name", () -> job.gauge(null));
            refuses("name", () -> job.counter(null));
            refuses("text", () -> job.gauge("a").instance(null));
            refuses("label", () -> job.gauge("a").label(null, "b"));
            refuses("value", () -> job.gauge("a").label("b", null));
            refuses("word", () -> job.gauge("a").unit(null));
            refuses("text", () -> job.gauge("a").help(null));
            refuses("source", () -> job.gauge("a").define((LongSupplier) null));
            refuses("source", () -> job.gauge("a").define((DoubleSupplier) null));
            refuses("number", () -> job.gauge("a").define().set((BigDecimal) null));
        }
    }

    @Test
    void halfOfACharacterIsNotAskedFor() {
        Client client = Client.connect("http://localhost:1");
        for (Executable call : new Executable[] {() -> client.now("a[\ud800]"), () -> client.stream(Subscription.of("a").nodes("\udc00")),
            () -> client.range(Range.of("\ud800x")), () -> client.removeChannel("\ud800")}) {
            String message = assertThrows(IllegalArgumentException.class, call).getMessage();
            assertTrue(message.contains("half of a character"), message);
        }
    }

    @Test
    void columnsSayWhoseTheyAre() {
        Series free = new Series("mem.free", "bytes", Kind.GAUGE, ValueType.UNSIGNED, 0);
        assertEquals("n1 at 10Hz: [mem.free]", new Columns("n1", "10Hz", Duration.ofMillis(100), new SeriesTable(List.of(free))).toString());
    }
}
