package dev.kilohertz;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;

/**
 * One answer of HTTP/1.1: status, fields, and the bytes of its body, however they were sent. A body that breaks off throws. Head and
 * body must be read within a time, unless a reader ends that of its parts ({@link #time}).
 */
final class Answer extends InputStream {
    /** What to do if an event, or a part of the past, is longer than the client takes. */
    static final String TAKE_LESS = "select fewer series or a shorter time, or allow more with answerBytesMax()";
    private static final String IS_IT_KHZ = "Does a khz listen at this address? With TLS its address begins with https://";
    private static final int HEAD_LINE_MAX = 16 << 10;
    private static final int HEAD_BYTES_MAX = 64 << 10;
    private static final int HEAD_LINES_MAX = 100;
    private static final long UNTIL_CLOSED = -1;
    private static final String LENGTH = "content-length";
    /** More digits than any length has, and fewer than overflow. */
    private static final String DECIMAL = "[0-9]{1,18}";
    private static final String HEXADECIMAL = "[0-9a-fA-F]{1,15}";

    private final Connection connection;
    private final ReadTime time;
    private final LineReader lines;
    private final Map<String, String> fields = new HashMap<>();
    private final int status;
    private final boolean isChunked;
    /** How many bytes of the body, or of the present piece of it, are to come. */
    private long left;
    private boolean isOver;

    Answer(Connection connection, ReadTime time) throws IOException {
        this.connection = connection;
        this.time = time;
        this.lines = new LineReader(new Received(), HEAD_LINE_MAX, IS_IT_KHZ, time);
        time.begin();
        this.status = status(line("head"));
        readFields();
        isChunked = isChunked(field("transfer-encoding", "identity"));
        left = isChunked ? 0 : length();
    }

    /** The bytes of the connection, whose time is counted. */
    private final class Received extends InputStream {
        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 255;
        }

        @Override
        public int read(byte[] into, int from, int length) throws IOException {
            return receive(into, from, length);
        }
    }

    private int receive(byte[] into, int from, int length) throws IOException {
        long begun = System.nanoTime();
        int read = connection.read(into, from, length);
        time.add(System.nanoTime() - begun);
        return read;
    }

    private static int status(String line) {
        String[] words = line.split(" ", 3);
        if (words.length < 2 || !words[0].startsWith("HTTP/1.") || !words[1].matches("[1-5][0-9][0-9]")) {
            throw malformed("it begins with '" + shown(line) + "'");
        }
        return Integer.parseInt(words[1]);
    }

    private void readFields() throws IOException {
        int count = 0;
        int bytes = 0;
        for (String line = line("head"); !line.isEmpty(); line = line("head")) {
            bytes += line.length();
            // Counted by lines: a flood of one name would be one field.
            if (++count > HEAD_LINES_MAX || bytes > HEAD_BYTES_MAX) {
                throw malformed("its head has more than " + HEAD_LINES_MAX + " lines or " + HEAD_BYTES_MAX + " bytes");
            }
            int colon = line.indexOf(':');
            if (colon < 1) {
                throw malformed("its head has the line '" + shown(line) + "'");
            }
            take(line.substring(0, colon).toLowerCase(Locale.ROOT), line.substring(colon + 1).strip());
        }
    }

    private void take(String name, String value) {
        String before = fields.put(name, value);
        if (name.equals(LENGTH) && before != null && !before.equals(value)) {
            throw malformed("it has two lengths, '" + shown(before) + "' and '" + shown(value) + "'");
        }
    }

    private static boolean isChunked(String coding) {
        return switch (coding.toLowerCase(Locale.ROOT)) {
            case "chunked" -> true;
            case "identity" -> false;
            default -> throw malformed("it is coded as '" + shown(coding) + "', which nobody asked for");
        };
    }

    private long length() {
        String text = fields.get(LENGTH);
        if (text == null) {
            return UNTIL_CLOSED;
        }
        if (!text.matches(DECIMAL)) {
            throw malformed("its length is '" + shown(text) + "'");
        }
        return Long.parseLong(text);
    }

    private static String shown(String text) {
        return text.length() <= 40 ? text : text.substring(0, 40) + "...";
    }

    private static MalformedException malformed(String what) {
        return new MalformedException("the answer is not HTTP: " + what + ". " + IS_IT_KHZ);
    }

    private String line(String where) throws IOException {
        if (!lines.next()) {
            throw new EOFException("the connection ended in the " + where + " of the answer");
        }
        return lines.text();
    }

    int status() {
        return status;
    }

    String field(String name, String otherwise) {
        return fields.getOrDefault(name, otherwise);
    }

    /** The time of what is read at present: at first of the whole answer. */
    ReadTime time() {
        return time;
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 255;
    }

    @Override
    public int read(byte[] into, int from, int length) throws IOException {
        if (isChunked && left == 0 && !isOver) {
            beginChunk();
        }
        if (isOver || left == 0) {
            return -1;
        }
        int wanted = left == UNTIL_CLOSED ? length : (int) Math.min(length, left);
        int read = lines.rest(into, from, wanted);
        if (read == 0) {
            read = receive(into, from, wanted);
        }
        if (read < 0) {
            isOver = true;
            if (left != UNTIL_CLOSED) {
                throw new EOFException("the connection ended in the body of the answer");
            }
            return -1;
        }
        if (left != UNTIL_CLOSED) {
            left -= read;
            if (isChunked && left == 0 && !line("body").isEmpty()) {
                throw malformed("a piece of its body has no end");
            }
        }
        return read;
    }

    private void beginChunk() throws IOException {
        String size = line("body");
        int extension = size.indexOf(';');
        String digits = (extension < 0 ? size : size.substring(0, extension)).strip();
        if (!digits.matches(HEXADECIMAL)) {
            throw malformed("a piece of its body has the length '" + shown(digits) + "'");
        }
        left = Long.parseLong(digits, 16);
        if (left == 0) {
            isOver = true;
        }
    }

    void setSilenceMax(int millis) throws IOException {
        connection.setSilenceMax(millis);
    }

    @Override
    public void close() throws IOException {
        connection.close();
    }
}
