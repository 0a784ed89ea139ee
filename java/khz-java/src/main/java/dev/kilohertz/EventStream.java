package dev.kilohertz;

import java.io.EOFException;
import java.io.IOException;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Queue;

/**
 * Rows of nodes as they come. {@link #next} waits for the next one. One thread reads it; any thread may close it, which ends the
 * wait.
 *
 * <p>A program that reads slowly loses rows, and {@link Row#lost} says how many; one that hardly reads is dropped with
 * {@link RefusedException}. When the khz is gone or silent, {@link UnreachableException} says so within seconds: open the stream
 * again.
 */
public final class EventStream implements Iterable<Event>, AutoCloseable {
    /** A stream without a sign of life for this long is dead: a khz sends one each second. */
    private static final int SILENCE_MILLIS = 5_000;
    /** With a slow heartbeat, after this many of them. */
    private static final int HEARTBEATS = 4;

    private final Door door;
    private final Answer answer;
    private final LineReader lines;
    private final RowDecoder decoder = new RowDecoder();
    private final Queue<Event> events = RowDecoder.queue();
    private final long eventMax;
    private String name = "message";
    /** How many bytes the present event has until now, and whether it had its data. */
    private long eventBytes;
    private boolean hasData;
    private volatile boolean isClosed;

    EventStream(Door door, Answer answer, int lineMax) {
        this.door = door;
        this.answer = answer;
        this.lines = new LineReader(answer, lineMax, Answer.TAKE_LESS, answer.time());
        this.eventMax = lineMax;
        // Each event has this time, and there is no end of events.
        answer.time().end();
        try {
            answer.setSilenceMax(silence(answer.field("khz-heartbeat", "")));
        } catch (IOException e) {
            throw door.gone(e);
        }
    }

    private static int silence(String heartbeat) {
        return heartbeat.matches("[0-9]{1,4}") ? Math.max(SILENCE_MILLIS, HEARTBEATS * 1_000 * Integer.parseInt(heartbeat)) : SILENCE_MILLIS;
    }

    /**
     * Waits for the next event.
     *
     * @return empty after {@link #close}
     * @throws UnreachableException the khz is gone, or says nothing any more
     * @throws RefusedException the khz has ended the stream; the message says why
     * @throws MalformedException what comes is no stream of a khz
     * @throws InterruptedWaitException this thread was interrupted; the stream is over
     */
    public Optional<Event> next() {
        while (events.isEmpty()) {
            if (!advance()) {
                return Optional.empty();
            }
            takeLine();
        }
        return Optional.of(events.remove());
    }

    /**
     * Waits for the next row, and leaves out other events.
     *
     * @return empty after {@link #close}
     * @throws UnreachableException as {@link #next}
     * @throws RefusedException as {@link #next}
     * @throws MalformedException as {@link #next}
     * @throws InterruptedWaitException as {@link #next}
     */
    public Optional<Row> nextRow() {
        for (Optional<Event> event = next(); event.isPresent(); event = next()) {
            if (event.get() instanceof Row row) {
                return Optional.of(row);
            }
        }
        return Optional.empty();
    }

    /** True if there is another line; false after {@link #close}. */
    private boolean advance() {
        try {
            if (isClosed) {
                return false;
            }
            if (lines.next()) {
                return true;
            }
            checkIsEvents(lines.unfinished());
            throw new EOFException("the connection ended");
        } catch (IOException e) {
            if (isClosed) {
                return false;
            }
            throw door.gone(e);
        }
    }

    /** One line of a server-sent event. khz writes an event's data in one line. */
    private void takeLine() {
        int from = lines.from();
        if (lines.end() == from) {
            endEvent();
            return;
        }
        // Its time goes on until it is whole.
        answer.time().begin();
        eventBytes += lines.end() - from;
        if (eventBytes > eventMax) {
            throw new MalformedException("an event of the stream has no end within " + eventMax + " bytes: " + Answer.TAKE_LESS);
        }
        checkIsEvents(lines.bytes()[from]);
        if (starts("data:")) {
            if (hasData) {
                throw new MalformedException("an event of the stream has several lines of data, and a khz writes one: does a khz answer at "
                        + door.address() + "?");
            }
            hasData = true;
            decoder.decode(name, new JsonReader(lines.bytes(), from + "data:".length(), lines.end()), events);
        } else if (starts("event:")) {
            name = lines.text().substring("event:".length()).strip();
        }
    }

    /** No line of a stream of events begins as JSON or a page does. */
    private void checkIsEvents(byte first) {
        if (first == '{' || first == '[' || first == '<') {
            throw new MalformedException("what comes is " + (first == '<' ? "a page" : "JSON") + " and no stream of events: does a khz answer at " + door.address()
                    + "?");
        }
    }

    private void endEvent() {
        name = "message";
        eventBytes = 0;
        hasData = false;
        answer.time().end();
    }

    private boolean starts(String word) {
        if (lines.end() - lines.from() < word.length()) {
            return false;
        }
        for (int i = 0; i < word.length(); i++) {
            if (lines.bytes()[lines.from() + i] != word.charAt(i)) {
                return false;
            }
        }
        return true;
    }

    /** The events that are still to come. It has another one until the stream is closed. */
    @Override
    public Iterator<Event> iterator() {
        return new Following<>() {
            @Override
            Optional<Event> following() {
                return EventStream.this.next();
            }
        };
    }

    /**
     * The rows that are still to come, without other events.
     *
     * @return to be read once
     */
    public Iterable<Row> rows() {
        return () -> new Following<>() {
            @Override
            Optional<Row> following() {
                return nextRow();
            }
        };
    }

    /** Elements that are waited for when somebody asks whether there is another one. */
    private abstract static class Following<T> implements Iterator<T> {
        private Optional<T> ahead = Optional.empty();

        abstract Optional<T> following();

        @Override
        public boolean hasNext() {
            if (ahead.isEmpty()) {
                ahead = following();
            }
            return ahead.isPresent();
        }

        @Override
        public T next() {
            T next = hasNext() ? ahead.get() : null;
            ahead = Optional.empty();
            if (next == null) {
                throw new NoSuchElementException("the stream is closed");
            }
            return next;
        }
    }

    /** Ends the stream. The nodes stop gathering at its rate some seconds later. */
    @Override
    public void close() {
        isClosed = true;
        try {
            answer.close();
        } catch (IOException e) {
            // Nobody reads it any more.
            return;
        }
    }
}
