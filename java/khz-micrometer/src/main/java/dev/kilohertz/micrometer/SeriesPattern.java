package dev.kilohertz.micrometer;

import dev.kilohertz.SeriesName;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;

/**
 * Which series of one node are meant: {@code METRIC[INSTANCE,LABEL=VALUE]} with {@code *} for any characters and {@code ?} for one,
 * as docs/names.md describes it. It has no part for nodes: a snapshot is of one.
 */
final class SeriesPattern {
    private final String text;
    private final Pattern metric;
    /** Empty: any instance, with any labels. */
    private final List<Pattern> instance;
    private final Map<String, Pattern> labels = new TreeMap<>();

    private SeriesPattern(String text, Pattern metric, List<Pattern> instance) {
        this.text = text;
        this.metric = metric;
        this.instance = instance;
    }

    /** Refuses what is no pattern. */
    static SeriesPattern parse(String text) {
        int open = text.indexOf('[');
        String metric = open < 0 ? text : text.substring(0, open);
        if (metric.isEmpty() || metric.indexOf(':') >= 0 || metric.indexOf(']') >= 0) {
            throw new IllegalArgumentException("'" + text + "' is no pattern for series of this node: write METRIC[INSTANCE] without a node, "
                    + "such as net.rx_bytes[eth*]");
        }
        if (open < 0) {
            return new SeriesPattern(text, wild(metric), List.of());
        }
        if (!text.endsWith("]")) {
            throw new IllegalArgumentException("'" + text + "' has '[' without ']' at its end: write METRIC[INSTANCE]");
        }
        return withBrackets(text, metric, text.substring(open + 1, text.length() - 1).split(",", -1));
    }

    private static SeriesPattern withBrackets(String text, String metric, String[] parts) {
        boolean hasInstance = parts[0].indexOf('=') < 0;
        SeriesPattern pattern = new SeriesPattern(text, wild(metric), hasInstance ? List.of(wild(parts[0])) : List.of());
        for (int i = hasInstance ? 1 : 0; i < parts.length; i++) {
            int equal = parts[i].indexOf('=');
            if (equal <= 0) {
                throw new IllegalArgumentException("'" + parts[i] + "' in '" + text + "' is no label: write NAME=VALUE after the instance");
            }
            pattern.labels.put(parts[i].substring(0, equal), wild(parts[i].substring(equal + 1)));
        }
        return pattern;
    }

    /** True if it may be the name of one series. */
    boolean isName() {
        return text.indexOf('*') < 0 && text.indexOf('?') < 0;
    }

    /** As it was written. */
    @Override
    public String toString() {
        return text;
    }

    /** True if the series with this name is meant. Escaped characters are compared as they are written, by both sides. */
    boolean isMatch(String name) {
        int open = name.indexOf('[');
        if (!metric.matcher(open < 0 ? name : name.substring(0, open)).matches()) {
            return false;
        }
        if (instance.isEmpty() && labels.isEmpty()) {
            return true;
        }
        return open >= 0 && isMatch(written(name, open));
    }

    private boolean isMatch(Written name) {
        if (!instance.isEmpty() && !instance.getFirst().matcher(name.instance).matches()) {
            return false;
        }
        return labels.entrySet().stream().allMatch(label -> label.getValue().matcher(name.labels.getOrDefault(label.getKey(), "")).matches());
    }

    /** Takes a name of the snapshot apart without turning %XX into characters, which patterns have as well. */
    private static Written written(String name, int open) {
        Written written = new Written("", new TreeMap<>());
        for (String part : name.substring(open + 1, name.length() - 1).split(",", -1)) {
            int equal = part.indexOf('=');
            if (equal < 0) {
                written = new Written(part, written.labels);
            } else {
                written.labels.put(part.substring(0, equal), part.substring(equal + 1));
            }
        }
        return written;
    }

    private static Pattern wild(String text) {
        List<String> parts = new ArrayList<>();
        text.codePoints().forEach(c -> parts.add(switch (c) {
            case '*' -> ".*";
            case '?' -> ".";
            default -> Pattern.quote(Character.toString(c));
        }));
        return Pattern.compile(String.join("", parts), Pattern.DOTALL);
    }

    /** What is between the brackets of a name, as it is written there. {@link SeriesName} has it as text. */
    private record Written(String instance, Map<String, String> labels) {}
}
