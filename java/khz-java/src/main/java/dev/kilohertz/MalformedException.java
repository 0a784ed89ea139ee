package dev.kilohertz;

/** An answer is not what docs/http.md describes, or is longer than this client takes: another program answers, or another version. */
public final class MalformedException extends KhzException {
    private static final long serialVersionUID = 1;

    MalformedException(String message) {
        super(message);
    }

    MalformedException(String message, Throwable cause) {
        super(message, cause);
    }
}
