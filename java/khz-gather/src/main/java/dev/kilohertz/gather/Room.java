package dev.kilohertz.gather;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * The buffer for one text, shared by all sources so that it stays in the cache.
 *
 * <pre>
 *   0        16                        end       end of the last word
 *   | zeros  | text                    | zeros   | unused
 * </pre>
 *
 * A text starts after {@link #LEAD} zero bytes, so that the sixteen bytes before any end can be loaded. After it, zeros fill its last
 * word of eight bytes, so that texts are compared in whole words.
 */
final class Room {
    /** Where a text starts. */
    static final int LEAD = 16;

    /** Eight bytes of an array as one number; the first byte is the lowest. */
    static final VarHandle WORDS = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private static final int WORD = 8;

    private byte[] bytes = new byte[LEAD + WORD];

    /** The bytes, with the lead. */
    byte[] bytes() {
        return bytes;
    }

    /** Makes room for a text of this length; keeps what is there. */
    byte[] grow(int length) {
        if (bytes.length < LEAD + length + WORD) {
            bytes = Arrays.copyOf(bytes, LEAD + length + WORD);
        }
        return bytes;
    }

    /** Takes a copy of a text; returns its end. */
    int fill(byte[] text, int from, int length) {
        grow(length);
        System.arraycopy(text, from, bytes, LEAD, length);
        return LEAD + length;
    }

    /** Sets the bytes after a text that ends here to zero, up to the end of the last word; returns that end. */
    int seal(int end) {
        WORDS.set(bytes, end, 0L);
        return wordEnd(end);
    }

    /** The end of the word in which a text ends. */
    static int wordEnd(int end) {
        return (end + WORD - 1) & -WORD;
    }
}
