package dev.kilohertz.gather;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CoderResult;
import java.nio.charset.StandardCharsets;

/** The names that the kernel prints, as text: two names that differ stay different, whatever bytes they have. */
final class KernelName {
    /** No kernel object has a longer name. */
    private static final int BYTES_MAX = 255;

    private KernelName() {
    }

    /** Bytes that are not UTF-8, and NUL, become {@code \xFF}. A longer name than the kernel's longest is cut. */
    static String of(byte[] text, int start, int nameEnd) {
        int end = Math.min(nameEnd, start + BYTES_MAX);
        ByteBuffer bytes = ByteBuffer.wrap(text, start, end - start);
        CharBuffer room = CharBuffer.allocate(end - start);
        StringBuilder name = new StringBuilder(end - start);
        CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder();
        while (true) {
            CoderResult result = decoder.decode(bytes, room, true);
            name.append(room.flip().toString().replace("\0", "\\x00"));
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
