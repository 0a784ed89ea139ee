package dev.kilohertz.gather;

import java.util.Arrays;

/**
 * A name in a text, as the key of a map. One key is set to each name that is looked for, so that looking allocates nothing; the keys in
 * the map are never set again.
 */
final class NameKey {
    private byte[] text;
    private int start;
    private int end;
    private int hash;

    /** The name that is in this stretch of the text. */
    NameKey set(byte[] text, int start, int end) {
        this.text = text;
        this.start = start;
        this.end = end;
        hash = 1;
        for (int at = start; at < end; at++) {
            hash = 31 * hash + text[at];
        }
        return this;
    }

    @Override
    public int hashCode() {
        return hash;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof NameKey key && Arrays.equals(text, start, end, key.text, key.start, key.end);
    }
}
