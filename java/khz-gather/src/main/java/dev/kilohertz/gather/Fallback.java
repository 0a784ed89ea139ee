package dev.kilohertz.gather;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.LongSupplier;

/**
 * Numbers of a better source while it works, and else of another one: of khz's agent where it runs, and of a {@link Gatherer} where it
 * does not. Programs need not know which. The better source is opened when it is first needed; if it fails, it is tried again after a
 * while.
 *
 * <p>When it changes from one source to the other, counters do not fall, though the other may have read the kernel a little earlier (an
 * agent: a tenth of a second): until that has counted as far, for 30 s at most, they keep their number. {@link #stampNanos} is
 * then that of the other, and may step back.
 */
public final class Fallback implements Numbers {
    /** Makes a source of numbers, or throws. */
    @FunctionalInterface
    public interface Opener {
        /**
         * Opens the source.
         *
         * @return the source; this fallback closes it
         * @throws Exception if the source cannot be had now
         */
        Numbers open() throws Exception;
    }

    /** A number that was found, with its handle at both sources. */
    private static final class Found {
        private final String series;
        private final boolean isCounter;
        private final Floor floor;
        private int better = UNKNOWN;
        private int other;
        private State state = State.NOT_YET;
        private long steps;
        private boolean isChanged;
        private boolean isOfBetter;

        Found(String series, boolean isCounter, Floor floor) {
            this.series = series;
            this.isCounter = isCounter;
            this.floor = floor;
        }
    }

    private static final int UNKNOWN = -1;
    private static final Duration RETRY_MAX = Duration.ofNanos(Long.MAX_VALUE);

    private final Opener opener;
    private final Numbers other;
    private final long retryNanos;
    private final LongSupplier clock;
    private final List<Found> found = new ArrayList<>();
    private Numbers better;
    private Numbers used;
    private boolean isTried;
    private long triedAt;
    private Exception problem;
    private long stamp;

    /**
     * Numbers of the better source while it works.
     *
     * @param better opens the better source. It counts as failed when its {@code take} throws, and is then closed
     * @param other the other source, which this fallback closes in the end. It must know every number that is to be found
     * @param retry after this time a failed better source is opened again, and one that works is asked again for numbers that it did not
     *     have; zero: at each {@code take}
     * @throws IllegalArgumentException if that time is below zero
     */
    public Fallback(Opener better, Numbers other, Duration retry) {
        this(better, other, retry, System::nanoTime);
    }

    Fallback(Opener better, Numbers other, Duration retry, LongSupplier clock) {
        this.opener = Objects.requireNonNull(better, "better");
        this.other = Objects.requireNonNull(other, "other");
        if (retry.isNegative()) {
            throw new IllegalArgumentException("nothing is tried again after " + retry + ": give a time from zero on, such as 10 s");
        }
        // A longer time than fits into a long is as good as never.
        this.retryNanos = retry.compareTo(RETRY_MAX) > 0 ? Long.MAX_VALUE : retry.toNanos();
        this.clock = clock;
        this.used = other;
    }

    @Override
    public int find(String series) {
        int handle = other.find(series);
        Found number = new Found(series, other.metric(handle).kind() == Kind.COUNTER, new Floor(clock));
        number.other = handle;
        found.add(number);
        findMissing(found.size() - 1);
        return found.size() - 1;
    }

    /** Finds what the better source did not have until now, such as an interface that came since; from this number on. */
    private void findMissing(int first) {
        if (better == null) {
            return;
        }
        try {
            for (int index = first; index < found.size(); index++) {
                Found number = found.get(index);
                number.better = number.better == UNKNOWN ? findBetter(number.series) : number.better;
            }
            triedAt = clock.getAsLong();
        } catch (RuntimeException failed) {
            fail(failed);
        }
    }

    /** The better source may not have the number: then the number comes from the other one. */
    private int findBetter(String series) {
        try {
            return better.find(series);
        } catch (IllegalArgumentException unknown) {
            return UNKNOWN;
        }
    }

    @Override
    public boolean take() {
        if (isDue()) {
            openOrFindMissing();
        }
        if (better != null) {
            takeBetter();
        }
        boolean needsOther = needsOther();
        if (needsOther) {
            other.take();
        }
        used = better == null ? other : better;
        stamp = used.stampNanos();
        if (needsOther && used != other) {
            stamp = stamp == 0 ? other.stampNanos() : Math.min(stamp, other.stampNanos());
        }
        return copy();
    }

    private boolean needsOther() {
        boolean needsOther = better == null;
        for (int number = 0; number < found.size(); number++) {
            needsOther |= found.get(number).better == UNKNOWN;
        }
        return needsOther;
    }

    private boolean isDue() {
        boolean isComplete = better != null && !needsOther();
        return !isComplete && (!isTried || clock.getAsLong() - triedAt >= retryNanos);
    }

    private void openOrFindMissing() {
        isTried = true;
        if (better == null) {
            open();
        }
        findMissing(0);
    }

    private void open() {
        try {
            better = opener.open();
            for (int index = 0; index < found.size(); index++) {
                found.get(index).better = UNKNOWN;
            }
        } catch (Exception failed) {
            fail(failed);
        }
    }

    private void takeBetter() {
        try {
            better.take();
        } catch (RuntimeException failed) {
            fail(failed);
        }
    }

    private void fail(Exception failed) {
        problem = failed;
        triedAt = clock.getAsLong();
        Numbers closed = better;
        better = null;
        if (closed != null) {
            closed.close();
        }
    }

    private boolean copy() {
        boolean isAnyChanged = false;
        for (int index = 0; index < found.size(); index++) {
            Found number = found.get(index);
            boolean isBetter = better != null && number.better != UNKNOWN;
            Numbers from = isBetter ? better : other;
            int handle = isBetter ? number.better : number.other;
            State state = from.state(handle);
            long steps = risen(number, isBetter, state, from.steps(handle));
            number.isChanged = state != number.state || steps != number.steps;
            number.state = state;
            number.steps = steps;
            isAnyChanged |= number.isChanged;
        }
        return isAnyChanged;
    }

    /** What a counter shows; any other number as it is. */
    private static long risen(Found number, boolean isBetter, State state, long steps) {
        boolean isOfAnother = isBetter != number.isOfBetter;
        number.isOfBetter = isBetter;
        if (!number.isCounter) {
            return steps;
        }
        if (state != State.PRESENT) {
            // What comes after it is another count.
            number.floor.clear();
            return steps;
        }
        if (isOfAnother && number.state == State.PRESENT) {
            number.floor.set(number.steps);
        }
        return number.floor.above(steps);
    }

    /**
     * True if the latest numbers came from the better source.
     *
     * @return whether it was the better source
     */
    public boolean isBetter() {
        return used != other;
    }

    /**
     * Why the better source failed the last time.
     *
     * @return the reason; null if it has not failed
     */
    public Exception problem() {
        return problem;
    }

    @Override
    public State state(int number) {
        return found.get(number).state;
    }

    @Override
    public long steps(int number) {
        return found.get(number).steps;
    }

    @Override
    public Metric metric(int number) {
        return other.metric(found.get(number).other);
    }

    @Override
    public boolean isChanged(int number) {
        return found.get(number).isChanged;
    }

    @Override
    public long stampNanos() {
        return stamp;
    }

    @Override
    public void close() {
        if (better != null) {
            better.close();
            better = null;
        }
        other.close();
    }
}
