package dev.kilohertz;

import java.math.BigDecimal;
import java.math.BigInteger;

/** 64 bits and decimal places as a number: exactly, or as the nearest double. Allocates nothing for a double. */
final class Decimal {
    /** The most places for which a power of ten leaves room for the shift in {@link #quotient}. */
    private static final int PLACES_MAX = 18;
    /** Whole numbers up to this one are exact as a double. */
    private static final long EXACT_MAX = 1L << 53;
    /** Two bits more than a double has: one to round by, one that says whether anything follows. */
    private static final long ENOUGH = 1L << 55;

    private static final long[] TENS = new long[PLACES_MAX + 1];
    private static final double[] TENS_AS_DOUBLES = new double[PLACES_MAX + 1];

    static {
        long ten = 1;
        for (int places = 0; places <= PLACES_MAX; places++) {
            TENS[places] = ten;
            TENS_AS_DOUBLES[places] = ten;
            ten *= 10;
        }
    }

    private Decimal() {}

    /** {@code bits} without a sign, divided by ten to the power of {@code places}, rounded once. */
    static double unsigned(long bits, int places) {
        if (bits >= 0 && bits <= EXACT_MAX && places <= PLACES_MAX) {
            // Both are exact, so that the division rounds, and nothing else.
            return places == 0 ? bits : bits / TENS_AS_DOUBLES[places];
        }
        return places > PLACES_MAX ? exact(bits, false, places).doubleValue() : quotient(bits, TENS[places]);
    }

    /** The same in two's complement. */
    static double signed(long bits, int places) {
        // The smallest long is its own negative, and right as a number without a sign.
        return bits < 0 ? -unsigned(-bits, places) : unsigned(bits, places);
    }

    /** The nearest double of a quotient. Digit after digit, until a double can hold no more. */
    private static double quotient(long bits, long ten) {
        long whole = Long.divideUnsigned(bits, ten);
        long rest = Long.remainderUnsigned(bits, ten);
        int shift = 0;
        if (whole < 0) {
            // One bit is lost, and noted with the rest.
            rest |= whole & 1;
            whole >>>= 1;
            shift = 1;
        }
        while (whole < ENOUGH && (rest != 0 || whole > EXACT_MAX)) {
            rest <<= 1;
            whole <<= 1;
            if (rest >= ten) {
                rest -= ten;
                whole |= 1;
            }
            shift--;
        }
        long sticky = rest == 0 ? whole : whole | 1;
        return Math.scalb((double) sticky, shift);
    }

    /** All digits. */
    static BigDecimal exact(long bits, boolean isSigned, int places) {
        BigInteger whole = isSigned || bits >= 0 ? BigInteger.valueOf(bits) : new BigInteger(Long.toUnsignedString(bits));
        return new BigDecimal(whole, places);
    }
}
