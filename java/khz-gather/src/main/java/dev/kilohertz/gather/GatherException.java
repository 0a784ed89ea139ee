package dev.kilohertz.gather;

/** The reason why a gatherer cannot start. */
public final class GatherException extends RuntimeException {
    private static final long serialVersionUID = 1;

    GatherException(String problem) {
        super(problem);
    }

    GatherException(String problem, Throwable cause) {
        super(problem, cause);
    }
}
