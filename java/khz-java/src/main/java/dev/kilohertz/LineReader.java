package dev.kilohertz;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Splits bytes into lines, each of which lies whole in {@link #bytes} until the next one is read. A line has a longest length. */
final class LineReader {
    private static final int FIRST_BYTES = 16 << 10;

    private final InputStream in;
    private final int lineMax;
    private byte[] buffer = new byte[FIRST_BYTES];
    private int filled;
    private int next;
    private int from;
    private int end;

    LineReader(InputStream in, int lineMax) {
        this.in = in;
        this.lineMax = lineMax;
    }

    /** Reads the next line; false at the end. What stands there without a line end is no line. */
    boolean next() throws IOException {
        int searched = next;
        while (true) {
            for (int i = searched; i < filled; i++) {
                if (buffer[i] == '\n') {
                    from = next;
                    end = i > next && buffer[i - 1] == '\r' ? i - 1 : i;
                    next = i + 1;
                    return true;
                }
            }
            searched = filled - next;
            makeRoom();
            int read = in.read(buffer, filled, buffer.length - filled);
            if (read < 0) {
                return false;
            }
            filled += read;
        }
    }

    private void makeRoom() {
        if (next > 0) {
            System.arraycopy(buffer, next, buffer, 0, filled - next);
            filled -= next;
            next = 0;
        }
        if (filled == buffer.length) {
            if (buffer.length >= lineMax) {
                throw new MalformedException("a line of the answer is longer than " + lineMax
                        + " bytes: select fewer series or a shorter time, or allow more with answerBytesMax()");
            }
            buffer = Arrays.copyOf(buffer, (int) Math.min(lineMax, buffer.length * 2L));
        }
    }

    /** Takes bytes that follow the last line and were read already. */
    int rest(byte[] into, int at, int length) {
        int taken = Math.min(length, filled - next);
        System.arraycopy(buffer, next, into, at, taken);
        next += taken;
        return taken;
    }

    byte[] bytes() {
        return buffer;
    }

    int from() {
        return from;
    }

    int end() {
        return end;
    }

    /** The line as ASCII. */
    String text() {
        return new String(buffer, from, end - from, StandardCharsets.ISO_8859_1);
    }
}
