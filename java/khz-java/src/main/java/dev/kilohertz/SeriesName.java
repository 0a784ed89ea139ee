package dev.kilohertz;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HexFormat;
import java.util.Map;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * The name of a series, taken apart: {@code infiniband.rx_bytes[mlx5_0,port=1]} is a metric, an instance and a label. Instance and
 * labels may have any characters: {@link #toString} writes those that have a meaning in a name as {@code %XX}. So a name is its own
 * pattern, too.
 *
 * @param metric the metric's dotted name: {@code net.rx_bytes}
 * @param instance which one of several, as the kernel calls it: {@code eth0}; empty if there is only one, or only labels tell them
 *     apart
 * @param labels further names and values that tell series apart, sorted by name
 */
public record SeriesName(String metric, String instance, SortedMap<String, String> labels) {
    private static final HexFormat HEX = HexFormat.of().withUpperCase();
    private static final String MARKS = "%[]:*?/\\,=\"'";

    /** Checks that nothing is missing, and copies the labels. A label without a value is none. */
    public SeriesName {
        Objects.requireNonNull(metric, "metric");
        Objects.requireNonNull(instance, "instance");
        TreeMap<String, String> copy = new TreeMap<>(Objects.requireNonNull(labels, "labels"));
        copy.values().removeIf(String::isEmpty);
        labels = Collections.unmodifiableSortedMap(copy);
    }

    /**
     * A metric of the whole node.
     *
     * @param metric such as {@code mem.free}
     * @return the name
     */
    public static SeriesName of(String metric) {
        return new SeriesName(metric, "", new TreeMap<>());
    }

    /**
     * A metric of one instance.
     *
     * @param metric such as {@code fs.available}
     * @param instance with any characters: {@code /home}
     * @return the name
     */
    public static SeriesName of(String metric, String instance) {
        return new SeriesName(metric, instance, new TreeMap<>());
    }

    /**
     * The same with another label.
     *
     * @param name letters, digits and {@code _}
     * @param value any text
     * @return the name
     */
    public SeriesName label(String name, String value) {
        Objects.requireNonNull(name, "name");
        Objects.requireNonNull(value, "value");
        TreeMap<String, String> more = new TreeMap<>(labels);
        more.put(name, value);
        return new SeriesName(metric, instance, more);
    }

    /**
     * Takes a name apart, as {@link Series#name} has it.
     *
     * @param text such as {@code fs.available[%2Fhome]}
     * @return its parts
     * @throws IllegalArgumentException it is not a name
     */
    public static SeriesName parse(String text) {
        Objects.requireNonNull(text, "text");
        int open = text.indexOf('[');
        if (open < 0) {
            return of(text);
        }
        if (!text.endsWith("]")) {
            throw new IllegalArgumentException("'" + text + "' has '[' without ']' at its end: write METRIC[INSTANCE]");
        }
        String instance = "";
        TreeMap<String, String> labels = new TreeMap<>();
        String[] parts = text.substring(open + 1, text.length() - 1).split(",", -1);
        for (int i = 0; i < parts.length; i++) {
            int equal = parts[i].indexOf('=');
            if (equal >= 0) {
                labels.put(parts[i].substring(0, equal), unescape(parts[i].substring(equal + 1)));
            } else if (i == 0) {
                instance = unescape(parts[i]);
            } else {
                throw new IllegalArgumentException("'" + parts[i] + "' in '" + text + "' is no label: write NAME=VALUE after the instance");
            }
        }
        return new SeriesName(text.substring(0, open), instance, labels);
    }

    /** The name as khz writes it: {@code fs.available[%2Fhome]}. */
    @Override
    public String toString() {
        if (instance.isEmpty() && labels.isEmpty()) {
            return metric;
        }
        StringBuilder text = new StringBuilder(metric).append('[');
        text.append(escape(instance));
        boolean isFirst = instance.isEmpty();
        for (Map.Entry<String, String> label : labels.entrySet()) {
            text.append(isFirst ? "" : ",").append(label.getKey()).append('=').append(escape(label.getValue()));
            isFirst = false;
        }
        return text.append(']').toString();
    }

    static String escape(String name) {
        // As file names these would be directories.
        if (name.equals(".") || name.equals("..")) {
            return name.replace(".", "%2E");
        }
        StringBuilder text = new StringBuilder(name.length());
        name.codePoints().forEach(c -> {
            if (!isEscaped(c)) {
                text.appendCodePoint(c);
                return;
            }
            for (byte b : Character.toString(c).getBytes(StandardCharsets.UTF_8)) {
                text.append('%').append(HEX.toHexDigits(b));
            }
        });
        return text.toString();
    }

    private static String unescape(String text) {
        if (text.indexOf('%') < 0) {
            return text;
        }
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        ByteBuffer plain = ByteBuffer.allocate(bytes.length);
        for (int i = 0; i < bytes.length; i++) {
            if (bytes[i] != '%') {
                plain.put(bytes[i]);
                continue;
            }
            int high = i + 2 < bytes.length ? Character.digit(bytes[i + 1], 16) : -1;
            int low = i + 2 < bytes.length ? Character.digit(bytes[i + 2], 16) : -1;
            if (high < 0 || low < 0) {
                throw new IllegalArgumentException("'%' in '" + text + "' needs two hex digits after it; '%' itself is %25");
            }
            plain.put((byte) (high << 4 | low));
            i += 2;
        }
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(plain.flip()).toString();
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException("the bytes that '" + text + "' stands for are not UTF-8", e);
        }
    }

    private static boolean isEscaped(int c) {
        return c < 128 && MARKS.indexOf(c) >= 0 || Character.isISOControl(c) || isSpace(c) || isHidden(c);
    }

    /** The property White_Space of Unicode, beyond control characters. */
    private static boolean isSpace(int c) {
        return c == ' ' || c == 0xa0 || c == 0x1680 || c >= 0x2000 && c <= 0x200a || c == 0x2028 || c == 0x2029 || c == 0x202f
                || c == 0x205f || c == 0x3000;
    }

    /** Characters that nobody sees, or that turn the direction of writing: with them a name could look like another one. */
    static boolean isHidden(int c) {
        return c == 0xad || c == 0x34f || c == 0x61c || c == 0x115f || c == 0x1160 || c == 0x17b4 || c == 0x17b5
                || c >= 0x180b && c <= 0x180f || c >= 0x200b && c <= 0x200f || c >= 0x2028 && c <= 0x202e
                || c >= 0x2060 && c <= 0x206f || c == 0x3164 || c >= 0xfe00 && c <= 0xfe0f || c == 0xfeff || c == 0xffa0
                || c >= 0xfff0 && c <= 0xfffb || c >= 0x1bca0 && c <= 0x1bca3 || c >= 0x1d173 && c <= 0x1d17a
                || c >= 0xe0000 && c <= 0xe0fff;
    }
}
