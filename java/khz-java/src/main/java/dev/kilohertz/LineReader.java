package dev.kilohertz;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Splits bytes into lines, each of which lies whole in {@link #bytes} until the next one is read. A line has a longest length and time. */
final class LineReader {
    private static final int FIRST_BYTES = 16 << 10;

    private final InputStream in;
    private final int lineMax;
    private final String advice;
    private final ReadTime time;
    private byte[] buffer = new byte[FIRST_BYTES];
    private int filled;
    private int next;
    private int from;
    private int end;

    /** {@code advice}: what to do if a line is longer than {@code lineMax}. {@code time} begins with the first byte of a line. */
    LineReader(InputStream in, int lineMax, String advice, ReadTime time) {
        this.in = in;
        this.lineMax = lineMax;
        this.advice = advice;
        this.time = time;
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
            if (filled > next) {
                time.begin();
            }
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
                throw new MalformedException("a line of the answer is longer than " + lineMax + " bytes: " + advice);
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

    /** After the end: the first byte of what stands there without a line end; 0: nothing does. */
    byte unfinished() {
        return filled > next ? buffer[next] : 0;
    }

    /** The same, whole. */
    byte[] unfinishedBytes() {
        return Arrays.copyOfRange(buffer, next, filled);
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
