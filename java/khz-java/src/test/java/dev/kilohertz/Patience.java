package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.fail;

import java.time.Duration;
import java.util.concurrent.Callable;

/** Waits, in tests, until something is so. Longer than a minute is never. */
public final class Patience {
    private static final Duration MOST = Duration.ofMinutes(1);
    private static final long PAUSE_MILLIS = 10;

    private Patience() {}

    public static void until(String what, Callable<Boolean> isSo) throws Exception {
        long end = System.nanoTime() + MOST.toNanos();
        while (!isSoNow(isSo)) {
            if (System.nanoTime() > end) {
                fail("it never came to be: " + what);
            }
            Thread.sleep(PAUSE_MILLIS);
        }
    }

    private static boolean isSoNow(Callable<Boolean> isSo) throws Exception {
        try {
            return isSo.call();
        } catch (RefusedException e) {
            // What is asked for is not there yet.
            return false;
        }
    }
}
