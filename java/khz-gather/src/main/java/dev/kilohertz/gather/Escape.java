package dev.kilohertz.gather;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** How a name from the kernel is written inside the brackets of a series: {@code %XX} for each byte of a character that has a meaning. */
final class Escape {
    private static final String MARKS = "%[]:*?/\\,=\"'";

    private Escape() {
    }

    static String escape(String name) {
        // As file names, these would be directories.
        if (name.equals(".") || name.equals("..")) {
            return name.replace(".", "%2E");
        }
        StringBuilder escaped = new StringBuilder(name.length());
        name.codePoints().forEach(c -> append(escaped, c));
        return escaped.toString();
    }

    private static void append(StringBuilder escaped, int c) {
        if (!isEscaped(c)) {
            escaped.appendCodePoint(c);
            return;
        }
        for (byte b : Character.toString(c).getBytes(StandardCharsets.UTF_8)) {
            escaped.append(String.format("%%%02X", b & 0xFF));
        }
    }

    private static boolean isEscaped(int c) {
        return MARKS.indexOf(c) >= 0 || Character.getType(c) == Character.CONTROL || Character.isWhitespace(c)
                || Character.isSpaceChar(c) || isHidden(c);
    }

    /** Invisible characters, with which a name can look like another one: direction marks, joiners, fillers, tags. */
    private static boolean isHidden(int c) {
        return c == 0xAD || c == 0x34F || c == 0x61C || isIn(c, 0x115F, 0x1160) || isIn(c, 0x17B4, 0x17B5)
                || isIn(c, 0x180B, 0x180F) || isIn(c, 0x200B, 0x200F) || isIn(c, 0x2028, 0x202E)
                || isIn(c, 0x2060, 0x206F) || c == 0x3164 || isIn(c, 0xFE00, 0xFE0F) || c == 0xFEFF || c == 0xFFA0
                || isIn(c, 0xFFF0, 0xFFFB) || isIn(c, 0x1BCA0, 0x1BCA3) || isIn(c, 0x1D173, 0x1D17A)
                || isIn(c, 0xE0000, 0xE0FFF);
    }

    private static boolean isIn(int c, int first, int last) {
        return first <= c && c <= last;
    }

    /** Undoes {@link #escape}; {@code whole} is named if it cannot. */
    static String unescape(String text, String whole) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        ByteBuffer plain = ByteBuffer.allocate(bytes.length);
        for (int at = 0; at < bytes.length; at++) {
            if (bytes[at] != '%') {
                plain.put(bytes[at]);
                continue;
            }
            int high = at + 2 < bytes.length ? Character.digit(bytes[at + 1], 16) : -1;
            int low = at + 2 < bytes.length ? Character.digit(bytes[at + 2], 16) : -1;
            if (high < 0 || low < 0) {
                throw new IllegalArgumentException(
                        "'" + whole + "': '%' needs two hex digits after it; '%' itself is %25");
            }
            plain.put((byte) (high << 4 | low));
            at += 2;
        }
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(plain.flip()).toString();
        } catch (CharacterCodingException malformed) {
            throw new IllegalArgumentException("'" + whole + "': the escaped bytes are not UTF-8", malformed);
        }
    }
}
