package dev.kilohertz.gather;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CoderResult;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;

/** The names that the kernel prints, as text: two names that differ stay different, whatever bytes they have. */
final class KernelName {
    /** No kernel object has a longer name. */
    private static final int BYTES_MAX = 255;
    /** A backslash that would be mistaken for the begin of a byte that is not UTF-8. */
    private static final Pattern MISTAKEN = Pattern.compile("\\\\(?=x(?:00|5C|[89A-F][0-9A-F]))");

    private KernelName() {
    }

    /** Bytes that are not UTF-8, and NUL, become {@code \xFF}, and a backslash before such digits {@code \x5C}. A longer name than the kernel's longest is cut. */
    static String of(byte[] text, int start, int nameEnd) {
        int end = Math.min(nameEnd, start + BYTES_MAX);
        ByteBuffer bytes = ByteBuffer.wrap(text, start, end - start);
        CharBuffer room = CharBuffer.allocate(end - start);
        StringBuilder name = new StringBuilder(end - start);
        CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder();
        while (true) {
            CoderResult result = decoder.decode(bytes, room, true);
            String plain = MISTAKEN.matcher(room.flip()).replaceAll("\\\\x5C");
            name.append(plain.replace("\0", "\\x00"));
            room.clear();
            if (!result.isError()) {
                return name.toString();
            }
            for (int wrong = 0; wrong < result.length(); wrong++) {
                name.append(String.format("\\x%02X", bytes.get() & 0xFF));
            }
            decoder.reset();
        }
    }
}
