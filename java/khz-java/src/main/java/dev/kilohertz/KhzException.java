package dev.kilohertz;

/** What this library could not do, why, and what to do about it. Each kind of problem is a class of its own. */
public abstract sealed class KhzException extends RuntimeException
        permits SnapshotException, PublishException, UnreachableException, RefusedException, MalformedException {
    private static final long serialVersionUID = 1;

    KhzException(String message) {
        super(message);
    }

    KhzException(String message, Throwable cause) {
        super(message, cause);
    }
}
