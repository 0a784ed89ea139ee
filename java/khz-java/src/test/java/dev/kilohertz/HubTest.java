package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A client against a real hub with two agents. */
class HubTest {
    @TempDir
    Path folder;

    private Path place(String name) throws Exception {
        return Files.createDirectories(folder.resolve(name));
    }

    @Test
    void rowsOfAllNodesComeAndAHubThatIsGoneIsNamed() throws Exception {
        try (KhzProgram hub = KhzProgram.hub(place("hub"));
                KhzProgram one = KhzProgram.agent(place("n1"), "n1", hub, "--insecure");
                KhzProgram two = KhzProgram.agent(place("n2"), "n2", hub, "--insecure")) {
            Client client = Client.connect(hub.door());
            Patience.until("both nodes are up", () -> client.nodes("n[1-2]").stream().filter(Node::isUp).count() == 2);
            Patience.until("rows of n2 have come", () -> !client.nodes("n2").getFirst().lanes().isEmpty());
            Node node = client.nodes("n2").getFirst();
            assertEquals("up", node.state());
            assertTrue(node.address().isPresent());
            assertTrue(node.lanes().getFirst().rate().endsWith("Hz"));
            Patience.until("both have rows", () -> client.now("n[1-2]:mem.total").samples().size() == 2);
            try (EventStream stream = client.stream(Subscription.of("mem.total").nodes("n[1-2]").rate("20Hz"))) {
                Set<String> nodes = new HashSet<>();
                while (nodes.size() < 2) {
                    nodes.add(stream.nextRow().orElseThrow().node());
                }
                two.end();
                assertEquals(List.of("n2"), notice(stream).nodes());
                assertEquals("left", client.nodes("n2").getFirst().state());
                assertTrue(one.runDirectory().toFile().exists());
                hub.kill();
                UnreachableException gone = assertThrows(UnreachableException.class, () -> stream.forEach(event -> {}));
                assertTrue(gone.getMessage().contains(hub.door()), gone.getMessage());
            }
            assertThrows(UnreachableException.class, client::nodes);
            try (KhzProgram again = KhzProgram.hub(place("hub2"), "--listen", hub.door().substring("http://".length()))) {
                assertEquals(hub.door(), again.door());
                // The same client.
                assertTrue(client.nodes().isEmpty());
            }
        }
    }

    private static Notice notice(EventStream stream) {
        for (Event event : stream) {
            if (event instanceof Notice notice && notice.state().isPresent()) {
                return notice;
            }
        }
        throw new AssertionError("the stream ended");
    }

    @Test
    void thePastOfAStoreComesInPartsOrPoints() throws Exception {
        try (KhzProgram hub = KhzProgram.hub(place("hub"), "--store", folder.resolve("store").toString());
                KhzProgram agent = KhzProgram.agent(place("n1"), "n1", hub, "--insecure")) {
            assertTrue(agent.runDirectory().startsWith(folder));
            Client client = Client.connect(hub.door());
            Range total = Range.of("n1:mem.total").from("-1h");
            Patience.until("three rows are stored", () -> parts(client, total).stream().mapToInt(part -> part.rows().size()).sum() >= 3);
            RangePart newest = parts(client, total.newest()).getFirst();
            assertEquals("n1", newest.node());
            assertEquals("bytes", newest.series().unit());
            assertEquals(1, newest.rows().size());
            try (RangeStream points = client.range(total.points(2))) {
                RangePart part = points.next().orElseThrow();
                RangePart.Point point = part.points().getLast();
                assertTrue(point.count() >= 1);
                assertEquals(newest.rows().getFirst().reading().doubleValue(), point.mean());
                assertEquals(point.lowest(), point.highest());
                assertEquals(Optional.empty(), points.next());
                assertTrue(points.width().isPresent());
                assertTrue(points.damages().isEmpty());
            }
            assertEquals(400, assertThrows(RefusedException.class, () -> client.range(Range.of("mem.total").from("yesterdayish"))).status());
        }
    }

    private static List<RangePart> parts(Client client, Range range) {
        try (RangeStream stream = client.range(range)) {
            List<RangePart> parts = new ArrayList<>();
            stream.forEach(parts::add);
            return parts;
        }
    }
}
