package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** An interrupt ends the wait for a khz, and does so alike in threads and with sockets of each kind. */
@Timeout(60)
class InterruptTest {
    private static final String EVENTS = "HTTP/1.1 200 OK\r\nkhz-heartbeat: 9\r\n\r\n: heartbeat\n\n";

    @TempDir
    Path folder;

    /** A thread of a kind that makes a call; what the call threw, and whether the thread was then still interrupted. */
    private record Ended(RuntimeException error, boolean isInterrupted) {}

    static Stream<Arguments> kinds() {
        return Stream.of(true, false).flatMap(isVirtual -> Stream.of(true, false).map(isLocal -> Arguments.of(isVirtual, isLocal)));
    }

    private FakeHub hub(boolean isLocal, String says) throws Exception {
        FakeHub.Answering answering = out -> {
            out.write(says.getBytes(StandardCharsets.UTF_8));
            new CountDownLatch(1).await();
        };
        return isLocal ? new FakeHub(folder.resolve("hub.sock"), answering) : new FakeHub(answering);
    }

    private static Thread started(boolean isVirtual, BlockingQueue<Ended> ended, Runnable call) {
        Thread.Builder builder = isVirtual ? Thread.ofVirtual() : Thread.ofPlatform().daemon();
        return builder.start(() -> {
            RuntimeException error = null;
            try {
                call.run();
            } catch (RuntimeException e) {
                error = e;
            }
            ended.add(new Ended(error, Thread.currentThread().isInterrupted()));
        });
    }

    private static void assertInterrupted(BlockingQueue<Ended> ended) throws InterruptedException {
        Ended how = ended.poll(50, TimeUnit.SECONDS);
        InterruptedWaitException error = assertInstanceOf(InterruptedWaitException.class, how.error);
        assertTrue(error.getMessage().contains("was interrupted while it waited for the khz at "), error.getMessage());
        assertTrue(how.isInterrupted, "the interrupt was lost");
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void anInterruptEndsTheWaitOfAStream(boolean isVirtual, boolean isLocal) throws Exception {
        try (FakeHub hub = hub(isLocal, EVENTS)) {
            assertEndsTheWaitOfAStream(isVirtual, Client.connect(hub.address()), Subscription.of());
        }
    }

    static void assertEndsTheWaitOfAStream(boolean isVirtual, Client client, Subscription subscription) throws Exception {
        try (EventStream stream = client.stream(subscription)) {
            BlockingQueue<Ended> ended = new LinkedBlockingQueue<>();
            Thread reader = started(isVirtual, ended, stream::next);
            Patience.until("it waits", () -> isWaiting(reader));
            reader.interrupt();
            assertInterrupted(ended);
            // The stream is over for every other thread, too.
            assertThrows(UnreachableException.class, stream::next);
        }
    }

    /** A platform thread that waits in the kernel runs, as Java sees it. */
    private static boolean isWaiting(Thread thread) {
        return switch (thread.getState()) {
            case WAITING, TIMED_WAITING -> true;
            default -> Stream.of(thread.getStackTrace()).anyMatch(frame -> frame.getMethodName().matches("poll[0-9]*|doSelect|park"));
        };
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void anInterruptEndsTheWaitForAnAnswer(boolean isVirtual, boolean isLocal) throws Exception {
        try (FakeHub hub = hub(isLocal, "HTTP/1.1 200 OK\r\n")) {
            Client client = Client.connect(hub.address());
            BlockingQueue<Ended> ended = new LinkedBlockingQueue<>();
            Thread reader = started(isVirtual, ended, client::nodes);
            Patience.until("it waits", () -> isWaiting(reader));
            reader.interrupt();
            assertInterrupted(ended);
        }
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aThreadThatIsInterruptedBeforeAsksNobody(boolean isVirtual, boolean isLocal) throws Exception {
        try (FakeHub hub = hub(isLocal, EVENTS)) {
            Client client = Client.connect(hub.address());
            List<Consumer<Client>> calls = List.of(Client::nodes, c -> c.stream(Subscription.of("a.b")), c -> c.range(Range.of("a.b")),
                    c -> c.removeChannel("hot"));
            for (Consumer<Client> call : calls) {
                BlockingQueue<Ended> ended = new LinkedBlockingQueue<>();
                started(isVirtual, ended, () -> {
                    Thread.currentThread().interrupt();
                    call.accept(client);
                });
                assertInterrupted(ended);
            }
        }
    }

    @Test
    void aFullQueueIsNotWaitedForByAThreadThatIsInterrupted() throws Exception {
        Path socket = folder.resolve("khz.sock");
        try (ServerSocketChannel stopped = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            stopped.bind(UnixDomainSocketAddress.of(socket), 1);
            List<LocalConnection> waiting = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                waiting.add(LocalConnection.open(socket, 50));
            }
            Client client = Client.builder("unix:" + socket).connectMax(Duration.ofDays(1)).build();
            BlockingQueue<Ended> ended = new LinkedBlockingQueue<>();
            Thread reader = started(false, ended, client::nodes);
            Patience.until("it waits", () -> isWaiting(reader));
            reader.interrupt();
            assertInterrupted(ended);
            for (LocalConnection connection : waiting) {
                connection.close();
            }
        }
    }

    @Test
    void aSearchForTheKhzOfThisMachineDoesNotSayThatNoneRuns() {
        Thread.currentThread().interrupt();
        try {
            assertThrows(InterruptedWaitException.class, Client::local);
            assertEquals(true, Thread.currentThread().isInterrupted());
        } finally {
            Thread.interrupted();
        }
    }

    /** Reading waits for nobody, so an interrupt does not end it. */
    @Test
    void aSnapshotIsOpenedAndFollowedByAThreadThatIsInterrupted() throws Exception {
        try (PageFile file = PageFile.create(folder.resolve("snapshot"))) {
            file.row(file.add("a.b", "count", 1, 1, 0, 0), 7, 0, 1, 0);
            Thread.currentThread().interrupt();
            try (Snapshot node = Snapshot.open(folder)) {
                Snapshot.Handle handle = node.handle("a.b");
                assertTrue(Thread.interrupted(), "the interrupt was lost");
                file.end();
                try (PageFile next = PageFile.create(folder.resolve("snapshot"))) {
                    next.row(next.add("a.b", "count", 1, 1, 0, 0), 8, 0, 1, 0);
                    Thread.currentThread().interrupt();
                    assertEquals(8, node.doubleValue(handle));
                }
                assertTrue(Thread.currentThread().isInterrupted(), "the interrupt was lost");
            }
        } finally {
            Thread.interrupted();
        }
    }
}
