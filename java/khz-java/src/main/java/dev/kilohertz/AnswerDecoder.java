package dev.kilohertz;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;

/** The parts of answers that several of them have: readings, series, misses. Fields of newer versions are left out. */
final class AnswerDecoder {
    private AnswerDecoder() {}

    /** A value as a text, or an object that says why there is none. */
    static Reading reading(JsonReader json) {
        if (json.isText()) {
            return new Reading.Value(json.text());
        }
        Reading reading = new Reading.Absent("a newer version of khz says why");
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            switch (key) {
                case "info" -> reading = new Reading.Labels(labels(json));
                case "absent" -> reading = new Reading.Absent(json.text());
                case "failed" -> reading = new Reading.Failed(json.text());
                default -> json.skip();
            }
        }
        return reading;
    }

    static SortedMap<String, String> labels(JsonReader json) {
        TreeMap<String, String> labels = new TreeMap<>();
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            labels.put(key, json.text());
        }
        return labels;
    }

    /** The fields that describe a series, wherever they stand in an object. */
    static final class SeriesFields {
        private String metric = "";
        private String instance = "";
        private SortedMap<String, String> labels = new TreeMap<>();
        String unit = "count";
        Kind kind = Kind.GAUGE;
        private int places;
        private ValueType type = ValueType.UNSIGNED;

        /** Takes a field; false: it is none of a series. */
        boolean take(String key, JsonReader json) {
            switch (key) {
                case "name" -> metric = json.text();
                case "instance" -> instance = Optional.ofNullable(json.textOrNull()).orElse("");
                case "labels" -> labels = AnswerDecoder.labels(json);
                case "unit" -> unit = json.text();
                case "kind" -> kind = json.text().equals("counter") ? Kind.COUNTER : Kind.GAUGE;
                case "places" -> places = (int) json.number();
                case "type" -> type = type(json.text());
                default -> {
                    return false;
                }
            }
            return true;
        }

        String name() {
            // Most have neither, and their name is as it is.
            return instance.isEmpty() && labels.isEmpty() ? metric : new SeriesName(metric, instance, labels).toString();
        }

        Series series() {
            return new Series(name(), unit, kind, type, places);
        }

        private static ValueType type(String word) {
            return switch (word) {
                case "unsigned" -> ValueType.UNSIGNED;
                case "signed" -> ValueType.SIGNED;
                case "float" -> ValueType.FLOAT;
                case "labels" -> ValueType.LABELS;
                default -> ValueType.UNKNOWN;
            };
        }
    }

    static List<String> texts(JsonReader json) {
        List<String> texts = new ArrayList<>();
        json.beginArray();
        while (json.more()) {
            texts.add(json.text());
        }
        return texts;
    }

    static Misses misses(JsonReader json) {
        List<Misses.Miss> nodes = List.of();
        List<Misses.Miss> patterns = List.of();
        long more = 0;
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            switch (key) {
                case "nodes" -> nodes = missList(json);
                case "patterns" -> patterns = missList(json);
                case "more" -> more = json.number();
                default -> json.skip();
            }
        }
        return new Misses(nodes, patterns, more);
    }

    private static List<Misses.Miss> missList(JsonReader json) {
        List<Misses.Miss> list = new ArrayList<>();
        json.beginArray();
        while (json.more()) {
            String asked = "";
            String near = null;
            json.beginObject();
            for (String key = json.key(); key != null; key = json.key()) {
                switch (key) {
                    case "asked" -> asked = json.text();
                    case "near" -> near = json.textOrNull();
                    default -> json.skip();
                }
            }
            list.add(new Misses.Miss(asked, near));
        }
        return list;
    }

    static Instant time(JsonReader json) {
        return Seconds.instant(json.text());
    }
}
