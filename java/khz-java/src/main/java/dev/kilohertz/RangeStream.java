package dev.kilohertz;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;

/**
 * The past, part after part, while the answer comes. Only one part is in memory at a time. It belongs to one thread.
 *
 * <p>An answer that breaks off throws: what came before is right, and more is missing.
 */
public final class RangeStream implements Iterable<RangePart>, AutoCloseable {
    private static final int DAMAGES_MAX = 1_000;

    private final Door door;
    private final Answer answer;
    private final LineReader lines;
    private final List<String> damages = new ArrayList<>();
    private Optional<Duration> width = Optional.empty();
    private boolean isOver;

    RangeStream(Door door, Answer answer, int lineMax) {
        this.door = door;
        this.answer = answer;
        this.lines = new LineReader(answer, lineMax, Answer.TAKE_LESS, answer.time());
        // Each part has this time, and the answer as many parts as it likes.
        answer.time().end();
    }

    /**
     * The next part.
     *
     * @return empty when the answer is whole
     * @throws UnreachableException the answer broke off
     * @throws RefusedException the answer had to stop; the message says why
     */
    public Optional<RangePart> next() {
        while (!isOver) {
            if (!advance()) {
                checkIsCut();
                throw door.gone(new IOException("its answer broke off"));
            }
            Optional<RangePart> part = take(new JsonReader(lines.bytes(), lines.from(), lines.end()));
            if (part.isPresent()) {
                return part;
            }
        }
        return Optional.empty();
    }

    /** What has its own end, and not that of a line, did not break off: a khz ends each line. */
    private void checkIsCut() {
        byte[] rest = lines.unfinishedBytes();
        try {
            JsonReader json = new JsonReader(rest, 0, rest.length);
            json.skip();
            json.end();
        } catch (MalformedException e) {
            // It is not whole.
            return;
        }
        throw new MalformedException("the answer of " + door.address() + " is JSON without an end of a line, and a khz ends each: does a khz answer there?");
    }

    private boolean advance() {
        try {
            boolean isLine = lines.next();
            answer.time().end();
            return isLine;
        } catch (IOException e) {
            throw door.gone(e);
        }
    }

    private Optional<RangePart> take(JsonReader json) {
        RangeDecoder decoder = new RangeDecoder();
        boolean isPart = false;
        boolean isEmpty = true;
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            isEmpty = false;
            switch (key) {
                case "end" -> end(json);
                case "damage" -> damage(json.text());
                case "error" -> throw new RefusedException(RefusedException.OK, json.text(), null, null);
                default -> {
                    isPart = true;
                    decoder.take(key, json);
                }
            }
        }
        json.end();
        if (isEmpty) {
            throw new MalformedException("the answer of " + door.address() + " has a line that says nothing: does a khz answer there?");
        }
        return isPart && !isOver ? Optional.of(decoder.part()) : Optional.empty();
    }

    private void end(JsonReader json) {
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            if (key.equals("width")) {
                width = Optional.ofNullable(json.textOrNull()).map(Seconds::duration);
            } else {
                json.skip();
            }
        }
        isOver = true;
    }

    private void damage(String text) {
        if (damages.size() < DAMAGES_MAX) {
            damages.add(Printable.line(text));
        }
    }

    /**
     * How long a point is.
     *
     * @return empty before the end of the answer, or if there are no points
     */
    public Optional<Duration> width() {
        return width;
    }

    /**
     * What could not be read in the store, and is missing here.
     *
     * @return sentences with file and byte; the first 1,000
     */
    public List<String> damages() {
        return Collections.unmodifiableList(damages);
    }

    /** The parts that are still to come. */
    @Override
    public Iterator<RangePart> iterator() {
        return new Iterator<>() {
            private Optional<RangePart> ahead = Optional.empty();

            @Override
            public boolean hasNext() {
                if (ahead.isEmpty()) {
                    ahead = RangeStream.this.next();
                }
                return ahead.isPresent();
            }

            @Override
            public RangePart next() {
                if (!hasNext()) {
                    throw new NoSuchElementException("the answer is over");
                }
                RangePart part = ahead.get();
                ahead = Optional.empty();
                return part;
            }
        };
    }

    /** Ends reading, before the end of the answer too. */
    @Override
    public void close() {
        try {
            answer.close();
        } catch (IOException e) {
            // Nobody reads it any more.
            isOver = true;
        }
    }
}
