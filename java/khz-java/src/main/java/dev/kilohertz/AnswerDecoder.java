package dev.kilohertz;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.regex.Pattern;

/** The parts of answers that several of them have: readings, series, misses. Fields of newer versions are left out. */
final class AnswerDecoder {
    /** The longest number: a double with all its zeros is half as long. */
    private static final int NUMBER_CHARS_MAX = 1_024;
    /** A number with an exponent of more digits is none that a khz computes, and would take the whole memory when it is written out. */
    private static final Pattern NUMBER = Pattern.compile("-?[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]{1,3})?");
    private static final int PLACES_MAX = 255;

    private AnswerDecoder() {}

    /** A number as it is sent, which a program can read as a double and, unless it is infinite or none, as a decimal. */
    static Reading.Value value(String text) {
        boolean isSpecial = text.equals("NaN") || text.equals("+Inf") || text.equals("-Inf");
        if (!isSpecial && (text.length() > NUMBER_CHARS_MAX || !NUMBER.matcher(text).matches() || isHuge(text))) {
            String shown = text.substring(0, Math.min(text.length(), 40));
            throw new MalformedException("'" + shown + "' is no number of a khz: does a khz answer at this address?");
        }
        return new Reading.Value(text);
    }

    /** Only a number with an exponent or with many digits can be beyond the doubles. */
    private static boolean isHuge(String text) {
        boolean isShort = text.length() < 300 && text.indexOf('e') < 0 && text.indexOf('E') < 0;
        return !isShort && Double.isInfinite(Double.parseDouble(text));
    }

    /** A value as a text, or an object that says why there is none. */
    static Reading reading(JsonReader json) {
        if (json.isText()) {
            return value(json.text());
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
                case "places" -> places = places(json.number());
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

        private static int places(long number) {
            if (number < 0 || number > PLACES_MAX) {
                throw new MalformedException("a series has " + number + " decimal places: does a khz answer at this address?");
            }
            return (int) number;
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

    /** Refuses an answer without a field that each answer of a khz has. */
    static void checkHas(boolean isThere, String field) {
        if (!isThere) {
            throw new MalformedException("the answer has no field '" + field + "', which each answer of a khz to this request has: does a khz answer at "
                    + "this address?");
        }
    }

    static Instant time(JsonReader json) {
        return Seconds.instant(json.text());
    }
}
