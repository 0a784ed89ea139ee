package dev.kilohertz;

/** A number cannot be published: this machine cannot make the socket, or the node has no room for another number. */
public final class PublishException extends KhzException {
    private static final long serialVersionUID = 1;

    PublishException(String message) {
        super(message);
    }

    PublishException(String message, Throwable cause) {
        super(message, cause);
    }
}
