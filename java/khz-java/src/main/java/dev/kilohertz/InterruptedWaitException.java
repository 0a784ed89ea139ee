package dev.kilohertz;

/**
 * The thread was interrupted while it waited for a khz: somebody wants it to end. Its interrupt status is still set, and the
 * connection is closed.
 */
public final class InterruptedWaitException extends KhzException {
    private static final long serialVersionUID = 1;

    InterruptedWaitException(String message, Throwable cause) {
        super(message, cause);
    }
}
