package dev.kilohertz;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Adds numbers of this program to those of its node. They travel with the kernel's, under names that begin with {@code job.}: in the
 * same rows, to all readers.
 *
 * <pre>{@code
 * try (Publisher job = Publisher.local()) {
 *     Published queue = job.gauge("queue").label("rank", "1").help("Tasks that wait").define();
 *     queue.set(17);
 *     job.send();                                              // or once: job.sendEvery(Duration.ofSeconds(1))
 * }
 * }</pre>
 *
 * <p>Sending never waits, and never fails because of the agent: if none runs, or it is busy, {@link #send} returns false and keeps
 * the newest value of each number for the next time. The agent sends no answers. It counts what it does not take:
 * {@code khz get 'khz.publish.*'}.
 *
 * <p>A number without a new value for 30 s is absent for readers. Several threads may use one publisher. The JVM must allow native
 * access ({@code --enable-native-access=dev.kilohertz}), because Java itself has no datagrams for local sockets. docs/publish.md
 * describes names and values.
 */
public final class Publisher implements AutoCloseable {
    /** The most names of a node; the agent refuses values of further ones. */
    public static final int NAMES_MAX = 256;
    /** The most series of a node, names with their instances; the agent refuses values of further ones. */
    public static final int SERIES_MAX = 1_024;
    /** The longest datagram that an agent takes, in bytes. */
    static final int DATAGRAM_BYTES = 8_192;
    /** The most lines of a datagram that an agent takes. */
    private static final int DATAGRAM_LINES = 64;
    private static final Duration PERIOD_MIN = Duration.ofMillis(1);
    private static final Duration PERIOD_MAX = Duration.ofDays(1);
    private static final String FAILED = "sending failed, and is tried again at the next time";
    private static final String SOCKET = "publish.sock";

    private final List<Path> places;
    private final LocalDatagrams socket = new LocalDatagrams(DATAGRAM_BYTES);
    private final List<Published> numbers = new ArrayList<>();
    private final PublishedNames names = new PublishedNames();
    private final byte[] datagram = new byte[DATAGRAM_BYTES];
    private final List<Published.Waiting> lines = new ArrayList<>();
    private int length;
    private String problem;
    private ScheduledExecutorService executor;
    private Future<?> timer;
    private boolean isClosed;

    private Publisher(List<Path> places) {
        this.places = places;
        places.forEach(LocalDatagrams::address);
    }

    /**
     * For the agent of this machine, wherever its run directory is: {@code KHZ_RUN_DIR} if the environment has it, else a usual one. The agent
     * need not run yet.
     *
     * @return a publisher without numbers
     * @throws PublishException this JVM cannot make the socket
     */
    public static Publisher local() {
        return new Publisher(Places.here().runDirectories().stream().map(path -> path.resolve(SOCKET)).toList());
    }

    /**
     * For the agent with this run directory ({@code --run-dir}). The agent need not run yet.
     *
     * @param path the run directory, or the socket {@code publish.sock} in it
     * @return a publisher without numbers
     * @throws PublishException this JVM cannot make the socket, or the path is longer than the kernel takes
     */
    public static Publisher at(Path path) {
        Objects.requireNonNull(path, "path");
        boolean isSocket = path.endsWith(SOCKET) && !Files.isDirectory(path);
        return new Publisher(List.of(isSocket ? path : path.resolve(SOCKET)));
    }

    /**
     * Begins the definition of a number that goes up and down.
     *
     * @param name lower-case words with dots; it is shown below {@code job.}
     * @return what else is to be said about it, before {@link Definition#define}
     */
    public Definition gauge(String name) {
        return new Definition(this, name, Kind.GAUGE);
    }

    /**
     * Begins the definition of a number that only grows.
     *
     * @param name lower-case words with dots; it is shown below {@code job.}
     * @return what else is to be said about it, before {@link Definition#define}
     */
    public Definition counter(String name) {
        return new Definition(this, name, Kind.COUNTER);
    }

    synchronized void add(Published number, SeriesName name, PublishedNames.Declared said) {
        if (isClosed) {
            throw new IllegalStateException("this publisher is closed: make another one");
        }
        names.add(name, number.name(), said);
        numbers.add(number);
    }

    /**
     * Sends the newest value of each number that was set since the last time, and asks the sources of the others. Never waits.
     *
     * @return true if all were handed to the agent; false if none runs or it is busy: the values wait for the next call, and
     *     {@link #problem} says why. A source that throws, an {@code Error} too, leaves out its own number only
     */
    public synchronized boolean send() {
        if (isClosed) {
            throw new IllegalStateException("this publisher is closed: make another one");
        }
        problem = null;
        // An error may have ended the last call in the middle.
        discard();
        for (Published number : numbers) {
            Published.Waiting waiting = waiting(number);
            if (waiting != null && !add(waiting)) {
                return false;
            }
        }
        return flush();
    }

    private Published.Waiting waiting(Published number) {
        try {
            Published.Waiting waiting = number.waiting();
            if (waiting == null || waiting.isTimely(Instant.now())) {
                return waiting;
            }
            // An agent would drop it, and tell nobody.
            waiting.sent();
            problem = "the value of " + number.name() + " was measured at " + waiting.time() + ", which is too long ago for an agent (10 minutes) or "
                    + "ahead of the clock: it was left out";
            return null;
        } catch (Exception | Error e) {
            // A source of the program failed, with an exception, an assertion or a stack that overflowed: its number is absent, and the others
            // are not. A source in Kotlin or Scala may also throw what is checked in Java.
            problem = "the source of " + number.name() + " failed: " + said(e);
            return null;
        }
    }

    /** What a source has thrown, in words. Its own words may fail too. */
    private static String said(Throwable thrown) {
        try {
            return Printable.line(String.valueOf(thrown));
        } catch (RuntimeException | Error e) {
            return thrown.getClass().getName();
        }
    }

    private boolean add(Published.Waiting waiting) {
        byte[] line = waiting.line().getBytes(StandardCharsets.UTF_8);
        if ((length + line.length + 1 > DATAGRAM_BYTES || lines.size() == DATAGRAM_LINES) && !flush()) {
            return false;
        }
        if (length > 0) {
            datagram[length++] = '\n';
        }
        System.arraycopy(line, 0, datagram, length, line.length);
        length += line.length;
        lines.add(waiting);
        return true;
    }

    private boolean flush() {
        boolean isSent = lines.isEmpty() || isTaken();
        if (isSent) {
            lines.forEach(Published.Waiting::sent);
        }
        discard();
        return isSent;
    }

    private boolean isTaken() {
        String why = null;
        for (Path place : places) {
            int error = socket.send(datagram, length, LocalDatagrams.address(place));
            switch (error) {
                case LocalDatagrams.OK -> {
                    return true;
                }
                case LocalDatagrams.NO_SUCH_FILE, LocalDatagrams.NOBODY_LISTENS ->
                    why = "no agent listens at " + place + ": is 'khz agent' or 'khz' running on this machine?";
                case LocalDatagrams.TRY_AGAIN, LocalDatagrams.NO_BUFFERS -> {
                    why = "the agent has not taken earlier numbers yet (" + place + "): send again later, and less often";
                    problem = why;
                    return false;
                }
                case LocalDatagrams.NO_ACCESS -> why = "this user may not write to " + place;
                default -> why = "the kernel refuses to send to " + place + " (error " + error + ")";
            }
        }
        problem = why;
        return false;
    }

    /**
     * From now on calls {@link #send} by itself, in a thread of its own, until this is closed. Nothing that a source throws ends it:
     * {@link #problem} says what it was.
     *
     * @param period the time between two calls: a millisecond to a day; the agent looks ten times a second, and numbers older than
     *     30 s are absent
     * @throws IllegalStateException it does so already
     * @throws IllegalArgumentException the period is shorter, or longer than a day
     */
    public synchronized void sendEvery(Duration period) {
        Objects.requireNonNull(period, "period");
        if (timer != null && !timer.isDone() || isClosed) {
            throw new IllegalStateException(isClosed ? "this publisher is closed" : "this publisher sends by itself already");
        }
        if (period.compareTo(PERIOD_MIN) < 0 || period.compareTo(PERIOD_MAX) > 0) {
            throw new IllegalArgumentException("a period is a millisecond to a day, and not " + period);
        }
        if (executor != null) {
            executor.shutdownNow();
        }
        executor = Executors.newSingleThreadScheduledExecutor(Thread.ofPlatform().name("khz-publisher").daemon().factory());
        timer = executor.scheduleAtFixedRate(this::sendByItself, 0, period.toNanos(), TimeUnit.NANOSECONDS);
    }

    /** An executor ends, without a word, what has thrown once: so this never throws. */
    private synchronized void sendByItself() {
        try {
            if (!isClosed) {
                send();
            }
        } catch (RuntimeException | Error e) {
            // Such as the end of memory, which may be free again at the next time: numbers stay, and wait for it.
            discard();
            problem = failure(e);
        }
    }

    private static String failure(Throwable thrown) {
        try {
            return FAILED + ": " + said(thrown);
        } catch (Error e) {
            // There is no memory for this text either.
            return FAILED;
        }
    }

    /** Takes back what was put together, but not sent. */
    private void discard() {
        lines.clear();
        length = 0;
    }

    /**
     * Why the last {@link #send} did not hand over everything: no agent took it, a source failed, or a value had waited for too long.
     *
     * @return one sentence; empty if it did
     */
    public synchronized Optional<String> problem() {
        return Optional.ofNullable(problem);
    }

    /** Ends sending. Readers see the numbers as absent 30 s later. */
    @Override
    public void close() {
        ScheduledExecutorService ending;
        synchronized (this) {
            ending = executor;
            if (!isClosed) {
                isClosed = true;
                socket.close();
            }
        }
        if (ending != null) {
            ending.shutdownNow();
        }
    }
}
