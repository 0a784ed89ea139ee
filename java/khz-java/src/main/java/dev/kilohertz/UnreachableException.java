package dev.kilohertz;

/** No khz answers: it is not running, the network is down, or the connection broke in the middle of an answer. Ask again later. */
public final class UnreachableException extends KhzException {
    private static final long serialVersionUID = 1;

    UnreachableException(String message) {
        super(message);
    }

    UnreachableException(String message, Throwable cause) {
        super(message, cause);
    }
}
