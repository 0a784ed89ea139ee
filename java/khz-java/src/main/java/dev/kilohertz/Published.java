package dev.kilohertz;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.time.Instant;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicReference;

/** A number of this program that its node shows. Several threads may set it; the newest value is sent. */
public final class Published {
    private static final BigInteger UNSIGNED_MAX = BigInteger.ONE.shiftLeft(64).subtract(BigInteger.ONE);
    private static final BigInteger SIGNED_MAX = BigInteger.valueOf(Long.MAX_VALUE);
    private static final BigInteger SIGNED_MIN = BigInteger.valueOf(-Long.MAX_VALUE);

    private final String spelled;
    private final String options;
    private final String end;
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
    record Waiting(Runnable forget, String line) {
        void sent() {
            forget.run();
        }
    }

    Published(String spelled, String options, String end, ValueType type, int places, Source source) {
        this.spelled = spelled;
        this.options = options;
        this.end = end;
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
     * @param time when it was measured: the agent refuses values of more than 10 minutes ago, or more than 5 s ahead; null: now
     */
    public void set(BigDecimal number, Instant time) {
        if (type == ValueType.FLOAT) {
            set(number.doubleValue(), time);
            return;
        }
        BigDecimal rounded = number.setScale(places, RoundingMode.HALF_UP);
        BigInteger digits = rounded.unscaledValue();
        boolean isUnsigned = type == ValueType.UNSIGNED;
        if (isUnsigned && digits.signum() < 0) {
            throw new IllegalArgumentException(spelled + " is a counter and cannot be " + number + ": define a gauge");
        }
        if (digits.compareTo(isUnsigned ? UNSIGNED_MAX : SIGNED_MAX) > 0 || digits.compareTo(SIGNED_MIN) < 0) {
            throw new IllegalArgumentException(number + " does not fit into " + (isUnsigned ? "64" : "63") + " bits with the " + places
                    + " decimal places of " + spelled + ": define fewer, or a double with floating()");
        }
        value.set(new Value(rounded.toPlainString(), time));
    }

    /**
     * Sets a computed value.
     *
     * @param number any double, also NaN and the infinities
     * @throws IllegalArgumentException the number was defined without {@link Definition#floating}
     */
    public void set(double number) {
        set(number, null);
    }

    /**
     * Sets a computed value that was measured earlier. It never replaces one that was measured later.
     *
     * @param number any double
     * @param time as for {@link #set(BigDecimal, Instant)}
     */
    public void set(double number, Instant time) {
        if (type != ValueType.FLOAT) {
            throw new IllegalArgumentException(spelled + " has exact values: define it with floating(), or set a long or a BigDecimal");
        }
        String text = Double.isNaN(number) ? "NaN" : Double.isInfinite(number) ? number > 0 ? "inf" : "-inf" : Double.toString(number);
        value.set(new Value(text, time));
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
        return new Waiting(() -> value.compareAndSet(now, null), spelled + "=" + now.text + options + time + end);
    }
}
