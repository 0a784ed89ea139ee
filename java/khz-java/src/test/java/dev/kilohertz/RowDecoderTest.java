package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.Queue;
import org.junit.jupiter.api.Test;

class RowDecoderTest {
    private static final String COLUMNS = """
            {"node":"n1","rate":"10Hz","period_ns":100000000,"columns":[
              {"name":"mem.free","instance":null,"kind":"gauge","unit":"bytes","places":0},
              {"name":"fs.free","instance":"/home","kind":"gauge","unit":"bytes","places":0},
              {"name":"host.uname","instance":null,"kind":"gauge","unit":"count","places":0,"type":"labels"},
              {"name":"ib.rx","instance":"mlx5_0","kind":"counter","unit":"bytes","places":0,"labels":{"port":"1"},"type":"unsigned"}]}""";

    private final RowDecoder decoder = new RowDecoder();
    private final Queue<Event> events = RowDecoder.queue();

    private void decode(String event, String json) {
        byte[] bytes = json.getBytes(StandardCharsets.UTF_8);
        decoder.decode(event, new JsonReader(bytes, 0, bytes.length), events);
    }

    @Test
    void rowsWithWhatChangedAreMadeWhole() {
        decode("columns", COLUMNS);
        decode("rows", """
                {"node":"n1","lost":3,"rows":[
                  {"t":"100.000000001","b":"5.000000000","v":["7",{"absent":"instance gone"},{"info":{"machine":"x86_64"}}]},
                  {"t":"100.100000001","b":"5.100000000","c":[0,"8",3,"18446744073709551615"]}],"epoch":"1","last":9}""");
        Row first = (Row) events.remove();
        Row second = (Row) events.remove();
        assertEquals(3, first.lost());
        assertEquals(0, second.lost());
        assertEquals(new Reading.Value("7"), first.reading("mem.free"));
        assertEquals(new Reading.Absent("instance gone"), first.reading("fs.free[%2Fhome]"));
        assertEquals(State.ABSENT, first.reading("ib.rx[mlx5_0,port=1]").state());
        assertEquals("x86_64", ((Reading.Labels) first.reading("host.uname")).labels().get("machine"));
        assertEquals(8.0, second.doubleValue("mem.free"));
        assertEquals("18446744073709551615", second.reading("ib.rx[mlx5_0,port=1]").toString());
        assertSame(first.reading("host.uname"), second.reading("host.uname"));
        assertEquals(Instant.ofEpochSecond(100, 1), first.time());
        assertEquals(5_100_000_000L, second.bootNanos());
        assertEquals(Duration.ofMillis(100), second.columns().period());
        assertEquals(State.ABSENT, second.reading("no.such").state());
        assertTrue(Double.isNaN(second.doubleValue("no.such")));
        assertEquals(ValueType.LABELS, first.columns().series().get(2).type());
    }

    @Test
    void nodesThatAreAlikeShareTheirSeries() {
        decode("columns", COLUMNS);
        decode("columns", COLUMNS.replace("\"n1\"", "\"n2\""));
        for (String node : new String[] {"n1", "n2"}) {
            decode("rows", "{\"node\":\"" + node + "\",\"lost\":0,\"rows\":[{\"t\":\"1.0\",\"b\":\"1.0\",\"v\":[\"7\"]}]}");
        }
        Row first = (Row) events.remove();
        Row second = (Row) events.remove();
        assertEquals("n1", first.node());
        assertEquals("n2", second.node());
        assertSame(first.columns().series(), second.columns().series());
    }

    @Test
    void rowsAfterOtherColumnsHaveNoOldReadings() {
        decode("columns", COLUMNS);
        decode("rows", "{\"node\":\"n1\",\"lost\":0,\"rows\":[{\"t\":\"1.0\",\"b\":\"1.0\",\"v\":[\"7\"]}]}");
        decode("columns", "{\"node\":\"n1\",\"rate\":\"1Hz\",\"period_ns\":1000000000,\"columns\":[{\"name\":\"a\",\"instance\":null,\"kind\":\"gauge\",\"unit\":\"count\",\"places\":0}]}");
        decode("rows", "{\"node\":\"n1\",\"lost\":0,\"rows\":[{\"t\":\"2.0\",\"b\":\"2.0\",\"c\":[]}]}");
        events.remove();
        assertEquals(List.of(new Reading.Absent("not gathered yet")), ((Row) events.remove()).readings());
    }

    @Test
    void noticesSayWhatHasBecomeOfNodes() {
        decode("notice", "{\"nodes\":[\"n1\",\"n2\"],\"text\":\"n1 and n2 are down\",\"state\":\"down\",\"since\":\"7.500000000\",\"later\":[1]}");
        decode("notice", "{\"nodes\":[\"n3\"],\"text\":\"no\",\"refused\":true}");
        assertEquals(new Notice(List.of("n1", "n2"), "n1 and n2 are down", Optional.of("down"), Optional.of(Instant.ofEpochMilli(7500)), false), events.remove());
        assertTrue(((Notice) events.remove()).isRefused());
    }

    @Test
    void whatNobodyHasIsAnEventUnlessItIsNothing() {
        decode("misses", "{\"nodes\":[],\"patterns\":[],\"more\":0}");
        decode("misses", "{\"nodes\":[{\"asked\":\"nod7\",\"near\":\"node7\"}],\"patterns\":[{\"asked\":\"x\",\"near\":null}],\"more\":2}");
        Misses misses = (Misses) events.remove();
        assertEquals("nod7 (did you mean node7?)", misses.nodes().getFirst().toString());
        assertEquals("x", misses.patterns().getFirst().toString());
        assertEquals(2, misses.more());
        assertTrue(events.isEmpty());
    }

    @Test
    void aChangedChannelHasItsDefinition() {
        decode("channel", "{\"name\":\"hot\",\"definition\":{\"rate\":\"1Hz\"}}");
        assertEquals(new ChannelChange("hot", "{\"rate\":\"1Hz\"}"), events.remove());
    }

    @Test
    void aDroppedReaderHearsWhy() {
        RefusedException error = assertThrows(RefusedException.class, () -> decode("dropped", "{\"error\":\"this reader fell behind\"}"));
        assertEquals("this reader fell behind", error.getMessage());
    }

    @Test
    void anEventOfANewerVersionIsLeftOut() {
        decode("weather", "{\"what\":\"rain\"}");
        assertTrue(events.isEmpty());
    }

    @Test
    void rowsThatFitNoColumnsAreRefused() {
        assertThrows(MalformedException.class, () -> decode("rows", "{\"node\":\"n9\",\"lost\":0,\"rows\":[]}"));
        decode("columns", COLUMNS);
        for (String row : new String[] {"\"v\":[\"1\",\"2\",\"3\",\"4\",\"5\"]", "\"c\":[4,\"1\"]", "\"c\":[-1,\"1\"]", "\"c\":[0]"}) {
            String json = "{\"node\":\"n1\",\"lost\":0,\"rows\":[{\"t\":\"1.0\",\"b\":\"1.0\"," + row + "}]}";
            assertThrows(MalformedException.class, () -> decode("rows", json), row);
        }
        assertThrows(MalformedException.class, () -> decode("rows", "{\"rows\":[],\"node\":\"n1\"}"));
    }
}
