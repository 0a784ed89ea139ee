package dev.kilohertz;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** The answer of /khz/v1/nodes. */
final class NodesDecoder {
    private NodesDecoder() {}

    static List<Node> decode(JsonReader json) {
        List<Node> nodes = new ArrayList<>();
        boolean hasStatus = false;
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            if (!key.equals("status")) {
                json.skip();
                continue;
            }
            hasStatus = true;
            json.beginArray();
            while (json.more()) {
                nodes.add(node(json));
            }
        }
        json.end();
        AnswerDecoder.checkHas(hasStatus, "status");
        return nodes;
    }

    private static Node node(JsonReader json) {
        String name = "";
        boolean isUp = false;
        String state = "";
        boolean isExpected = false;
        Optional<Duration> heardAge = Optional.empty();
        Optional<Instant> since = Optional.empty();
        Optional<String> address = Optional.empty();
        String version = "";
        Optional<Duration> clockOffset = Optional.empty();
        Optional<String> problem = Optional.empty();
        Optional<String> hub = Optional.empty();
        List<Node.Lane> lanes = List.of();
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            switch (key) {
                case "node" -> name = json.text();
                case "up" -> isUp = json.bool();
                case "state" -> state = json.text();
                case "expected" -> isExpected = json.bool();
                case "heard_age" -> heardAge = span(json);
                case "since_time" -> since = text(json).map(Seconds::instant);
                case "address" -> address = text(json);
                case "version" -> version = json.text();
                case "clock_offset" -> clockOffset = span(json);
                case "problem" -> problem = text(json).map(Printable::line);
                case "hub" -> hub = text(json);
                case "lanes" -> lanes = lanes(json);
                default -> json.skip();
            }
        }
        return new Node(name, isUp, state, isExpected, heardAge, since, address, version, clockOffset, problem, hub, lanes);
    }

    private static List<Node.Lane> lanes(JsonReader json) {
        List<Node.Lane> lanes = new ArrayList<>();
        json.beginArray();
        while (json.more()) {
            String name = "";
            String rate = "";
            String asked = "";
            Optional<Duration> age = Optional.empty();
            long rows = 0;
            long lost = 0;
            json.beginObject();
            for (String key = json.key(); key != null; key = json.key()) {
                switch (key) {
                    case "name" -> name = json.text();
                    case "rate" -> rate = json.text();
                    case "asked" -> asked = json.text();
                    case "age" -> age = span(json);
                    case "rows" -> rows = json.number();
                    case "lost" -> lost = json.number();
                    default -> json.skip();
                }
            }
            lanes.add(new Node.Lane(name, rate, asked, age, rows, lost));
        }
        return lanes;
    }

    private static Optional<String> text(JsonReader json) {
        return Optional.ofNullable(json.textOrNull());
    }

    private static Optional<Duration> span(JsonReader json) {
        return text(json).map(Seconds::duration);
    }
}
