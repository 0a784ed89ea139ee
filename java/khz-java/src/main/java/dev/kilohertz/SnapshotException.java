package dev.kilohertz;

/** A snapshot in shared memory cannot be read: there is none, it is damaged, or its writer has ended. */
public final class SnapshotException extends KhzException {
    private static final long serialVersionUID = 1;

    SnapshotException(String message) {
        super(message);
    }

    SnapshotException(String message, Throwable cause) {
        super(message, cause);
    }
}
