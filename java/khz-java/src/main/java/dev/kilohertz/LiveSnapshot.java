package dev.kilohertz;

import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * The snapshot of a node whose agent may start later, die, and come back. It throws for none of that: a value is NaN while no agent
 * runs. For programs that run for long and only report what is known, such as monitors.
 *
 * <p>{@link Snapshot} itself throws if no agent runs, and goes on giving the last values of an agent that was killed. This class
 * checks once a second whether the newest value is young enough. Between two checks a read costs what it costs there.
 *
 * <p>Several threads may use it.
 */
public final class LiveSnapshot implements AutoCloseable {
    /** An agent gathers ten times a second: one that is silent for this long is dead. */
    public static final Duration STALE_AFTER = Duration.ofSeconds(10);
    private static final Duration STALE_MAX = Duration.ofMillis(Long.MAX_VALUE);
    private static final long CHECK_NANOS = 1_000_000_000;
    private static final long NANOS_A_MILLISECOND = 1_000_000;
    private static final long MILLIS_A_SECOND = 1_000;
    private static final String NOT_CHECKED = "nobody has asked yet";

    private final Supplier<Snapshot> opened;
    private final Function<Path, String> others;
    private final long staleMillis;
    private Snapshot snapshot;
    private volatile Snapshot live;
    private volatile String problem = NOT_CHECKED;
    private volatile long checkedNanos;
    private boolean isClosed;

    private LiveSnapshot(Supplier<Snapshot> opened, Function<Path, String> others, Duration staleAfter) {
        this.opened = opened;
        this.others = others;
        // ChronoUnit.FOREVER has more milliseconds than fit into a long.
        this.staleMillis = staleAfter.compareTo(STALE_MAX) > 0 ? Long.MAX_VALUE : staleAfter.toMillis();
        this.checkedNanos = System.nanoTime() - CHECK_NANOS;
    }

    /**
     * The snapshot of this machine's agent, found as by {@link Snapshot#local}.
     *
     * @return it, whether an agent runs or not
     */
    public static LiveSnapshot local() {
        return local(STALE_AFTER);
    }

    /**
     * The same, with another limit for silence.
     *
     * @param staleAfter an agent that has gathered nothing for longer counts as dead
     * @return it, whether an agent runs or not
     */
    public static LiveSnapshot local(Duration staleAfter) {
        return local(Places.here(), staleAfter);
    }

    static LiveSnapshot local(Places places, Duration staleAfter) {
        return new LiveSnapshot(() -> Snapshot.local(places), places::othersThan, checked(staleAfter));
    }

    /**
     * The snapshot at a path, as {@link Snapshot#open}.
     *
     * @param path the file {@code snapshot}, or the directory of the node that has it
     * @return it, whether an agent runs or not
     */
    public static LiveSnapshot at(Path path) {
        return at(path, STALE_AFTER);
    }

    /**
     * The same, with another limit for silence.
     *
     * @param path the file {@code snapshot}, or the directory of the node that has it
     * @param staleAfter an agent that has gathered nothing for longer counts as dead
     * @return it, whether an agent runs or not
     */
    public static LiveSnapshot at(Path path, Duration staleAfter) {
        Objects.requireNonNull(path, "path");
        return new LiveSnapshot(() -> Snapshot.open(path), _ -> "", checked(staleAfter));
    }

    private static Duration checked(Duration staleAfter) {
        Objects.requireNonNull(staleAfter, "staleAfter");
        if (staleAfter.isNegative() || staleAfter.isZero()) {
            throw new IllegalArgumentException("an agent cannot be dead after " + staleAfter + ": give a time above zero, such as 10 s");
        }
        return staleAfter;
    }

    /**
     * The snapshot, if its agent lives. It is always the same object, so handles stay valid.
     *
     * @return empty if no agent runs; {@link #problem} says why
     */
    public Optional<Snapshot> now() {
        return Optional.ofNullable(living());
    }

    /**
     * The newest value of a series as the nearest double. Allocates nothing.
     *
     * @param handle what to read: from the snapshot of {@link #now}
     * @return the value in the unit of its series; NaN if there is none, or no agent runs
     */
    public double doubleValue(Snapshot.Handle handle) {
        Snapshot node = living();
        if (node == null) {
            return Double.NaN;
        }
        try {
            return node.doubleValue(handle);
        } catch (SnapshotException | IllegalStateException e) {
            // It has ended, or was closed, since the check.
            setDead(e.getMessage());
            return Double.NaN;
        }
    }

    /**
     * Why there are no values.
     *
     * @return a sentence; empty if an agent lives
     */
    public String problem() {
        living();
        return problem;
    }

    /** Ends reading. From now on there are no values. */
    @Override
    public synchronized void close() {
        isClosed = true;
        setDead("this snapshot is closed: open another one");
        if (snapshot != null) {
            snapshot.close();
        }
    }

    private Snapshot living() {
        if (System.nanoTime() - checkedNanos >= CHECK_NANOS) {
            check();
        }
        return live;
    }

    private synchronized void check() {
        // Another thread may have done it meanwhile.
        if (isClosed || System.nanoTime() - checkedNanos < CHECK_NANOS) {
            return;
        }
        try {
            if (snapshot == null) {
                snapshot = opened.get();
            }
            // A program that reads for months allocates nothing here.
            long ageMillis = ageMillis();
            if (ageMillis > staleMillis) {
                // An agent with another name may have been started since.
                snapshot.search();
                ageMillis = ageMillis();
            }
            if (ageMillis > staleMillis) {
                setDead("the agent of " + snapshot.node() + " has gathered nothing for " + ageMillis / MILLIS_A_SECOND + " s: start 'khz agent' again"
                        + others.apply(snapshot.mapped().path()));
            } else {
                live = snapshot;
                problem = "";
            }
        } catch (SnapshotException | UncheckedIOException e) {
            // The second: this is no Linux.
            setDead(e.getMessage());
        }
        checkedNanos = System.nanoTime();
    }

    private long ageMillis() {
        return System.currentTimeMillis() - snapshot.newestNanos() / NANOS_A_MILLISECOND;
    }

    private void setDead(String why) {
        live = null;
        problem = why;
    }
}
