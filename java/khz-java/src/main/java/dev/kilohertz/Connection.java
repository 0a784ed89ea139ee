package dev.kilohertz;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;

/** Bytes to and from a khz. {@link #read} throws {@link java.net.SocketTimeoutException} after a silence; {@link #close} ends a read of another thread. */
abstract class Connection extends InputStream implements Closeable {
    /** Sends all of it. */
    abstract void write(byte[] bytes) throws IOException;

    /** How long a read may wait for the next byte, in milliseconds. */
    abstract void setSilenceMax(int millis) throws IOException;

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 255;
    }

    @Override
    public abstract int read(byte[] into, int from, int length) throws IOException;

    @Override
    public abstract void close() throws IOException;
}
