package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Hubs that refuse, break off, say nothing, or are none. */
class ClientTest {
    private static final String JSON = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
    private static final String EVENTS = "HTTP/1.1 200 OK\r\nkhz-heartbeat: 1\r\n\r\n";
    private static final String COLUMNS = "event: columns\ndata: {\"node\":\"n1\",\"rate\":\"1Hz\",\"period_ns\":1000000000,\"columns\":[{\"name\":\"a.b\","
            + "\"instance\":null,\"kind\":\"gauge\",\"unit\":\"count\",\"places\":0}]}\n\n";

    private static String row(int value) {
        return "event: rows\ndata: {\"node\":\"n1\",\"lost\":0,\"rows\":[{\"t\":\"1.0\",\"b\":\"1.0\",\"c\":[0,\"" + value + "\"]}]}\n\n";
    }

    private static KhzException refusal(String answer) throws IOException {
        try (FakeHub hub = FakeHub.saying(answer)) {
            return assertThrows(KhzException.class, () -> Client.connect(hub.address()).now("a.b"));
        }
    }

    @Test
    void aRefusalHasTheSentenceOfTheHub() throws IOException {
        RefusedException error = assertInstanceOf(RefusedException.class, refusal("HTTP/1.1 429 x\r\nretry-after: 5\r\n\r\n{\"error\":\"the limit is reached\"}"));
        assertEquals("the limit is reached", error.getMessage());
        assertEquals(429, error.status());
        assertEquals(Optional.of(Duration.ofSeconds(5)), error.retryAfter());
        RefusedException shown = assertInstanceOf(RefusedException.class,
                refusal("HTTP/1.1 400 x\r\n\r\n{\"error\":\"'[' is never closed\",\"column\":2,\"shown\":\"'[' is never closed (column 2)\\n  a[\\n   ^\"}"));
        assertEquals("'[' is never closed", shown.getMessage());
        assertEquals("'[' is never closed (column 2)\n  a[\n   ^", shown.shown().orElseThrow());
        assertEquals(Optional.empty(), shown.retryAfter());
    }

    @Test
    void anAnswerThatIsNotKhzIsRefused() throws IOException {
        assertInstanceOf(MalformedException.class, refusal("SSH-2.0-OpenSSH_9\r\n"));
        assertInstanceOf(MalformedException.class, refusal(JSON + "<html>"));
        assertInstanceOf(MalformedException.class, refusal(JSON + "{\"nodes\":[{\"node\":\"n1\""));
        assertInstanceOf(UnreachableException.class, refusal("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}"));
        assertInstanceOf(UnreachableException.class, refusal("HTTP/1.1 200"));
        assertInstanceOf(UnreachableException.class, refusal(""));
    }

    @Test
    void anAnswerBeyondTheLimitIsRefused() throws IOException {
        try (FakeHub hub = FakeHub.saying(JSON + "{\"x\":\"" + "y".repeat(5000) + "\"}")) {
            MalformedException error =
                    assertThrows(MalformedException.class, () -> Client.builder(hub.address()).answerBytesMax(4096).build().nodes());
            assertTrue(error.getMessage().contains("answerBytesMax"), error.getMessage());
        }
    }

    @Test
    void aHubThatSaysNothingIsGivenUp() throws IOException {
        try (FakeHub hub = new FakeHub(out -> new CountDownLatch(1).await())) {
            Client client = Client.builder(hub.address()).silenceMax(Duration.ofMillis(50)).build();
            UnreachableException error = assertThrows(UnreachableException.class, client::nodes);
            assertTrue(error.getMessage().contains("says nothing"), error.getMessage());
        }
    }

    @Test
    void aHubThatIsNotThereIsNamed() {
        UnreachableException tcp = assertThrows(UnreachableException.class, () -> Client.connect("http://127.0.0.1:1").nodes());
        assertTrue(tcp.getMessage().contains("http://127.0.0.1:1 takes no connection"), tcp.getMessage());
        UnreachableException local = assertThrows(UnreachableException.class, () -> Client.connect("unix:/nonexistent/hub.sock").nodes());
        assertTrue(local.getMessage().contains("/nonexistent/hub.sock"), local.getMessage());
    }

    @Test
    void aStoppedKhzWithAFullQueueDelaysNobody(@TempDir Path folder) throws Exception {
        Path socket = folder.resolve("khz.sock");
        try (ServerSocketChannel stopped = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            stopped.bind(UnixDomainSocketAddress.of(socket), 1);
            Client client = Client.builder("unix:" + socket).connectMax(Duration.ofMillis(50)).silenceMax(Duration.ofMillis(50)).build();
            List<String> why = new ArrayList<>();
            List<LocalConnection> waiting = new ArrayList<>();
            try {
                for (int i = 0; i < 3; i++) {
                    waiting.add(LocalConnection.open(socket, 50));
                }
            } catch (SocketTimeoutException e) {
                why.add(e.getMessage());
            }
            assertEquals(1, why.size(), "its queue is not full");
            UnreachableException error = assertThrows(UnreachableException.class, client::nodes);
            assertTrue(error.getMessage().contains("takes no connection within 50 ms"), error.getMessage());
            for (LocalConnection connection : waiting) {
                connection.close();
            }
        }
    }

    @Test
    void whatIsNoAddressIsRefused() {
        for (String address : new String[] {"", "hub:7070", "ftp://hub", "http://", "http://hub:7070/khz", "http://a b", "http://me@hub"}) {
            IllegalArgumentException error = assertThrows(IllegalArgumentException.class, () -> Client.connect(address), address);
            assertTrue(error.getMessage().contains("http://HOST:PORT"), error.getMessage());
        }
        assertThrows(IllegalArgumentException.class, () -> Client.builder("http://hub").token("a\nb").build());
    }

    @Test
    void aStreamGivesItsRowsThenSaysThatTheHubIsGone() throws IOException {
        try (FakeHub hub = FakeHub.saying(EVENTS + ": heartbeat\n\n" + COLUMNS + row(1) + row(2));
                EventStream stream = Client.connect(hub.address()).stream(Subscription.of("a.b"))) {
            assertEquals(1.0, stream.nextRow().orElseThrow().doubleValue("a.b"));
            assertEquals(2.0, stream.nextRow().orElseThrow().doubleValue("a.b"));
            assertTrue(assertThrows(UnreachableException.class, stream::nextRow).getMessage().contains("is gone"));
        }
    }

    @Test
    void aStreamThatIsDroppedSaysWhy() throws IOException {
        String dropped = "event: dropped\ndata: {\"error\":\"this reader fell behind\"}\n\n";
        try (FakeHub hub = FakeHub.saying(EVENTS + COLUMNS + dropped);
                EventStream stream = Client.connect(hub.address()).stream(Subscription.of("a.b"))) {
            assertEquals("this reader fell behind", assertThrows(RefusedException.class, stream::next).getMessage());
        }
    }

    @Test
    void closingAStreamEndsTheWaitOfItsReader() throws Exception {
        try (FakeHub hub = new FakeHub(out -> {
            out.write(EVENTS.getBytes(StandardCharsets.UTF_8));
            new CountDownLatch(1).await();
        })) {
            EventStream stream = Client.connect(hub.address()).stream(Subscription.of("a.b"));
            BlockingQueue<Boolean> ended = new LinkedBlockingQueue<>();
            Thread reader = Thread.ofVirtual().start(() -> ended.add(stream.iterator().hasNext()));
            Patience.until("the reader waits", () -> reader.getState() == Thread.State.WAITING || reader.getState() == Thread.State.TIMED_WAITING);
            stream.close();
            assertEquals(Boolean.FALSE, ended.poll(1, TimeUnit.MINUTES));
        }
    }

    @Test
    void anAnswerAboutThePastThatHasNoEndIsNotWhole() throws IOException {
        String part = "{\"node\":\"n1\",\"name\":\"a.b\",\"instance\":\"x y\",\"kind\":\"counter\",\"unit\":\"bytes\",\"places\":1,\"type\":\"unsigned\",\"step\":\"1\","
                + "\"rows\":[[\"5.000000001\",\"1.5\",\"0.1\"],[\"6.0\",\"2.5\",{\"absent\":\"instance gone\"}]]}\n";
        String point = "{\"node\":\"n1\",\"name\":\"a.b\",\"instance\":null,\"kind\":\"gauge\",\"unit\":\"count\",\"places\":0,\"type\":\"unsigned\",\"step\":\"1\","
                + "\"points\":[{\"t\":\"60.0\",\"count\":2,\"first\":\"1\",\"first_t\":\"60.0\",\"last\":\"2\",\"last_t\":\"61.0\",\"lowest\":\"1\",\"highest\":\"2\",\"sum\":\"3\",\"resets\":1}]}\n";
        String damage = "{\"damage\":\"file x, byte 7\"}\n";
        try (FakeHub hub = FakeHub.saying(JSON + part + damage + point + "{\"end\":{\"width\":\"60.000000000\"}}\n");
                RangeStream range = Client.connect(hub.address()).range(Range.of("a.b"))) {
            List<RangePart> parts = new ArrayList<>();
            range.forEach(parts::add);
            assertEquals(2, parts.size());
            assertEquals("a.b[x%20y]", parts.getFirst().series().name());
            assertEquals(State.ABSENT, parts.getFirst().rows().get(1).reading().state());
            assertEquals(1.5, parts.get(1).points().getFirst().mean());
            assertEquals(Optional.of(Duration.ofMinutes(1)), range.width());
            assertEquals(List.of("file x, byte 7"), range.damages());
        }
        try (FakeHub hub = FakeHub.saying(JSON + part); RangeStream range = Client.connect(hub.address()).range(Range.of("a.b"))) {
            assertTrue(range.next().isPresent());
            assertTrue(assertThrows(UnreachableException.class, range::next).getMessage().contains("broke off"));
        }
        try (FakeHub hub = FakeHub.saying(JSON + part + "{\"error\":\"the disk failed\"}\n"); RangeStream range = Client.connect(hub.address()).range(Range.of("a.b"))) {
            assertTrue(range.next().isPresent());
            assertEquals("the disk failed", assertThrows(RefusedException.class, range::next).getMessage());
        }
    }

    /** Notes what it gets, and requests nothing by itself. */
    private static final class Noting implements Flow.Subscriber<Event> {
        private final BlockingQueue<Object> got = new LinkedBlockingQueue<>();
        private final CountDownLatch begun = new CountDownLatch(1);
        private volatile Flow.Subscription subscription;

        @Override
        public void onSubscribe(Flow.Subscription given) {
            subscription = given;
            begun.countDown();
        }

        @Override
        public void onNext(Event event) {
            got.add(event);
        }

        @Override
        public void onError(Throwable error) {
            got.add(error);
        }

        @Override
        public void onComplete() {
            got.add("complete");
        }

        private Object take() throws InterruptedException {
            return got.poll(1, TimeUnit.MINUTES);
        }
    }

    private static Noting subscribed(FakeHub hub) throws InterruptedException {
        Noting noting = new Noting();
        Client.connect(hub.address()).publisher(Subscription.of("a.b")).subscribe(noting);
        assertTrue(noting.begun.await(1, TimeUnit.MINUTES));
        return noting;
    }

    @Test
    void aSubscriberGetsAsManyEventsAsItRequests() throws Exception {
        try (FakeHub hub = FakeHub.saying(EVENTS + COLUMNS + row(1) + row(2) + row(3))) {
            Noting noting = subscribed(hub);
            noting.subscription.request(2);
            assertEquals(1.0, assertInstanceOf(Row.class, noting.take()).doubleValue("a.b"));
            assertEquals(2.0, assertInstanceOf(Row.class, noting.take()).doubleValue("a.b"));
            assertTrue(noting.got.isEmpty());
            noting.subscription.request(Long.MAX_VALUE);
            noting.subscription.request(Long.MAX_VALUE);
            assertEquals(3.0, assertInstanceOf(Row.class, noting.take()).doubleValue("a.b"));
            assertInstanceOf(UnreachableException.class, noting.take());
        }
    }

    @Test
    void aSubscriberThatRequestsNothingHearsThatItIsWrong() throws Exception {
        try (FakeHub hub = FakeHub.saying(EVENTS)) {
            Noting noting = subscribed(hub);
            noting.subscription.request(0);
            assertInstanceOf(IllegalArgumentException.class, noting.take());
        }
    }

    @Test
    void aSubscriberThatCancelsHearsNothingMore() throws Exception {
        CountDownLatch closed = new CountDownLatch(1);
        try (FakeHub hub = new FakeHub(out -> {
            out.write((EVENTS + COLUMNS).getBytes(StandardCharsets.UTF_8));
            try {
                while (true) {
                    out.write(row(1).getBytes(StandardCharsets.UTF_8));
                }
            } finally {
                closed.countDown();
            }
        })) {
            Noting noting = subscribed(hub);
            noting.subscription.request(1);
            assertInstanceOf(Row.class, noting.take());
            noting.subscription.cancel();
            assertTrue(closed.await(1, TimeUnit.MINUTES), "its connection is still open");
            assertTrue(noting.got.isEmpty());
        }
    }

    @Test
    void aSubscriberOfAHubThatIsNotThereHearsIt() throws Exception {
        Noting noting = new Noting();
        Client.connect("unix:" + Path.of("/nonexistent/hub.sock")).publisher(Subscription.of("a.b")).subscribe(noting);
        assertInstanceOf(UnreachableException.class, noting.take());
    }

    @Test
    void aSubscriptionIsTheDefinitionOfAChannel() {
        Subscription subscription = Subscription.of("a.b[\"x\\\n]", "c").rate("1Hz").once().atLeast(3, 5).holdFor("10s");
        assertEquals("{\"series\":[\"a.b[\\\"x\\\\\\u000a]\",\"c\"],\"rate\":\"1Hz\",\"once\":true,\"at_least\":3,\"of\":5,\"for\":\"10s\"}", subscription.definition());
        assertEquals("{}", Subscription.of().definition());
    }

    @Test
    void aSubscriptionIsAUrl() {
        Subscription subscription = Subscription.of("n[1-2]:fs.free[%2Fhome]", "a.*").rate("10Hz").when("x > 1").atLeast(3, 5).once();
        assertEquals("/khz/v1/stream?match=n%5B1-2%5D%3Afs.free%5B%252Fhome%5D&match=a.%2A&rate=10Hz&when=x%20%3E%201&at_least=3&of=5&once=1&changes=1",
                subscription.url());
        assertEquals("/khz/v1/channels/hot/stream?changes=1", Subscription.channel("hot").url());
        assertThrows(IllegalStateException.class, () -> Subscription.channel("hot").rate("1Hz"));
        assertFalse(Subscription.of("a").url().contains("rate"));
        assertEquals("/khz/v1/range?match=a&from=-1h&points=7", Range.of("a").from("-1h").points(7).url());
    }
}
