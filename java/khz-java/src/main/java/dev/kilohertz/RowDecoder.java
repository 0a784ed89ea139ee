package dev.kilohertz;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;

/** The events of a stream. A row that has only what changed is made whole again here. */
final class RowDecoder {
    /** More nodes than any cluster has: a peer that names more is none. */
    private static final int NODES_MAX = 1 << 20;
    /** Series of all nodes together, of which those that are alike count once for each node: more than a hub has. */
    private static final int COLUMNS_MAX = 1 << 26;
    private static final Reading NOT_YET = new Reading.Absent("not gathered yet");

    private final Map<String, NodeRows> nodes = new HashMap<>();
    /** That of the last node: most nodes of a cluster are alike. */
    private SeriesTable table = SeriesTable.EMPTY;
    private long columns;

    /** What is known of the rows of one node. */
    private static final class NodeRows {
        private Columns columns;
        private List<Reading> last = List.of();
    }

    /** Takes an event, and puts what it brings into a queue. */
    void decode(String event, JsonReader json, Queue<Event> into) {
        switch (event) {
            case "columns" -> columns(json);
            case "rows" -> rows(json, into);
            case "misses" -> {
                Misses misses = AnswerDecoder.misses(json);
                if (!misses.isEmpty()) {
                    into.add(misses);
                }
            }
            case "notice" -> into.add(notice(json));
            case "channel" -> into.add(change(json));
            case "dropped" -> throw dropped(json);
            default -> {
                // An event of a newer version.
                return;
            }
        }
        json.end();
    }

    private void columns(JsonReader json) {
        String node = "";
        String rate = "";
        long period = 0;
        List<Series> series = new ArrayList<>();
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            switch (key) {
                case "node" -> node = json.text();
                case "rate" -> rate = json.text();
                case "period_ns" -> period = json.number();
                case "columns" -> {
                    json.beginArray();
                    while (json.more()) {
                        series.add(column(json));
                    }
                }
                default -> json.skip();
            }
        }
        if (nodes.size() == NODES_MAX && !nodes.containsKey(node)) {
            throw new MalformedException("a stream names more than " + NODES_MAX + " nodes: does a khz answer at this address?");
        }
        NodeRows rows = nodes.computeIfAbsent(node, name -> new NodeRows());
        columns += series.size() - rows.last.size();
        if (columns > COLUMNS_MAX) {
            throw new MalformedException("a stream has more than " + COLUMNS_MAX + " series: select fewer nodes or series");
        }
        if (!series.equals(table.all())) {
            table = new SeriesTable(series);
        }
        rows.columns = new Columns(node, rate, Duration.ofNanos(period), table);
        rows.last = Collections.nCopies(series.size(), NOT_YET);
    }

    private static Series column(JsonReader json) {
        AnswerDecoder.SeriesFields fields = new AnswerDecoder.SeriesFields();
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            if (!fields.take(key, json)) {
                json.skip();
            }
        }
        return fields.series();
    }

    private void rows(JsonReader json, Queue<Event> into) {
        NodeRows node = null;
        long lost = 0;
        List<Row> rows = new ArrayList<>();
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            switch (key) {
                case "node" -> node = known(json.text());
                case "lost" -> lost = json.number();
                case "rows" -> {
                    if (node == null) {
                        throw new MalformedException("rows come before the name of their node: does a khz answer at this address?");
                    }
                    json.beginArray();
                    while (json.more()) {
                        rows.add(row(json, node));
                    }
                }
                default -> json.skip();
            }
        }
        for (Row row : rows) {
            // What was lost was lost before the first of them.
            into.add(lost == 0 ? row : new Row(row.columns(), row.readings(), row.time(), row.bootNanos(), lost));
            lost = 0;
        }
    }

    private NodeRows known(String name) {
        NodeRows node = nodes.get(name);
        if (node == null) {
            throw new MalformedException("rows of node " + name + " come before their columns: does a khz answer at this address?");
        }
        return node;
    }

    private static Row row(JsonReader json, NodeRows node) {
        List<Reading> readings = new ArrayList<>(node.last);
        Instant time = Instant.EPOCH;
        long boot = 0;
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            switch (key) {
                case "t" -> time = AnswerDecoder.time(json);
                case "b" -> boot = Seconds.nanos(json.text());
                case "v" -> whole(json, readings);
                case "c" -> changed(json, readings);
                default -> json.skip();
            }
        }
        node.last = Collections.unmodifiableList(readings);
        return new Row(node.columns, node.last, time, boot, 0);
    }

    private static void whole(JsonReader json, List<Reading> readings) {
        int column = 0;
        json.beginArray();
        while (json.more()) {
            set(readings, column++, AnswerDecoder.reading(json));
        }
        while (column < readings.size()) {
            readings.set(column++, NOT_YET);
        }
    }

    private static void changed(JsonReader json, List<Reading> readings) {
        json.beginArray();
        while (json.more()) {
            long column = json.number();
            if (!json.more()) {
                throw new MalformedException("a row names a column without a reading: does a khz answer at this address?");
            }
            set(readings, column, AnswerDecoder.reading(json));
        }
    }

    private static void set(List<Reading> readings, long column, Reading reading) {
        if (column < 0 || column >= readings.size()) {
            throw new MalformedException("a row has a reading for column " + column + " of " + readings.size() + ": does a khz answer at this address?");
        }
        readings.set((int) column, reading);
    }

    private static Notice notice(JsonReader json) {
        List<String> nodes = List.of();
        String text = "";
        Optional<String> state = Optional.empty();
        Optional<Instant> since = Optional.empty();
        boolean isRefused = false;
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            switch (key) {
                case "nodes" -> nodes = AnswerDecoder.texts(json);
                case "text" -> text = json.text();
                case "state" -> state = Optional.of(json.text());
                case "since" -> since = Optional.of(AnswerDecoder.time(json));
                case "refused" -> isRefused = json.bool();
                default -> json.skip();
            }
        }
        return new Notice(nodes, text, state, since, isRefused);
    }

    private static ChannelChange change(JsonReader json) {
        String name = "";
        String definition = "";
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            switch (key) {
                case "name" -> name = json.text();
                case "definition" -> definition = json.written();
                default -> json.skip();
            }
        }
        return new ChannelChange(name, definition);
    }

    private static RefusedException dropped(JsonReader json) {
        String why = "the khz has ended this stream, and does not say why: open it again";
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            if (key.equals("error")) {
                why = json.text();
            } else {
                json.skip();
            }
        }
        return new RefusedException(RefusedException.OK, why, null, null);
    }

    /** A queue for the rows of one event. */
    static Queue<Event> queue() {
        return new ArrayDeque<>();
    }
}
