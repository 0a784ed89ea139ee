package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class AnswerTest {
    private static final String CHUNKED = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

    /** What a khz would send, a few bytes at a time. */
    private static final class Canned extends Connection {
        private final byte[] bytes;
        private final int piece;
        private int at;

        private Canned(String text, int piece) {
            this.bytes = text.getBytes(StandardCharsets.ISO_8859_1);
            this.piece = piece;
        }

        @Override
        void send(byte[] ignored) {}

        @Override
        void setSilenceMax(int millis) {}

        @Override
        int receive(byte[] into, int from, int length) {
            if (at == bytes.length) {
                return -1;
            }
            int count = Math.min(Math.min(length, piece), bytes.length - at);
            System.arraycopy(bytes, at, into, from, count);
            at += count;
            return count;
        }

        @Override
        public void close() {}
    }

    private static String body(String text, int piece) throws IOException {
        try (Answer answer = new Answer(new Canned(text, piece), new ReadTime(Long.MAX_VALUE))) {
            return new String(answer.readAllBytes(), StandardCharsets.ISO_8859_1);
        }
    }

    @Test
    void aBodyIsTheSameHoweverItIsSent() throws IOException {
        for (int piece : new int[] {1, 2, 5, 100}) {
            assertEquals("hello world", body("HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello worldMORE", piece));
            assertEquals("hello world", body(CHUNKED + "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n", piece));
            assertEquals("hello world", body("HTTP/1.0 200 OK\r\n\r\nhello world", piece));
            assertEquals("", body("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", piece));
        }
    }

    @Test
    void fieldsAreFoundInAnyCase() throws IOException {
        try (Answer answer = new Answer(new Canned("HTTP/1.1 503 x\r\nRETRY-After:  5 \r\ncontent-length: 0\r\n\r\n", 3), new ReadTime(Long.MAX_VALUE))) {
            assertEquals(503, answer.status());
            assertEquals("5", answer.field("retry-after", ""));
        }
    }

    @Test
    void anAnswerThatBreaksOffIsNoAnswer() {
        String whole = CHUNKED + "5\r\nhello\r\n0\r\n\r\n";
        for (int i = 0; i < whole.indexOf("\r\n0\r\n") + 5; i++) {
            String part = whole.substring(0, i);
            assertThrows(EOFException.class, () -> body(part, 4), part);
        }
        assertThrows(EOFException.class, () -> body("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", 4));
    }

    @Test
    void whatIsNotHttpIsRefused() {
        String[] wrong = {"SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", CHUNKED + "zz\r\n", CHUNKED + "-5\r\nhello",
            CHUNKED + "5\r\nhelloX\r\n", "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "HTTP/1.1 200 OK\r\n" + "a: b\r\n".repeat(10) + "x".repeat(20_000)};
        for (String text : wrong) {
            MalformedException error = assertThrows(MalformedException.class, () -> body(text, 64), text);
            assertTrue(error.getMessage().length() > 20, error.getMessage());
        }
    }
}
