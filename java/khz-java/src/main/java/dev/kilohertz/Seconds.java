package dev.kilohertz;

import java.time.Duration;
import java.time.Instant;

/** Times as khz writes them: seconds with nine places. Exact: no double is in between. */
final class Seconds {
    private static final int PLACES = 9;
    private static final int SHOWN_MAX = 40;
    private static final long BILLION = 1_000_000_000;

    private Seconds() {}

    /** Nanoseconds. */
    static long nanos(String text) {
        boolean isBelow = text.startsWith("-");
        int point = text.indexOf('.');
        int begin = isBelow ? 1 : 0;
        int places = text.length() - point - 1;
        try {
            if (point <= begin || places < 1 || places > PLACES) {
                throw new NumberFormatException();
            }
            long whole = Long.parseUnsignedLong(text, begin, point, 10);
            long fraction = Long.parseUnsignedLong(text, point + 1, text.length(), 10);
            for (int i = places; i < PLACES; i++) {
                fraction *= 10;
            }
            long nanos = Math.addExact(Math.multiplyExact(whole, BILLION), fraction);
            return isBelow ? -nanos : nanos;
        } catch (NumberFormatException | ArithmeticException e) {
            // Without the cause, whose message repeats the whole text as it came.
            throw new MalformedException("'" + text.substring(0, Math.min(text.length(), SHOWN_MAX)) + "' is no time in seconds with nine places");
        }
    }

    static Instant instant(String text) {
        return Instant.EPOCH.plusNanos(nanos(text));
    }

    static Duration duration(String text) {
        return Duration.ofNanos(nanos(text));
    }
}
