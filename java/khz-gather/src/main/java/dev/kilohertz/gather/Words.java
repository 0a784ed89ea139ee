package dev.kilohertz.gather;

/** Walks the words of a stretch of text: runs without blanks and tabs. The full parsers' only tool; it copies nothing. */
final class Words {
    private byte[] text;
    private int at;
    private int limit;
    private int start;
    private int end;

    /** Begins with this stretch of text. */
    Words over(byte[] text, int from, int to) {
        this.text = text;
        at = from;
        limit = to;
        return this;
    }

    /** Goes to the next word; false if there is none. */
    boolean next() {
        int first = at;
        while (first < limit && isBlank(text[first])) {
            first++;
        }
        int last = first;
        while (last < limit && !isBlank(text[last])) {
            last++;
        }
        start = first;
        end = last;
        at = last;
        return first < last;
    }

    /** How many words are left. */
    int count() {
        int from = at;
        int count = 0;
        while (next()) {
            count++;
        }
        at = from;
        return count;
    }

    /** Where the word starts. */
    int start() {
        return start;
    }

    /** Where the word ends. */
    int end() {
        return end;
    }

    /** Where the text after the last word starts. */
    int rest() {
        return at;
    }

    private static boolean isBlank(byte b) {
        return b == ' ' || b == '\t';
    }

    /** Where the first {@code mark} is; -1 if there is none. */
    static int indexOf(byte[] text, int from, int to, char mark) {
        for (int at = from; at < to; at++) {
            if (text[at] == mark) {
                return at;
            }
        }
        return -1;
    }

    /** True if the stretch has exactly these bytes. */
    static boolean is(byte[] text, int from, int to, byte[] expected) {
        return java.util.Arrays.equals(text, from, to, expected, 0, expected.length);
    }
}
