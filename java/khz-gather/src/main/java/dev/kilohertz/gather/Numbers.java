package dev.kilohertz.gather;

import java.math.BigDecimal;
import java.math.BigInteger;

/**
 * The latest numbers of a host, wherever they come from. One thread uses it: find the numbers once, then {@link #take} and read them,
 * as often as they are needed.
 *
 * <pre>{@code
 * int free = numbers.find("mem.available");
 * while (true) {
 *     numbers.take();
 *     if (numbers.state(free) == State.PRESENT) {
 *         show(numbers.steps(free)); // bytes
 *     }
 *     ...
 * }
 * }</pre>
 */
public interface Numbers extends AutoCloseable {
    /**
     * Finds a number by its name in khz: {@code mem.free}, {@code net.rx_bytes[eth0]}. An instance need not exist yet.
     *
     * @param series the name
     * @return the handle by which the other methods know the number
     * @throws IllegalArgumentException if there is no such number, with the reason
     */
    int find(String series);

    /**
     * Takes the numbers that are current now. Until the next call they stay as they are.
     *
     * @return true if one of the numbers that were found has changed
     * @throws IllegalStateException if this is closed
     */
    boolean take();

    /**
     * Whether a number is there.
     *
     * @param number the number's handle
     * @return its state
     * @throws IndexOutOfBoundsException if {@link #find} has given no such handle; so do all methods that take one
     */
    State state(int number);

    /**
     * The number in whole steps of {@code 10^-places} of its unit, without rounding: 4660 for 46.60 s. It has 64 bits without a sign.
     *
     * @param number the number's handle
     * @return the steps; 0 if it is not {@link State#PRESENT}
     */
    long steps(int number);

    /**
     * What the number means.
     *
     * @param number the number's handle
     * @return the metric
     */
    Metric metric(int number);

    /**
     * True if the latest {@link #take} gave the number another value or state than the one before.
     *
     * @param number the number's handle
     * @return whether it has changed
     */
    boolean isChanged(int number);

    /**
     * When the oldest of the numbers that were found was gathered.
     *
     * @return nanoseconds since 1970; 0 if nothing was gathered yet
     */
    long stampNanos();

    /** Ends the use of these numbers. */
    @Override
    void close();

    /**
     * The number, exact.
     *
     * @param number the number's handle
     * @return the number; null if it is not {@link State#PRESENT}
     */
    default BigDecimal decimal(int number) {
        if (state(number) != State.PRESENT) {
            return null;
        }
        return new BigDecimal(new BigInteger(Long.toUnsignedString(steps(number))), metric(number).places());
    }

    /**
     * The number as khz prints it, digit for digit; the reason in words if there is none.
     *
     * @param number the number's handle
     * @return the text
     */
    default String text(int number) {
        BigDecimal decimal = decimal(number);
        return decimal == null ? state(number).words() : decimal.toPlainString();
    }
}
