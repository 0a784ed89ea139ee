package dev.kilohertz;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;

/**
 * Bytes to and from a khz. {@link #read} throws {@link java.net.SocketTimeoutException} after a silence; {@link #close} ends a read of
 * another thread.
 *
 * <p>An interrupt of the thread that reads or writes closes the connection, and throws {@link InterruptedIOException}. Sockets of the
 * JDK differ in that: by the kind of socket, and by whether the thread is a virtual one.
 */
abstract class Connection extends InputStream implements Closeable {
    /** Sends all of it. */
    final void write(byte[] bytes) throws IOException {
        try {
            checkInterrupt();
            send(bytes);
        } catch (IOException e) {
            throw failure(e);
        }
    }

    abstract void send(byte[] bytes) throws IOException;

    /** How long a read may wait for the next byte, in milliseconds. */
    abstract void setSilenceMax(int millis) throws IOException;

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 255;
    }

    @Override
    public final int read(byte[] into, int from, int length) throws IOException {
        try {
            checkInterrupt();
            return receive(into, from, length);
        } catch (IOException e) {
            throw failure(e);
        }
    }

    abstract int receive(byte[] into, int from, int length) throws IOException;

    /** Whatever a socket throws to a thread that is interrupted, it is because of that. */
    private IOException failure(IOException e) {
        if (!Thread.currentThread().isInterrupted()) {
            return e;
        }
        try {
            close();
        } catch (IOException closing) {
            e.addSuppressed(closing);
        }
        return interrupted(e);
    }

    /** Throws if this thread is interrupted. */
    static void checkInterrupt() throws InterruptedIOException {
        if (Thread.currentThread().isInterrupted()) {
            throw interrupted(null);
        }
    }

    static InterruptedIOException interrupted(IOException cause) {
        InterruptedIOException interrupted = new InterruptedIOException("the waiting thread was interrupted");
        interrupted.initCause(cause);
        return interrupted;
    }

    /** True for what an interrupt gives. A timeout of a socket is of the same class. */
    static boolean isInterrupt(IOException e) {
        return e.getClass() == InterruptedIOException.class;
    }

    @Override
    public abstract void close() throws IOException;
}
