package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Damaged answers and files give exceptions of this library, and no others. */
class ForeignBytesTest {
    private static final int CASES = 10_000;
    private static final String PARTS = "{}[]\",:\\0129-.eEtfn u\n\u00e9";
    private static final String MISSES = "{\"nodes\":[{\"asked\":\"x\",\"near\":null}],\"patterns\":[],\"more\":1}";
    private static final String NOW = "{\"nodes\":[{\"node\":\"n1\",\"series\":[{\"name\":\"a.b\",\"instance\":\"\\u00e9\",\"kind\":\"gauge\",\"unit\":\"bytes\",\"stamp\":\"1.5\","
            + "\"labels\":{\"a\":\"b\"},\"value\":\"1e9\"},{\"name\":\"a.c\",\"absent\":\"gone\"},{\"name\":\"a.d\",\"info\":{\"x\":\"y\"}}]}],\"missing\":[\"n2\"],\"misses\":" + MISSES + "}";
    private static final String NODES = "{\"nodes\":[\"n1\"],\"status\":[{\"node\":\"n1\",\"up\":true,\"state\":\"up\",\"expected\":false,\"heard_age\":\"0.100000000\",\"since_time\":null,"
            + "\"address\":\"127.0.0.1\",\"version\":\"0.1\",\"lanes\":[{\"name\":\"base\",\"rate\":\"1Hz\",\"asked\":\"1Hz\",\"age\":null,\"rows\":7,\"lost\":0}],\"clock_offset\":\"-0.5\"}]}";
    private static final String COLUMNS = "{\"node\":\"n1\",\"rate\":\"1Hz\",\"period_ns\":1000000000,\"columns\":[{\"name\":\"a.b\",\"instance\":null,\"kind\":\"gauge\",\"unit\":\"count\",\"places\":0}]}";
    private static final String ROWS = "{\"node\":\"n1\",\"lost\":0,\"rows\":[{\"t\":\"1.0\",\"b\":\"1.0\",\"v\":[\"7\"]},{\"t\":\"1.1\",\"b\":\"1.1\",\"c\":[0,{\"failed\":\"x\"}]}]}";
    private static final String RANGE = "{\"node\":\"n1\",\"name\":\"a.b\",\"instance\":null,\"kind\":\"gauge\",\"unit\":\"count\",\"places\":0,\"step\":\"1\",\"rows\":[[\"5.0\",\"1.5\",\"0.1\"]],"
            + "\"points\":[{\"t\":\"60.0\",\"count\":2,\"first\":\"1\",\"sum\":\"3\",\"resets\":1}]}";

    @TempDir
    Path folder;

    private static byte[] damaged(String text, Random random) {
        StringBuilder damaged = new StringBuilder(text);
        for (int i = random.nextInt(3); i >= 0; i--) {
            int at = random.nextInt(damaged.length());
            int end = Math.min(damaged.length(), at + random.nextInt(8));
            switch (random.nextInt(4)) {
                case 0 -> damaged.setCharAt(at, PARTS.charAt(random.nextInt(PARTS.length())));
                case 1 -> damaged.insert(at, PARTS.charAt(random.nextInt(PARTS.length())));
                case 2 -> damaged.insert(at, damaged.substring(at, end));
                default -> damaged.delete(at, Math.min(end, at + damaged.length() - 1));
            }
        }
        return damaged.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static void check(String text, Consumer<JsonReader> decoder) {
        byte[] whole = text.getBytes(StandardCharsets.UTF_8);
        decoder.accept(new JsonReader(whole, 0, whole.length));
        Random random = new Random(20261128);
        int refused = 0;
        for (int i = 0; i < CASES; i++) {
            byte[] bytes = damaged(text, random);
            try {
                decoder.accept(new JsonReader(bytes, 0, bytes.length));
            } catch (KhzException e) {
                refused++;
            } catch (RuntimeException | StackOverflowError e) {
                fail("case " + i + ": " + new String(bytes, StandardCharsets.UTF_8), e);
            }
        }
        assertTrue(refused > CASES / 4, "only " + refused + " were refused: is the damage none?");
    }

    @Test
    void damagedAnswersAreRefused() {
        check(NOW, NowDecoder::decode);
        check(NODES, NodesDecoder::decode);
        check(RANGE, json -> {
            RangeDecoder decoder = new RangeDecoder();
            json.beginObject();
            for (String key = json.key(); key != null; key = json.key()) {
                decoder.take(key, json);
            }
            decoder.part();
            json.end();
        });
    }

    @Test
    void aRowOfThePastHasThreeParts() {
        byte[] bytes = "[[\"5.0\"],\"1.5\",\"0.1\"]".getBytes(StandardCharsets.UTF_8);
        assertThrows(MalformedException.class, () -> new RangeDecoder().take("rows", new JsonReader(bytes, 0, bytes.length)));
    }

    @Test
    void damagedEventsAreRefused() {
        check(COLUMNS, json -> new RowDecoder().decode("columns", json, RowDecoder.queue()));
        check(ROWS, json -> {
            RowDecoder decoder = new RowDecoder();
            byte[] columns = COLUMNS.getBytes(StandardCharsets.UTF_8);
            decoder.decode("columns", new JsonReader(columns, 0, columns.length), RowDecoder.queue());
            decoder.decode("rows", json, RowDecoder.queue());
        });
        check(MISSES, json -> new RowDecoder().decode("misses", json, RowDecoder.queue()));
        check("{\"nodes\":[\"n1\"],\"text\":\"x\",\"state\":\"down\",\"since\":\"7.5\",\"refused\":true}", json -> new RowDecoder().decode("notice", json, RowDecoder.queue()));
        check("{\"name\":\"hot\",\"definition\":{\"rate\":[1,\"x\"]}}", json -> new RowDecoder().decode("channel", json, RowDecoder.queue()));
    }

    @Test
    void anyBytesInPlaceOfNamesAndSlotsAreRead() throws IOException {
        Random random = new Random(20261128);
        for (int round = 0; round < 200; round++) {
            try (PageFile file = PageFile.create(folder.resolve("snapshot"))) {
                for (int i = 0; i < 5; i++) {
                    file.add("a.series" + i, "count", random.nextInt(64), 1, 0, 0);
                }
                file.scribble(random, 1 + random.nextInt(20));
                try (Snapshot node = Snapshot.open(folder)) {
                    readAll(node, node.series());
                }
            }
        }
    }

    private static void readAll(Snapshot node, List<Series> series) {
        Latest latest = new Latest();
        for (Series one : series) {
            try {
                node.read(node.handle(one.name()), latest);
                // What is there can be shown, whatever it is.
                assertTrue(!latest.toString().isEmpty());
                assertTrue(latest.time() != null);
            } catch (SnapshotException e) {
                // Its group cannot be.
                continue;
            }
        }
    }
}
