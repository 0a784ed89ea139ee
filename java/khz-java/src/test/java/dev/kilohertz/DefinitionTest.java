package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.atomic.AtomicInteger;
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
        Instant now = Instant.now();
        steps.set(new BigDecimal("18446744073709551615"), Instant.ofEpochSecond(now.getEpochSecond(), 5));
        assertEquals("job.steps=18446744073709551615 unit=packets kind=counter places=0 time=" + now.getEpochSecond() + ".000000005", steps.waiting().line());
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
        refused("the label 'a' is given twice", d -> d.label("a", "x").label("a", "y"));
        refused("the label 'b' is given twice", d -> d.label("b", "").label("b", ""));
        for (String half : new String[] {"\ud800", "a\udc00b", "\udc00\ud800"}) {
            refused("half of a character", d -> d.instance(half));
            refused("half of a character", d -> d.label("c" + half.length(), half));
            refused("half of a character", d -> d.help(half));
        }
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

    @Test
    void twoNamesThatAreOneAtPrometheusAreRefused() {
        assertCollide("queue.length", job.gauge("queue.length"), job.gauge("queue_length"), "khz_job_queue_length");
        assertCollide("held", job.gauge("held").unit("bytes"), job.gauge("held_bytes"), "khz_job_held_bytes");
        assertCollide("steps_total", job.gauge("steps_total"), job.counter("steps"), "khz_job_steps_total");
        assertCollide("a.b", job.gauge("a.b").instance("x"), job.gauge("a_b"), "khz_job_a_b");
        // Percent is no part of the name there.
        job.gauge("share").unit("percent").define();
        job.gauge("share_percent").define();
    }

    private void assertCollide(String first, Definition one, Definition other, String exposed) {
        one.define();
        String message = assertThrows(IllegalArgumentException.class, other::define).getMessage();
        assertTrue(message.contains("would be " + exposed + " at Prometheus, and so is job." + first), message);
    }

    @Test
    void whatTheNumbersOfANameSayIsAlike() {
        job.gauge("queue").label("rank", "0").unit("bytes").define();
        for (Definition other : new Definition[] {job.gauge("queue"), job.gauge("queue").unit("seconds"), job.counter("queue").unit("bytes"),
            job.gauge("queue").unit("bytes").floating(), job.gauge("queue").unit("bytes").places(1)}) {
            String message = assertThrows(IllegalArgumentException.class, () -> other.label("rank", "1").define()).getMessage();
            assertTrue(message.contains("another number of the name job.queue is a gauge in bytes, with 0 decimal places, and this one is"), message);
        }
        // What was refused leaves nothing behind.
        job.gauge("queue").label("rank", "1").unit("bytes").help("Another text is allowed").define();
    }

    @Test
    void aNameHasInstancesAlwaysOrNever() {
        job.gauge("with").instance("a").define();
        assertMixed(job.gauge("with"));
        assertMixed(job.gauge("with").instance(""));
        assertMixed(job.gauge("with").label("rank", ""));
        job.gauge("without").define();
        assertMixed(job.gauge("without").instance("a"));
        assertMixed(job.gauge("without").label("rank", "1"));
        job.gauge("with").label("rank", "1").define();
    }

    private static void assertMixed(Definition definition) {
        String message = assertThrows(IllegalArgumentException.class, definition::define).getMessage();
        assertTrue(message.contains("always or never"), message);
    }

    @Test
    void timesThatAnAgentDoesNotTakeAreRefused() {
        Published queue = job.gauge("queue").define();
        Published loss = job.gauge("loss").floating().define();
        Instant now = Instant.now();
        for (Instant time : new Instant[] {now.minusSeconds(601), now.plusSeconds(60), Instant.EPOCH, Instant.MIN, Instant.MAX}) {
            String message = assertThrows(IllegalArgumentException.class, () -> queue.set(BigDecimal.ONE, time)).getMessage();
            assertTrue(message.contains("in the last 10 minutes"), message);
            assertThrows(IllegalArgumentException.class, () -> loss.set(1.0, time));
        }
        assertNull(queue.waiting());
        queue.set(BigDecimal.ONE, now.minusSeconds(590));
        assertTrue(queue.waiting().isTimely(now));
        assertEquals(false, queue.waiting().isTimely(now.plusSeconds(11)), "it has waited for too long");
        queue.set(2);
        assertTrue(queue.waiting().isTimely(Instant.MAX));
    }

    @Test
    void hugeExponentsAreRefusedAtOnce() {
        Published queue = job.gauge("queue").places(2).define();
        Published steps = job.counter("steps").define();
        Published loss = job.gauge("loss").floating().define();
        for (String number : new String[] {"1e2147483647", "-1e2147483647", "1e21"}) {
            assertThrows(IllegalArgumentException.class, () -> queue.set(new BigDecimal(number)), number);
            assertThrows(IllegalArgumentException.class, () -> steps.set(new BigDecimal(number)), number);
        }
        assertThrows(IllegalArgumentException.class, () -> loss.set(new BigDecimal("1e400")));
        for (String number : new String[] {"1e-2147483647", "-1e-2147483647", "0.0049", "-0.0049", "0e2147483647"}) {
            queue.set(new BigDecimal(number));
            assertTrue(queue.waiting().line().startsWith("job.queue=0.00 "), queue.waiting().line());
        }
        queue.set(new BigDecimal("0.005"));
        assertTrue(queue.waiting().line().startsWith("job.queue=0.01 "));
        steps.set(new BigDecimal("-1e-9"));
        assertTrue(steps.waiting().line().startsWith("job.steps=0 "));
        for (Duration period : new Duration[] {Duration.ZERO, Duration.ofSeconds(Long.MAX_VALUE)}) {
            assertThrows(IllegalArgumentException.class, () -> job.sendEvery(period));
        }
    }

    @Test
    void aNodeHasRoomForSoManyBytesOfNames() {
        PublishException error = assertThrows(PublishException.class, () -> {
            for (int i = 0; i < Publisher.SERIES_MAX; i++) {
                job.gauge("long").label("label", i + "x".repeat(4_000)).define();
            }
        });
        assertTrue(error.getMessage().contains("1 MiB of names"), error.getMessage());
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
    void aCounterThatIsADoubleIsNotBelowZeroEither() {
        Published work = job.counter("work").floating().define();
        for (double number : new double[] {-1, -0.5, -Double.MIN_VALUE, Double.NEGATIVE_INFINITY}) {
            String message = assertThrows(IllegalArgumentException.class, () -> work.set(number)).getMessage();
            assertEquals("job.work is a counter and cannot be " + number + ": define a gauge", message);
            assertThrows(IllegalArgumentException.class, () -> work.set(number, Instant.now()));
        }
        assertThrows(IllegalArgumentException.class, () -> work.set(-1L));
        assertThrows(IllegalArgumentException.class, () -> work.set(new BigDecimal("-0.5")));
        assertNull(work.waiting());
        for (double number : new double[] {0.0, 0.5, Double.POSITIVE_INFINITY, Double.NaN}) {
            work.set(number);
            assertTrue(work.waiting().line().contains(" kind=counter type=float"), work.waiting().line());
        }
        job.counter("falls").define((java.util.function.DoubleSupplier) () -> -1);
        job.send();
        job.gauge("loss").floating().define().set(-0.5);
    }

    @Test
    void aNodeHasRoomForSoManyNumbers() {
        for (int i = 0; i < Publisher.SERIES_MAX; i++) {
            job.gauge("name" + i % Publisher.NAMES_MAX).label("i", "x" + i).define();
        }
        String series = assertThrows(PublishException.class, () -> job.gauge("name0").label("i", "more").define()).getMessage();
        assertTrue(series.contains("a node takes 1024 series"), series);
        assertTrue(!series.contains("256"), series);
        try (Publisher other = Publisher.at(folder)) {
            for (int i = 0; i < Publisher.NAMES_MAX; i++) {
                other.gauge("name" + i).define();
            }
            String names = assertThrows(PublishException.class, () -> other.gauge("more").define()).getMessage();
            assertTrue(names.contains("a node takes 256 names"), names);
            assertTrue(!names.contains("1024"), names);
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
    void aSourceThatFailsWithAnErrorIsNamedToo() {
        Throwable[] thrown = {new AssertionError("no\nqueue"), new StackOverflowError(), new OutOfMemoryError("Java heap space"),
            new NoClassDefFoundError("queue/Tasks"), new IllegalStateException() {
                @Override
                public String toString() {
                    throw new UnsupportedOperationException("no words");
                }
            }};
        int[] turn = {0};
        job.gauge("broken").define(() -> {
            return DefinitionTest.<Error>thrown(thrown[turn[0]++]);
        });
        for (Throwable each : thrown) {
            assertTrue(job.send(), "there is nothing else to send");
            String why = job.problem().orElseThrow();
            assertTrue(why.startsWith("the source of job.broken failed: " + each.getClass().getName()), why);
            assertEquals(1, why.lines().count(), why);
        }
        assertEquals(5, turn[0]);
    }

    /** Throws anything as if Java did not check it, as Kotlin does. */
    @SuppressWarnings("unchecked")
    private static <E extends Throwable> long thrown(Throwable any) throws E {
        throw (E) any;
    }

    @Test
    void anErrorDoesNotEndSendingByItself() throws Exception {
        AtomicInteger broken = new AtomicInteger();
        AtomicInteger good = new AtomicInteger();
        job.gauge("broken").define(() -> {
            if (broken.incrementAndGet() == 2) {
                throw new StackOverflowError();
            }
            return 1L;
        });
        job.gauge("good").define(() -> (long) good.incrementAndGet());
        job.sendEvery(Duration.ofMillis(5));
        Patience.until("both are asked after the error", () -> broken.get() > 4 && good.get() > 4);
        assertThrows(IllegalStateException.class, () -> job.sendEvery(Duration.ofSeconds(1)));
    }

    @Test
    void aPathThatTheKernelDoesNotTakeIsRefused() {
        PublishException error = assertThrows(PublishException.class, () -> Publisher.at(Path.of("/" + "x".repeat(100))));
        assertTrue(error.getMessage().contains("shorter --run-dir"), error.getMessage());
    }
}
