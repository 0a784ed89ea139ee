package dev.kilohertz;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;

/** One answer of HTTP/1.1: status, fields, and the bytes of its body, however they were sent. A body that breaks off throws. */
final class Answer extends InputStream {
    private static final int HEAD_LINE_MAX = 16 << 10;
    private static final int FIELDS_MAX = 100;
    private static final long UNTIL_CLOSED = -1;

    private final Connection connection;
    private final LineReader head;
    private final Map<String, String> fields = new HashMap<>();
    private final int status;
    private final boolean isChunked;
    /** How many bytes of the body, or of the present piece of it, are to come. */
    private long left;
    private boolean isOver;

    Answer(Connection connection) throws IOException {
        this.connection = connection;
        this.head = new LineReader(connection, HEAD_LINE_MAX);
        this.status = status(line());
        for (String line = line(); !line.isEmpty(); line = line()) {
            int colon = line.indexOf(':');
            if (colon < 1 || fields.size() == FIELDS_MAX) {
                throw malformed("its head has the line '" + line + "'");
            }
            fields.put(line.substring(0, colon).toLowerCase(Locale.ROOT), line.substring(colon + 1).strip());
        }
        isChunked = field("transfer-encoding", "").equalsIgnoreCase("chunked");
        left = isChunked ? 0 : number(field("content-length", String.valueOf(UNTIL_CLOSED)), 10);
    }

    private static int status(String line) {
        String[] words = line.split(" ", 3);
        if (words.length < 2 || !words[0].startsWith("HTTP/1.") || !words[1].matches("[1-5][0-9][0-9]")) {
            throw malformed("it begins with '" + line.substring(0, Math.min(line.length(), 40)) + "'");
        }
        return Integer.parseInt(words[1]);
    }

    private static long number(String text, int radix) {
        try {
            return Long.parseLong(text, radix);
        } catch (NumberFormatException e) {
            throw malformed("a length is '" + text + "'");
        }
    }

    private static MalformedException malformed(String what) {
        return new MalformedException("the answer is not HTTP: " + what + ". Does a khz listen at this address? With TLS its address begins with https://");
    }

    private String line() throws IOException {
        if (!head.next()) {
            throw new EOFException("the connection ended in the head of the answer");
        }
        return head.text();
    }

    int status() {
        return status;
    }

    String field(String name, String otherwise) {
        return fields.getOrDefault(name, otherwise);
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
        int read = head.rest(into, from, wanted);
        if (read == 0) {
            read = connection.read(into, from, wanted);
        }
        if (read < 0) {
            isOver = true;
            if (left != UNTIL_CLOSED) {
                throw new EOFException("the connection ended in the middle of the answer");
            }
            return -1;
        }
        if (left != UNTIL_CLOSED) {
            left -= read;
            if (isChunked && left == 0 && !line().isEmpty()) {
                throw malformed("a piece has no end");
            }
        }
        return read;
    }

    private void beginChunk() throws IOException {
        String size = line();
        int extension = size.indexOf(';');
        left = number((extension < 0 ? size : size.substring(0, extension)).strip(), 16);
        if (left < 0) {
            throw malformed("a piece has a length below zero");
        }
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
