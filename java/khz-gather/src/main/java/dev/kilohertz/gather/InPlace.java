package dev.kilohertz.gather;

import java.util.Arrays;

/**
 * Parses in place: it compares two texts of one layout, eight bytes at a time, and parses only the numbers that changed, at their
 * known positions. It gives up when a byte outside the spans changed, or when a span no longer holds a number; the caller then parses
 * in full.
 *
 * <p>Why that is right: bytes outside the spans are equal in both texts, so names and separators have not moved. A span accepts only
 * blanks and digits. The full parser would therefore find the same words at the same positions.
 */
final class InPlace {
    private static final int WORD = 8;
    /** So many bytes are compared in a loop. */
    private static final int NEAR = 4 * WORD;
    private static final long NEWLINES = 0x0A0A_0A0A_0A0A_0A0AL;
    private static final long ONES = 0x0101_0101_0101_0101L;
    private static final long TOPS = 0x8080_8080_8080_8080L;

    private final Layout layout;
    private final Readings readings;
    private final Digits digits = new Digits();
    /** Differing bytes before this position belong to a span that was already parsed. */
    private int done;

    InPlace(Layout layout, Readings readings) {
        this.layout = layout;
        this.readings = readings;
    }

    /**
     * Takes a text of the layout's length, and makes {@code before} equal to it outside the gaps. False: the layout moved, and the
     * readings written until then may be wrong.
     */
    boolean parse(byte[] now, byte[] before) {
        done = Room.LEAD;
        int from = Room.LEAD;
        int gaps = layout.gaps();
        for (int gap = 0; gap < gaps; gap++) {
            int to = layout.gapStart(gap);
            if (!stretch(now, before, from, to)) {
                return false;
            }
            from = layout.gapEnd(gap);
            if (hasNewline(now, to, from)) {
                return false;
            }
        }
        return true;
    }

    /** Handles the words between two gaps. */
    private boolean stretch(byte[] now, byte[] before, int from, int to) {
        int at = firstDifference(now, before, from, to);
        while (at < to) {
            if (!word(now, before, at)) {
                return false;
            }
            at = firstDifference(now, before, at + WORD, to);
        }
        return true;
    }

    /**
     * The first word in which both differ; {@code to} if none does. The next change is often near: a loop finds it sooner than the
     * vectorised search, which takes long to begin.
     */
    private static int firstDifference(byte[] now, byte[] before, int from, int to) {
        int near = Math.min(from + NEAR, to);
        for (int at = from; at < near; at += WORD) {
            if (difference(now, before, at) != 0) {
                return at;
            }
        }
        if (near >= to) {
            return to;
        }
        int found = Arrays.mismatch(now, near, to, before, near, to);
        return found < 0 ? to : near + (found & -WORD);
    }

    private static long difference(byte[] now, byte[] before, int at) {
        return (long) Room.WORDS.get(now, at) ^ (long) Room.WORDS.get(before, at);
    }

    /** Handles the spans of the bytes that differ in one word. */
    private boolean word(byte[] now, byte[] before, int at) {
        long differ = difference(now, before, at) & from(done - at);
        while (differ != 0) {
            int byteAt = at + (Long.numberOfTrailingZeros(differ) >>> 3);
            int span = layout.spanAt(byteAt);
            if (span >= layout.spans()) {
                return false;
            }
            long shape = layout.shape(span);
            if (Layout.start(shape) > byteAt || !span(now, shape, layout.slot(span))) {
                return false;
            }
            done = Layout.end(shape);
            differ &= from(done - at);
        }
        Room.WORDS.set(before, at, (long) Room.WORDS.get(now, at));
        return true;
    }

    /** A mask of the bytes of a word from this one on. */
    private static long from(int bytes) {
        return bytes <= 0 ? -1 : bytes >= WORD ? 0 : -1L << 8 * bytes;
    }

    /** Handles one span whose text changed. */
    private boolean span(byte[] now, long shape, int slot) {
        if (slot < 0) {
            return isHarmless(now, shape, slot);
        }
        int end = Layout.end(shape);
        long number =
                Digits.atTheEnd(now, end, Layout.length(shape), Layout.places(shape), Layout.isPadded(shape));
        if (number == Digits.REFUSED) {
            return slowly(now, shape, slot);
        }
        // Sixteen digits times a KiB fit into 64 bits.
        readings.setPresent(slot, number << Layout.shift(shape));
        return true;
    }

    /** Parses numbers that the fast way does not take: the very long ones. */
    private boolean slowly(byte[] now, long shape, int slot) {
        int start = Layout.start(shape);
        boolean isPaddedWrongly = !Layout.isPadded(shape) && now[start] == ' ';
        if (isPaddedWrongly
                || digits.parse(now, start, Layout.end(shape), Layout.places(shape)) != State.PRESENT) {
            return false;
        }
        long value = digits.value() << Layout.shift(shape);
        if (value >>> Layout.shift(shape) != digits.value()) {
            return false;
        }
        readings.setPresent(slot, value);
        return true;
    }

    /** True when new text in a span without a value leaves the surrounding words and lines at their positions. */
    private static boolean isHarmless(byte[] now, long shape, int slot) {
        int start = Layout.start(shape);
        int end = Layout.end(shape);
        if (slot == Layout.NO_SLOT) {
            return Words.indexOf(now, start, end, '\n') < 0;
        }
        while (Layout.isPadded(shape) && start < end && now[start] == ' ') {
            start++;
        }
        for (int at = start; at < end; at++) {
            if (now[at] == ' ' || now[at] >= '\t' && now[at] <= '\r') {
                return false;
            }
        }
        return start < end;
    }

    /** True when a stretch of whole words contains a newline. */
    private static boolean hasNewline(byte[] text, int from, int to) {
        long found = 0;
        for (int at = from; at < to; at += WORD) {
            long word = (long) Room.WORDS.get(text, at) ^ NEWLINES;
            found |= word - ONES & ~word & TOPS;
        }
        return found != 0;
    }
}
