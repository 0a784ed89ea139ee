package dev.kilohertz;

/**
 * What this library could not do, why, and what to do about it. Each kind of problem is a class of its own. Messages are one line
 * without control characters, whatever a peer has sent: they can be printed and logged.
 */
public abstract sealed class KhzException extends RuntimeException
        permits SnapshotException, PublishException, UnreachableException, RefusedException, MalformedException, InterruptedWaitException {
    private static final long serialVersionUID = 1;

    KhzException(String message) {
        super(Printable.line(message));
    }

    KhzException(String message, Throwable cause) {
        super(Printable.line(message), cause);
    }
}
