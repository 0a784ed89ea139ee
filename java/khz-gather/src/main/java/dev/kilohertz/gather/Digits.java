package dev.kilohertz.gather;

/**
 * Digits to numbers of 64 bits without a sign. It refuses everything that is not a digit: no sign, no blank inside, no rounding, no
 * wrap beyond 64 bits.
 */
final class Digits {
    /** The fast way refuses: {@link #parse} must decide. */
    static final long REFUSED = -1;

    private static final long ZEROS = 0x3030_3030_3030_3030L;
    private static final long SIXES = 0x0606_0606_0606_0606L;
    private static final long HIGH_NIBBLES = 0xF0F0_F0F0_F0F0_F0F0L;
    private static final long BLANK_BITS = 0x1010_1010_1010_1010L;

    /** Ten times a larger number than this is beyond 64 bits. */
    private static final long TENTH = Long.divideUnsigned(-1, 10);

    /** So many digits always fit into 64 bits. */
    private static final int SAFE_DIGITS = 19;

    private long value;

    /** The number that was parsed last, if it was one. */
    long value() {
        return value;
    }

    /**
     * Reads {@code  *[0-9]+}, followed by a point and exactly {@code places} digits when {@code places} is not 0, as one whole number.
     * Returns {@link State#PRESENT}, {@link State#MALFORMED} or {@link State#OUT_OF_RANGE}.
     */
    State parse(byte[] text, int start, int end, int places) {
        int from = start;
        while (from < end && text[from] == ' ') {
            from++;
        }
        if (places == 0) {
            return digits(text, from, end);
        }
        int point = end - places - 1;
        if (point <= from || text[point] != '.') {
            return State.MALFORMED;
        }
        State state = digits(text, from, point);
        long whole = value;
        if (state == State.PRESENT) {
            state = digits(text, point + 1, end);
        }
        return state == State.PRESENT ? join(whole, value, places) : state;
    }

    private State join(long whole, long part, int places) {
        long steps = whole;
        for (int place = 0; place < places; place++) {
            if (Long.compareUnsigned(steps, TENTH) > 0) {
                return State.OUT_OF_RANGE;
            }
            steps *= 10;
        }
        value = steps + part;
        return Long.compareUnsigned(value, steps) < 0 ? State.OUT_OF_RANGE : State.PRESENT;
    }

    /** One or more digits. */
    private State digits(byte[] text, int start, int end) {
        if (start >= end) {
            return State.MALFORMED;
        }
        for (int at = start; at < end; at++) {
            if (text[at] < '0' || text[at] > '9') {
                return State.MALFORMED;
            }
        }
        return end - start <= SAFE_DIGITS ? few(text, start, end) : many(text, start, end);
    }

    private State few(byte[] text, int start, int end) {
        long number = 0;
        for (int at = start; at < end; at++) {
            number = number * 10 + (text[at] - '0');
        }
        value = number;
        return State.PRESENT;
    }

    private State many(byte[] text, int start, int end) {
        long number = 0;
        for (int at = start; at < end; at++) {
            long ten = number * 10;
            long next = ten + (text[at] - '0');
            if (Long.compareUnsigned(number, TENTH) > 0 || Long.compareUnsigned(next, ten) < 0) {
                return State.OUT_OF_RANGE;
            }
            number = next;
        }
        value = number;
        return State.PRESENT;
    }

    /**
     * Reads a number of {@code length} bytes that ends at {@code end}, in the same form as {@link #parse}, all digits at once and
     * almost without a branch: the processor has forgotten branches since the last text. It accepts blanks before the digits only if
     * {@code padded}. {@link #REFUSED}: it is not such a number, or {@link #parse} must decide (more than 16 bytes, or other than 0 or
     * 2 places). The sixteen bytes before {@code end} must exist.
     */
    static long atTheEnd(byte[] text, int end, int length, int places, boolean padded) {
        long high = (long) Room.WORDS.get(text, end - 8);
        int count = length;
        if (places != 0) {
            if (places != 2 || length < 4 || (byte) (high >>> 40) != '.') {
                return REFUSED;
            }
            // Without the point: what is before it moves up by a byte.
            high = high & 0xFFFF_0000_0000_0000L | (high & 0x0000_00FF_FFFF_FFFFL) << 8;
            high |= (text[end - 9] & 0xFFL);
            count = length - 1;
        }
        if (count <= 8) {
            return count == 0 ? REFUSED : oneWord(high, -1L << (64 - 8 * count), places, padded);
        }
        if (length > 16) {
            return REFUSED;
        }
        long low = (long) Room.WORDS.get(text, end - 16);
        return twoWords(places == 0 ? low : low << 8, high, -1L << (128 - 8 * count), places, padded);
    }

    /** The bytes that {@code used} selects, which are the last ones. */
    private static long oneWord(long word, long used, int places, boolean padded) {
        long ascii = word & used | ZEROS & ~used;
        // A blank differs from the digit 0 in one bit.
        long blanks = ~ascii & BLANK_BITS;
        long digits = (ascii | blanks) ^ ZEROS;
        long lanes = (blanks >>> 4) * 0xFF;
        long front = lanes | ~used;
        long wrong = (digits | digits + SIXES) & HIGH_NIBBLES | digits & lanes | notInFront(front)
                | needed(front, places) | (padded ? 0 : blanks);
        return wrong == 0 ? eight(digits) : REFUSED;
    }

    /** The same for a number of which {@code high} has the last eight bytes, and {@code used} selects the bytes before them. */
    private static long twoWords(long low, long high, long used, int places, boolean padded) {
        long lowAscii = low & used | ZEROS & ~used;
        long lowBlanks = ~lowAscii & BLANK_BITS;
        long lowDigits = (lowAscii | lowBlanks) ^ ZEROS;
        long lowLanes = (lowBlanks >>> 4) * 0xFF;
        long front = lowLanes | ~used;
        long highBlanks = ~high & BLANK_BITS;
        long highDigits = (high | highBlanks) ^ ZEROS;
        long highLanes = (highBlanks >>> 4) * 0xFF;
        long strange = (lowDigits | lowDigits + SIXES | highDigits | highDigits + SIXES) & HIGH_NIBBLES;
        long wrong = strange | lowDigits & lowLanes | highDigits & highLanes | notInFront(front)
                | notInFront(highLanes) | needed(highLanes, places) | (front == -1 ? 0 : highLanes)
                | (padded ? 0 : lowBlanks | highBlanks);
        return wrong == 0 ? eight(lowDigits) * 100_000_000 + eight(highDigits) : REFUSED;
    }

    /** Not 0 unless these lanes are the first ones: blanks come before all digits. */
    private static long notInFront(long lanes) {
        return lanes & lanes + 1;
    }

    /** Not 0 if the last digit is a blank; of a number with a point, the last one before it. */
    private static long needed(long lanes, int places) {
        return lanes >>> (56 - 8 * places) & 0xFF;
    }

    /** Eight bytes of 0 to 9, first digit in the lowest byte, as one number: joined into pairs, fours, then all eight. */
    private static long eight(long digits) {
        long pairs = digits * 10 + (digits >>> 8) & 0x00FF_00FF_00FF_00FFL;
        long fours = pairs * 100 + (pairs >>> 16) & 0x0000_FFFF_0000_FFFFL;
        return fours * 10_000 + (fours >>> 32) & 0xFFFF_FFFFL;
    }
}
