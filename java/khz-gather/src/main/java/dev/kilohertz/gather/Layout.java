package dev.kilohertz.gather;

import java.util.Arrays;

/**
 * The positions of the numbers in a text, so that the next text of the same shape needs no full parse. It owns spans, not values, and
 * refuses to guess: a byte that changed outside every span means that the layout moved.
 *
 * <pre>
 *   cpu  699 0 283 ...\nintr 4711 0 9 0 0 ...\nctxt 5120\n
 *      └─┬─┘                └┬─┘└────┬────┘        └┬─┘
 *       span               span     gap           span
 * </pre>
 *
 * <ul>
 * <li>A <b>span</b> is a number with the padding before it. One blank stays outside as the separator, so that a number can never grow
 * into its neighbour's name.
 * <li>A <b>gap</b> is a long stretch without a wanted number, in whole words of eight bytes. It is not compared, only searched for a
 * newline, which would move lines.
 * </ul>
 */
final class Layout {
    /** A span that fills no slot: it may change freely as long as no newline enters it. */
    static final int NO_SLOT = -1;

    /** A span that fills no slot but lies between words that do: it must stay one word. */
    static final int ONE_WORD = -2;

    private static final int WORD = 8;

    /** A stretch without a wanted number is a gap when it has at least this many bytes in whole words. */
    private static final int GAP_MIN = 64;

    /** A span's length has 16 bits; a longer stretch has several spans. */
    private static final int SPAN_MAX = 0xFFFF;

    private static final int PADDED = 0x80;

    private boolean isComplete;
    private int end;
    /** Start, length, shift and form of each span: 32, 16, 8 and 8 bits. */
    private long[] shapes = new long[16];
    private int[] slots = new int[16];
    private int spans;
    /** Start and end of each gap; the last one is empty and lies at the end. */
    private int[] gaps = new int[8];
    private int gapEnds;
    /** For each word of the text, the first span that ends in it or after it, and above that a bit for each last byte of a span. */
    private long[] index = new long[16];

    /** Forgets everything; no text fits until {@link #complete}. */
    void clear() {
        isComplete = false;
        spans = 0;
        gapEnds = 0;
    }

    /** The number in this stretch fills {@code slot}; blanks may come before its digits if {@code padded}. */
    void add(int start, int end, int slot, boolean padded, int places, int shift) {
        int length = Math.min(end - start, SPAN_MAX);
        if (spans == shapes.length) {
            shapes = Arrays.copyOf(shapes, 2 * spans);
            slots = Arrays.copyOf(slots, 2 * spans);
        }
        int form = places | (padded ? PADDED : 0);
        shapes[spans] = (long) start << 32 | (long) length << 16 | (long) shift << 8 | form;
        slots[spans] = slot;
        spans++;
    }

    /** Marks a stretch as unwanted. Its whole words become a gap, if there are enough of them; its edges become spans. */
    void ignore(int start, int end) {
        int from = start + WORD - 1 & -WORD;
        int to = end & -WORD;
        if (to - from < GAP_MIN) {
            ignoreBytes(start, end);
            return;
        }
        ignoreBytes(start, from);
        addGap(from, to);
        ignoreBytes(to, end);
    }

    private void ignoreBytes(int start, int end) {
        for (int from = start; from < end; from += SPAN_MAX) {
            add(from, Math.min(end, from + SPAN_MAX), NO_SLOT, true, 0, 0);
        }
    }

    private void addGap(int from, int to) {
        if (gapEnds == gaps.length) {
            gaps = Arrays.copyOf(gaps, 2 * gapEnds);
        }
        gaps[gapEnds++] = from;
        gaps[gapEnds++] = to;
    }

    /** Makes the layout usable for texts that end at {@code end}. Spans and gaps were added in the order of the text. */
    void complete(int end) {
        int last = Room.wordEnd(end);
        addGap(last, last);
        int words = last / WORD;
        if (index.length < words) {
            index = new long[words];
        }
        int span = 0;
        for (int word = 0; word < words; word++) {
            int first = span;
            long lastBytes = 0;
            while (span < spans && end(span) - 1 < (word + 1) * WORD) {
                if (span > 0 && start(span) < end(span - 1)) {
                    throw new AssertionError("BUG: spans of a layout overlap or are out of order");
                }
                lastBytes |= 1L << (end(span) - 1) % WORD;
                span++;
            }
            index[word] = lastBytes << 32 | first;
        }
        this.end = end;
        isComplete = true;
    }

    /** True when a text that ends at {@code end} may have this layout. */
    boolean fits(int end) {
        return isComplete && this.end == end;
    }

    /** How many gaps there are. */
    int gaps() {
        return gapEnds / 2;
    }

    int gapStart(int gap) {
        return gaps[2 * gap];
    }

    int gapEnd(int gap) {
        return gaps[2 * gap + 1];
    }

    /** The span that ends at this byte or after it; {@link #spans} if there is none. */
    int spanAt(int at) {
        long word = index[at >>> 3];
        return (int) word + Integer.bitCount((int) (word >>> 32) & (1 << (at & 7)) - 1);
    }

    int spans() {
        return spans;
    }

    /** Everything about a span but its slot, for the functions below. */
    long shape(int span) {
        return shapes[span];
    }

    int slot(int span) {
        return slots[span];
    }

    private int start(int span) {
        return start(shapes[span]);
    }

    private int end(int span) {
        return end(shapes[span]);
    }

    static int start(long shape) {
        return (int) (shape >>> 32);
    }

    static int length(long shape) {
        return (int) shape >>> 16;
    }

    static int end(long shape) {
        return start(shape) + length(shape);
    }

    /** The reading is the text's number times two to this power. */
    static int shift(long shape) {
        return (int) shape >>> 8 & 0xFF;
    }

    /** The digits after the point. */
    static int places(long shape) {
        return (int) shape & (PADDED - 1);
    }

    static boolean isPadded(long shape) {
        return (shape & PADDED) != 0;
    }
}
