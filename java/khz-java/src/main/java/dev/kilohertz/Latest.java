package dev.kilohertz;

import java.math.BigDecimal;
import java.time.Instant;

/**
 * The newest value of a series, or why there is none: what {@link Snapshot#read} fills in. One object serves for any number of
 * reads, so that a loop allocates nothing. It belongs to one thread.
 */
public final class Latest {
    static final int SIGNED = 65;
    static final int FLOAT = 66;
    static final int LABELS = 64;
    static final int NOT_YET = 1;
    static final int GONE = 3;
    private static final int FAILED_FROM = 128;
    private static final long BILLION = 1_000_000_000;

    /** The value's 64 bits. */
    long bits;
    /** State (bits 0 to 7), group (bits 8 to 15), decimal places (bits 16 to 23). */
    long meta = NOT_YET;
    /** CLOCK_BOOTTIME of the row, ns. */
    long boot;
    /** What to add to {@link #boot} for the time since 1970, ns. */
    long offset;

    /** Makes a place for values. Until something is read into it, it is absent. */
    public Latest() {}

    private int code() {
        return (int) (meta & 255);
    }

    /** Makes this absent: the node has no such series. */
    void setGone() {
        bits = 0;
        meta = GONE;
        boot = 0;
        offset = 0;
    }

    /**
     * Whether there is a value.
     *
     * @return false if it is absent or failed; {@link #why} says why
     */
    public boolean isPresent() {
        int code = code();
        return code == 0 || code == SIGNED || code == FLOAT;
    }

    /**
     * Whether there is a value, and if there is none, whether that is normal.
     *
     * @return the state
     */
    public State state() {
        if (isPresent()) {
            return State.PRESENT;
        }
        return code() >= FAILED_FROM ? State.FAILED : State.ABSENT;
    }

    /**
     * Why there is no value, in the words of khz.
     *
     * @return an empty text if there is a value
     */
    public String why() {
        return switch (code()) {
            case 0, SIGNED, FLOAT -> "";
            case 2 -> "this kernel does not print it";
            case GONE -> "instance gone";
            case 4 -> "this host does not have the source";
            case 5 -> "no result";
            case LABELS -> "labels are not in shared memory";
            case 129 -> "malformed text";
            case 130 -> "number beyond 64 bits";
            case 131 -> "no answer before the deadline";
            default -> code() >= FAILED_FROM ? "source unreadable" : "not gathered yet";
        };
    }

    /**
     * Whether there is a value, and if there is none, why, as the byte that khz writes into rows and snapshots (docs/shm.md).
     *
     * @return 0 if there is a value of any type; 1 to 63: absent; 128 to 255: failed
     */
    public int stateCode() {
        return isPresent() ? 0 : code();
    }

    /**
     * What the value is.
     *
     * @return UNSIGNED, SIGNED or FLOAT
     * @throws IllegalStateException there is no value
     */
    public ValueType type() {
        return switch (code()) {
            case 0 -> ValueType.UNSIGNED;
            case SIGNED -> ValueType.SIGNED;
            case FLOAT -> ValueType.FLOAT;
            default -> throw new IllegalStateException(noValue());
        };
    }

    /**
     * The value without its decimal point: 52 with two {@link #places} is 0.52.
     *
     * @return for type UNSIGNED a number without a sign ({@link Long#toUnsignedString(long)}), for SIGNED a plain long
     * @throws IllegalStateException there is no value, or it is a double
     */
    public long unscaled() {
        if (code() != 0 && code() != SIGNED) {
            throw new IllegalStateException(isPresent() ? "a double has no decimal places: use doubleValue()" : noValue());
        }
        return bits;
    }

    /**
     * How many decimal places {@link #unscaled} has.
     *
     * @return 0 for most series, and for doubles
     */
    public int places() {
        return (int) (meta >>> 16 & 255);
    }

    /**
     * The value as the nearest double, rounded once.
     *
     * @return NaN if there is no value
     */
    public double doubleValue() {
        return doubleValue(bits, meta);
    }

    /** The two words of a slot as a double. */
    static double doubleValue(long bits, long meta) {
        int places = (int) (meta >>> 16 & 255);
        return switch ((int) (meta & 255)) {
            case 0 -> Decimal.unsigned(bits, places);
            case SIGNED -> Decimal.signed(bits, places);
            case FLOAT -> Double.longBitsToDouble(bits);
            default -> Double.NaN;
        };
    }

    /**
     * The value with all its digits.
     *
     * @return the exact value, with {@link #places} decimal places
     * @throws IllegalStateException there is no value
     * @throws NumberFormatException the value is a double that is infinite or not a number
     */
    public BigDecimal decimal() {
        return switch (code()) {
            case 0, SIGNED -> Decimal.exact(bits, code() == SIGNED, places());
            case FLOAT -> new BigDecimal(Double.longBitsToDouble(bits));
            default -> throw new IllegalStateException(noValue());
        };
    }

    /**
     * When the node gathered the row of this value: CLOCK_BOOTTIME of the node, in nanoseconds. Take differences of these for rates:
     * setting the clock does not touch them.
     *
     * @return 0 if nothing was gathered yet
     */
    public long bootNanos() {
        return boot;
    }

    /**
     * The same as nanoseconds since 1970, by the node's clock.
     *
     * @return 0 if nothing was gathered yet
     */
    public long realNanos() {
        return boot + offset;
    }

    /**
     * The same as an instant.
     *
     * @return the beginning of 1970 if nothing was gathered yet
     */
    public Instant time() {
        return Instant.ofEpochSecond(Math.floorDiv(realNanos(), BILLION), Math.floorMod(realNanos(), BILLION));
    }

    private String noValue() {
        return "there is no value (" + why() + "): ask isPresent() first";
    }

    /** The value's digits, or why there is none. */
    @Override
    public String toString() {
        return switch (state()) {
            case PRESENT -> code() == FLOAT ? Double.toString(doubleValue()) : decimal().toPlainString();
            case ABSENT -> "absent: " + why();
            case FAILED -> "failed: " + why();
        };
    }
}
