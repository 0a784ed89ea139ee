package dev.kilohertz;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.time.Duration;
import java.time.Instant;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicReference;

/** A number of this program that its node shows. Several threads may set it; the newest value is sent. */
public final class Published {
    /** An agent refuses what was measured longer ago, or is further ahead of its clock. */
    private static final Duration AGE_MAX = Duration.ofMinutes(10);
    private static final Duration AHEAD_MAX = Duration.ofSeconds(5);
    /** More digits before the point than 64 bits have. */
    private static final int DIGITS_MAX = 20;
    private static final BigInteger UNSIGNED_MAX = BigInteger.ONE.shiftLeft(64).subtract(BigInteger.ONE);
    private static final BigInteger SIGNED_MAX = BigInteger.valueOf(Long.MAX_VALUE);
    private static final BigInteger SIGNED_MIN = BigInteger.valueOf(-Long.MAX_VALUE);

    private final String spelled;
    private final String options;
    private final String end;
    private final Kind kind;
    private final ValueType type;
    private final int places;
    private final Source source;
    private final AtomicReference<Value> value = new AtomicReference<>();

    /** Sets a number when numbers are sent. */
    interface Source {
        void ask(Published number);
    }

    /** A value that was set, as text, and when it was measured; null: now. */
    private record Value(String text, Instant time) {}

    /** A line to be sent. {@link #sent} says that it was, unless the number was set again meanwhile. */
    record Waiting(Runnable forget, String line, Instant time) {
        /** False if an agent would refuse it because of its time. */
        boolean isTimely(Instant now) {
            return time == null || Published.isTimely(time, now);
        }

        void sent() {
            forget.run();
        }
    }

    Published(String spelled, String options, String end, Kind kind, ValueType type, int places, Source source) {
        this.spelled = spelled;
        this.options = options;
        this.end = end;
        this.kind = kind;
        this.type = type;
        this.places = places;
        this.source = source;
    }

    /**
     * Its name as khz shows it.
     *
     * @return such as {@code job.queue[rank=1]}
     */
    public String name() {
        return spelled;
    }

    /**
     * Sets a whole value.
     *
     * @param number in the unit of the definition
     * @throws IllegalArgumentException it is below zero and this is a counter, or it does not fit with its decimal places
     */
    public void set(long number) {
        if (type == ValueType.FLOAT) {
            set((double) number);
        } else if (places == 0 && number >= 0) {
            value.set(new Value(Long.toString(number), null));
        } else {
            set(BigDecimal.valueOf(number));
        }
    }

    /**
     * Sets an exact value.
     *
     * @param number in the unit of the definition; rounded to its decimal places
     * @throws IllegalArgumentException it is below zero and this is a counter, or it does not fit into 64 bits with its decimal places
     */
    public void set(BigDecimal number) {
        set(number, null);
    }

    /**
     * Sets an exact value that was measured earlier. It never replaces one that was measured later.
     *
     * @param number as {@link #set(BigDecimal)}
     * @param time when it was measured: not more than 10 minutes ago, nor more than 5 s ahead of this machine's clock; null: now
     * @throws IllegalArgumentException the number or the time is none of these; as {@link #set(BigDecimal)}
     */
    public void set(BigDecimal number, Instant time) {
        Objects.requireNonNull(number, "number");
        if (type == ValueType.FLOAT) {
            double nearest = number.doubleValue();
            if (Double.isInfinite(nearest)) {
                throw new IllegalArgumentException(number + " is beyond the largest double, 1.8e308: " + spelled + " cannot hold it");
            }
            set(nearest, time);
            return;
        }
        boolean isUnsigned = type == ValueType.UNSIGNED;
        BigDecimal rounded = rounded(number);
        if (isUnsigned && number.signum() < 0 && (rounded == null || rounded.signum() < 0)) {
            throw belowZero(number);
        }
        if (rounded == null || !fits(rounded.unscaledValue(), isUnsigned)) {
            throw new IllegalArgumentException(number + " does not fit into " + (isUnsigned ? "64" : "63") + " bits with the " + places
                    + " decimal places of " + spelled + ": define fewer, or a double with floating()");
        }
        value.set(new Value(rounded.toPlainString(), checked(time)));
    }

    /** With the decimal places of the definition; null: it is far too large. Never writes out a huge exponent. */
    private BigDecimal rounded(BigDecimal number) {
        long digits = (long) number.precision() - number.scale();
        if (number.signum() == 0 || digits < -places) {
            return BigDecimal.ZERO.setScale(places);
        }
        return digits > DIGITS_MAX ? null : number.setScale(places, RoundingMode.HALF_UP);
    }

    private static boolean fits(BigInteger digits, boolean isUnsigned) {
        return digits.compareTo(isUnsigned ? UNSIGNED_MAX : SIGNED_MAX) <= 0 && digits.compareTo(SIGNED_MIN) >= 0;
    }

    private Instant checked(Instant time) {
        if (time != null && !isTimely(time, Instant.now())) {
            throw new IllegalArgumentException("a value of " + spelled + " cannot be of " + time
                    + ": an agent takes what was measured in the last 10 minutes, and is at most 5 s ahead of its clock");
        }
        return time;
    }

    /** Without the difference: of times that are far from each other it overflows. */
    private static boolean isTimely(Instant time, Instant now) {
        return !time.isBefore(now.minus(AGE_MAX)) && !time.isAfter(now.plus(AHEAD_MAX));
    }

    /**
     * Sets a computed value.
     *
     * @param number any double, also NaN and the infinities; of a counter, none below zero
     * @throws IllegalArgumentException the number was defined without {@link Definition#floating}, or is below zero and this is a counter
     */
    public void set(double number) {
        set(number, null);
    }

    /**
     * Sets a computed value that was measured earlier. It never replaces one that was measured later.
     *
     * @param number as {@link #set(double)}
     * @param time as for {@link #set(BigDecimal, Instant)}
     * @throws IllegalArgumentException as {@link #set(double)}, or the time is too long ago, or too far ahead
     */
    public void set(double number, Instant time) {
        if (type != ValueType.FLOAT) {
            throw new IllegalArgumentException(spelled + " has exact values: define it with floating(), or set a long or a BigDecimal");
        }
        if (kind == Kind.COUNTER && number < 0) {
            throw belowZero(number);
        }
        String text = Double.isNaN(number) ? "NaN" : Double.isInfinite(number) ? number > 0 ? "inf" : "-inf" : Double.toString(number);
        value.set(new Value(text, checked(time)));
    }

    private IllegalArgumentException belowZero(Number number) {
        return new IllegalArgumentException(spelled + " is a counter and cannot be " + number + ": define a gauge");
    }

    /** The line with the value that was set last; null: it was sent already, or there was none. */
    Waiting waiting() {
        if (source != null) {
            source.ask(this);
        }
        Value now = value.get();
        if (now == null) {
            return null;
        }
        String time = now.time == null ? "" : String.format(Locale.ROOT, " time=%d.%09d", now.time.getEpochSecond(), now.time.getNano());
        return new Waiting(() -> value.compareAndSet(now, null), spelled + "=" + now.text + options + time + end, now.time);
    }
}
