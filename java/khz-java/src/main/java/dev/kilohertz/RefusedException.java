package dev.kilohertz;

import java.time.Duration;
import java.util.Optional;

/** A khz understood the request and refused it, or ended a stream. The message is its own sentence, which says what to do. */
public final class RefusedException extends KhzException {
    private static final long serialVersionUID = 1;
    /** The status of a stream that was ended, or of an answer that stopped, after it had begun. */
    static final int OK = 200;

    /** The HTTP status. */
    private final int status;
    /** The pattern with a caret; null if the refusal is about something else. */
    private final String shown;
    /** When to ask again; null: never. */
    private final Duration retryAfter;

    RefusedException(int status, String sentence, String shown, Duration retryAfter) {
        super(sentence);
        this.status = status;
        this.shown = shown == null ? null : Printable.of(shown);
        this.retryAfter = retryAfter;
    }

    /**
     * The HTTP status; docs/http.md has the list.
     *
     * @return such as 400 for a pattern that cannot be read, 401 without a token, 404 where nothing matches, 429 and 503 for "later";
     *     200 if the answer had already begun
     */
    public int status() {
        return status;
    }

    /**
     * The sentence again, and the pattern with a caret below the place that is wrong.
     *
     * @return three lines, for a terminal; empty if the refusal is about something else
     */
    public Optional<String> shown() {
        return Optional.ofNullable(shown);
    }

    /**
     * After how long it makes sense to ask again.
     *
     * @return empty if the same request would be refused again
     */
    public Optional<Duration> retryAfter() {
        return Optional.ofNullable(retryAfter);
    }
}
