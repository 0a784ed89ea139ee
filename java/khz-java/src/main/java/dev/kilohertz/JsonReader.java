package dev.kilohertz;

import java.nio.charset.StandardCharsets;

/**
 * Reads JSON out of memory, piece after piece, and makes no tree of it. It refuses what RFC 8259 does not allow where it looks, and
 * nests 64 deep at most.
 */
final class JsonReader {
    private static final int DEPTH_MAX = 64;
    private static final int SHOWN_MAX = 40;
    private static final int WHOLE_CHARS_MAX = 20;

    private final byte[] bytes;
    private final int end;
    private int at;
    private int depth;
    /** True before the first element of an object or array. */
    private boolean isFirst;

    JsonReader(byte[] bytes, int from, int end) {
        this.bytes = bytes;
        this.at = from;
        this.end = end;
    }

    void beginObject() {
        begin('{');
    }

    void beginArray() {
        begin('[');
    }

    private void begin(char mark) {
        expect(mark);
        if (++depth > DEPTH_MAX) {
            throw wrong("it nests deeper than " + DEPTH_MAX);
        }
        isFirst = true;
    }

    /** The next key of an object; null at its end. */
    String key() {
        if (!more('}')) {
            return null;
        }
        String key = text();
        expect(':');
        return key;
    }

    /** True if an array has another element. */
    boolean more() {
        return more(']');
    }

    private boolean more(char close) {
        if (peek() == close) {
            at++;
            depth--;
            isFirst = false;
            return false;
        }
        if (!isFirst) {
            expect(',');
        }
        isFirst = false;
        return true;
    }

    /** True if the next value is a text. */
    boolean isText() {
        return peek() == '"';
    }

    /** True if the next value is null, which is then read. */
    boolean isNull() {
        if (peek() != 'n') {
            return false;
        }
        word("null");
        return true;
    }

    /** A text, or null. */
    String textOrNull() {
        return isNull() ? null : text();
    }

    boolean bool() {
        boolean isTrue = peek() == 't';
        word(isTrue ? "true" : "false");
        return isTrue;
    }

    /** A whole number of 64 bits. */
    long number() {
        peek();
        int from = at;
        skipNumber();
        try {
            if (isWhole(from)) {
                return Long.parseLong(new String(bytes, from, at - from, StandardCharsets.US_ASCII));
            }
        } catch (NumberFormatException e) {
            // It is none, or has more than 64 bits.
        }
        at = from;
        throw wrong("a whole number of 64 bits was expected");
    }

    /** False for what is too long for a number of 64 bits, or begins with zeros or a plus, which JSON does not have. */
    private boolean isWhole(int from) {
        int digits = bytes[from] == '-' ? from + 1 : from;
        return at - from <= WHOLE_CHARS_MAX && bytes[from] != '+' && (at - digits == 1 || at > digits && bytes[digits] != '0');
    }

    String text() {
        expect('"');
        int from = at;
        while (at < end && bytes[at] != '"' && bytes[at] != '\\') {
            at++;
        }
        if (at < end && bytes[at] == '"') {
            return new String(bytes, from, at++ - from, StandardCharsets.UTF_8);
        }
        return escaped(from);
    }

    private String escaped(int from) {
        StringBuilder text = new StringBuilder();
        int plain = from;
        while (at < end) {
            byte b = bytes[at];
            if (b != '"' && b != '\\') {
                at++;
                continue;
            }
            text.append(new String(bytes, plain, at - plain, StandardCharsets.UTF_8));
            at++;
            if (b == '"') {
                return text.toString();
            }
            text.append(escape());
            plain = at;
        }
        throw wrong("a text has no end");
    }

    private char escape() {
        byte mark = at < end ? bytes[at++] : 0;
        return switch (mark) {
            case '"', '\\', '/' -> (char) mark;
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'n' -> '\n';
            case 'r' -> '\r';
            case 't' -> '\t';
            case 'u' -> unit();
            default -> throw wrong("a backslash has an unknown meaning");
        };
    }

    private char unit() {
        int unit = 0;
        for (int i = 0; i < 4; i++) {
            int digit = at < end ? Character.digit(bytes[at++], 16) : -1;
            if (digit < 0) {
                throw wrong("four hex digits were expected");
            }
            unit = unit << 4 | digit;
        }
        return (char) unit;
    }

    /** Reads a value of any kind, and forgets it. */
    void skip() {
        switch (peek()) {
            case '{' -> {
                beginObject();
                while (key() != null) {
                    skip();
                }
            }
            case '[' -> {
                beginArray();
                while (more()) {
                    skip();
                }
            }
            case '"' -> text();
            case 't', 'f' -> bool();
            case 'n' -> word("null");
            default -> skipNumber();
        }
    }

    private void skipNumber() {
        int from = at;
        while (at < end && "+-.0123456789eE".indexOf(bytes[at]) >= 0) {
            at++;
        }
        if (at == from) {
            throw wrong("a value was expected");
        }
    }

    /** A value of any kind as it is written. */
    String written() {
        peek();
        int from = at;
        skip();
        return new String(bytes, from, at - from, StandardCharsets.UTF_8);
    }

    /** Makes sure that nothing follows. */
    void end() {
        skipBlanks();
        if (at < end) {
            throw wrong("something follows its end");
        }
    }

    private void word(String word) {
        peek();
        for (int i = 0; i < word.length(); i++) {
            if (at >= end || bytes[at++] != word.charAt(i)) {
                throw wrong("'" + word + "' was expected");
            }
        }
    }

    private void expect(char mark) {
        if (peek() != mark) {
            throw wrong("'" + mark + "' was expected");
        }
        at++;
    }

    private int peek() {
        skipBlanks();
        if (at >= end) {
            throw wrong("it ends too early");
        }
        return bytes[at];
    }

    private void skipBlanks() {
        while (at < end && (bytes[at] == ' ' || bytes[at] == '\n' || bytes[at] == '\r' || bytes[at] == '\t')) {
            at++;
        }
    }

    private MalformedException wrong(String what) {
        int from = Math.max(0, Math.min(at, end) - SHOWN_MAX / 2);
        String near = new String(bytes, from, Math.min(SHOWN_MAX, end - from), StandardCharsets.UTF_8);
        return new MalformedException("the answer is not what docs/http.md describes: " + what + " at byte " + at + ", near '" + near
                + "'. Does a khz answer at this address?");
    }
}
