package dev.kilohertz;

import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

/** The path and query of a URL, with every special character as {@code %XX}. */
final class Query {
    private static final HexFormat HEX = HexFormat.of().withUpperCase();
    private final StringBuilder text;
    private char next = '?';

    Query(String path) {
        text = new StringBuilder(path);
    }

    Query add(String name, String value) {
        text.append(next).append(name).append('=').append(encode(value));
        next = '&';
        return this;
    }

    static String encode(String value) {
        if (value.codePoints().anyMatch(c -> c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE)) {
            throw new IllegalArgumentException("'" + value + "' has half of a character (a lone surrogate), which cannot be asked for: take whole ones");
        }
        StringBuilder encoded = new StringBuilder(value.length());
        for (byte b : value.getBytes(StandardCharsets.UTF_8)) {
            boolean isPlain = b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || "-._~".indexOf(b) >= 0;
            if (isPlain) {
                encoded.append((char) b);
            } else {
                encoded.append('%').append(HEX.toHexDigits(b));
            }
        }
        return encoded.toString();
    }

    @Override
    public String toString() {
        return text.toString();
    }
}
