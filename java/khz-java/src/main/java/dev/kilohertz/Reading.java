package dev.kilohertz;

import java.math.BigDecimal;
import java.util.Collections;
import java.util.SortedMap;
import java.util.TreeMap;

/** What a node measured at one moment: a value, labels, or the reason why there is none. Unknown is never 0. */
public sealed interface Reading {
    /**
     * The value as the nearest double.
     *
     * @return NaN if there is no value
     */
    default double doubleValue() {
        return Double.NaN;
    }

    /**
     * Whether there is a value or labels.
     *
     * @return the state
     */
    State state();

    /**
     * A number.
     *
     * @param text its digits as khz sends them; a computed number may have an exponent, or be {@code NaN}, {@code +Inf} or {@code -Inf}
     */
    record Value(String text) implements Reading {
        /**
         * The value with all its digits.
         *
         * @return the exact value
         * @throws NumberFormatException it is infinite or not a number
         */
        public BigDecimal decimal() {
            return new BigDecimal(text);
        }

        @Override
        public double doubleValue() {
            return switch (text) {
                case "NaN" -> Double.NaN;
                case "+Inf" -> Double.POSITIVE_INFINITY;
                case "-Inf" -> Double.NEGATIVE_INFINITY;
                default -> Double.parseDouble(text);
            };
        }

        @Override
        public State state() {
            return State.PRESENT;
        }

        @Override
        public String toString() {
            return text;
        }
    }

    /**
     * Names and values in place of a number.
     *
     * @param labels such as {@code release} and {@code machine} of {@code host.uname}
     */
    record Labels(SortedMap<String, String> labels) implements Reading {
        /** Copies the labels. */
        public Labels {
            labels = Collections.unmodifiableSortedMap(new TreeMap<>(labels));
        }

        @Override
        public State state() {
            return State.PRESENT;
        }
    }

    /**
     * No value, and that is normal.
     *
     * @param why the reason in the words of khz
     */
    record Absent(String why) implements Reading {
        @Override
        public State state() {
            return State.ABSENT;
        }

        @Override
        public String toString() {
            return "absent: " + why;
        }
    }

    /**
     * No value, because something went wrong.
     *
     * @param why the reason in the words of khz
     */
    record Failed(String why) implements Reading {
        @Override
        public State state() {
            return State.FAILED;
        }

        @Override
        public String toString() {
            return "failed: " + why;
        }
    }
}
