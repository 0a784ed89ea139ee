package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.nio.file.Path;
import java.time.Instant;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The lines that numbers become, and what is refused before it is one. */
class DefinitionTest {
    @TempDir
    static Path folder;
    private final Publisher job = Publisher.at(folder);

    @AfterEach
    void close() {
        job.close();
    }

    @Test
    void aLineSaysEverythingAboutItsNumber() {
        Published queue = job.gauge("queue").instance("worker 3").label("rank", "1").places(2).help("Tasks that wait").define();
        assertNull(queue.waiting());
        queue.set(new BigDecimal("17.255"));
        assertEquals("job.queue[worker%203,rank=1]=17.26 unit=count kind=gauge places=2 help=Tasks that wait", queue.waiting().line());
        assertEquals("job.queue[worker%203,rank=1]", queue.name());
        Published steps = job.counter("job.steps").unit("packets").define();
        steps.set(new BigDecimal("18446744073709551615"), Instant.ofEpochSecond(1_763_690_000L, 5));
        assertEquals("job.steps=18446744073709551615 unit=packets kind=counter places=0 time=1763690000.000000005", steps.waiting().line());
        Published loss = job.gauge("loss").floating().define();
        loss.set(2.5e-7);
        assertEquals("job.loss=2.5E-7 unit=count kind=gauge type=float", loss.waiting().line());
        loss.set(Double.NEGATIVE_INFINITY);
        assertTrue(loss.waiting().line().startsWith("job.loss=-inf "));
        loss.set(Double.NaN);
        assertTrue(loss.waiting().line().startsWith("job.loss=NaN "));
        loss.set(3L);
        assertTrue(loss.waiting().line().startsWith("job.loss=3.0 "));
    }

    @Test
    void aValueThatWasSentIsNotSentAgain() {
        Published queue = job.gauge("queue").define();
        queue.set(1);
        Published.Waiting first = queue.waiting();
        queue.set(2);
        first.sent();
        Published.Waiting second = queue.waiting();
        assertTrue(second.line().startsWith("job.queue=2 "), "the newer value was lost");
        second.sent();
        assertNull(queue.waiting());
    }

    @Test
    void aSourceIsAskedEachTime() {
        long[] value = {1};
        Published queue = job.gauge("queue").define(() -> value[0]++);
        assertTrue(queue.waiting().line().startsWith("job.queue=1 "));
        assertTrue(queue.waiting().line().startsWith("job.queue=2 "));
        Published load = job.gauge("load").define(() -> 0.5);
        assertTrue(load.waiting().line().startsWith("job.load=0.5 "));
    }

    @Test
    void whatAnAgentWouldNotTakeIsRefusedHere() {
        refused("lower-case", d -> job.gauge("Queue"));
        refused("lower-case", d -> job.gauge("a..b"));
        refused("lower-case", d -> job.gauge(""));
        refused("lower-case", d -> job.gauge("a b"));
        refused("lower-case", d -> job.gauge("a".repeat(125)));
        refused("255 bytes", d -> d.instance("ü".repeat(128)));
        refused("no NUL", d -> d.instance("a\0"));
        refused("cannot be called 'job'", d -> d.label("job", "x"));
        refused("cannot be called '1a'", d -> d.label("1a", "x"));
        refused("cannot be called '__a'", d -> d.label("__a", "x"));
        refused("4096 bytes", d -> d.label("a", "x".repeat(4097)));
        refused("4096 bytes together", d -> d.label("a", "x".repeat(2100)).label("b", "x".repeat(2100)));
        refused("one of [bytes, count", d -> d.unit("parsecs"));
        refused("0 to 9", d -> d.places(10));
        refused("one line", d -> d.help("a\nb"));
        refused("200 bytes", d -> d.help("x".repeat(201)));
        refused("leave out places", d -> d.floating().places(1).define());
        refused("datagram", d -> d.label("a", "/".repeat(4000)).define());
        refused("defined twice", d -> {
            d.define();
            d.define();
        });
    }

    private void refused(String why, Consumer<Definition> of) {
        Definition definition = job.gauge("refused");
        String message = assertThrows(IllegalArgumentException.class, () -> of.accept(definition), why).getMessage();
        assertTrue(message.contains(why), message);
    }

    @Test
    void aValueThatDoesNotFitIsRefused() {
        Published steps = job.counter("steps").places(1).define();
        assertThrows(IllegalArgumentException.class, () -> steps.set(-1));
        assertThrows(IllegalArgumentException.class, () -> steps.set(0.5));
        steps.set(Long.MAX_VALUE / 10);
        assertThrows(IllegalArgumentException.class, () -> steps.set(Long.MAX_VALUE));
        Published drift = job.gauge("drift").places(9).define();
        assertThrows(IllegalArgumentException.class, () -> drift.set(10_000_000_000L));
        drift.set(-9_000_000_000L);
        assertTrue(drift.waiting().line().startsWith("job.drift=-9000000000.000000000 "));
    }

    @Test
    void aNodeHasRoomForSoManyNumbers() {
        for (int i = 0; i < Publisher.SERIES_MAX; i++) {
            job.gauge("name" + i % Publisher.NAMES_MAX).label("i", "x" + i).define();
        }
        assertThrows(PublishException.class, () -> job.gauge("name0").label("i", "more").define());
        try (Publisher other = Publisher.at(folder)) {
            for (int i = 0; i < Publisher.NAMES_MAX; i++) {
                other.gauge("name" + i).define();
            }
            assertThrows(PublishException.class, () -> other.gauge("more").define());
        }
    }

    @Test
    void withoutAnAgentNothingFailsAndTheNewestValueWaits() {
        Published queue = job.gauge("queue").define();
        queue.set(1);
        assertEquals(false, job.send());
        assertTrue(job.problem().orElseThrow().contains("no agent listens at " + folder.resolve("publish.sock")));
        queue.set(2);
        assertTrue(queue.waiting().line().startsWith("job.queue=2 "));
        job.close();
        assertThrows(IllegalStateException.class, job::send);
        assertThrows(IllegalStateException.class, () -> job.gauge("more").define());
    }

    @Test
    void aSourceThatFailsIsNamedAndTheOthersAreSent() {
        job.gauge("broken").define(() -> {
            throw new IllegalStateException("no queue");
        });
        assertTrue(job.send());
        assertTrue(job.problem().orElseThrow().contains("job.broken failed: java.lang.IllegalStateException: no queue"));
    }

    @Test
    void aPathThatTheKernelDoesNotTakeIsRefused() {
        PublishException error = assertThrows(PublishException.class, () -> Publisher.at(Path.of("/" + "x".repeat(100))));
        assertTrue(error.getMessage().contains("shorter --run-dir"), error.getMessage());
    }
}
