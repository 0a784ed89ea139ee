package dev.kilohertz;

import java.util.Collection;

/** Writes one flat JSON object: texts, whole numbers, true, and lists of texts. */
final class JsonWriter {
    private final StringBuilder text = new StringBuilder("{");

    JsonWriter field(String name, String value) {
        begin(name).append(quoted(value));
        return this;
    }

    JsonWriter field(String name, Collection<String> values) {
        begin(name).append('[').append(String.join(",", values.stream().map(JsonWriter::quoted).toList())).append(']');
        return this;
    }

    /** A whole number, or true, as it is. */
    JsonWriter plain(String name, String value) {
        begin(name).append(value);
        return this;
    }

    private StringBuilder begin(String name) {
        return text.append(text.length() == 1 ? "" : ",").append(quoted(name)).append(':');
    }

    private static String quoted(String value) {
        StringBuilder quoted = new StringBuilder("\"");
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            switch (c) {
                case '"', '\\' -> quoted.append('\\').append(c);
                default -> {
                    if (c < ' ') {
                        quoted.append(String.format("\\u%04x", (int) c));
                    } else {
                        quoted.append(c);
                    }
                }
            }
        }
        return quoted.append('"').toString();
    }

    @Override
    public String toString() {
        return text + "}";
    }
}
