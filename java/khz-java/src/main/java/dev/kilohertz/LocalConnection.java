package dev.kilohertz;

import java.io.IOException;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** A connection over a local socket. Java's channels have no timeouts, so each wait is one of a selector. */
final class LocalConnection extends Connection {
    private static final long RETRY_NANOS = 10_000_000;

    private final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey key;
    private volatile int silenceMillis;

    private LocalConnection(SocketChannel channel, Selector selector, int silenceMillis) throws IOException {
        this.channel = channel;
        this.selector = selector;
        this.key = channel.register(selector, SelectionKey.OP_READ);
        this.silenceMillis = silenceMillis;
    }

    static LocalConnection open(Path socket, int connectMillis) throws IOException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(connectMillis);
        while (true) {
            checkInterrupt();
            SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
            try {
                channel.configureBlocking(false);
                channel.connect(UnixDomainSocketAddress.of(socket));
                return new LocalConnection(channel, Selector.open(), connectMillis);
            } catch (IOException | RuntimeException e) {
                channel.close();
                if (!mayBeFull(socket, e)) {
                    throw e;
                }
                if (System.nanoTime() - end >= 0) {
                    SocketTimeoutException over = new SocketTimeoutException("it takes no connection within " + connectMillis + " ms: " + e.getMessage());
                    over.initCause(e);
                    throw over;
                }
            }
            // The kernel tells nobody when there is room.
            LockSupport.parkNanos(RETRY_NANOS);
        }
    }

    /** Whether the queue of the listening process may be full. Java has no exception of its own for that, only a text of the kernel. */
    private static boolean mayBeFull(Path socket, Exception e) {
        return e.getClass() == SocketException.class && Files.isWritable(socket);
    }

    boolean isOpen() {
        return channel.isOpen();
    }

    @Override
    void send(byte[] bytes) throws IOException {
        ByteBuffer rest = ByteBuffer.wrap(bytes);
        key.interestOps(SelectionKey.OP_WRITE);
        while (rest.hasRemaining()) {
            if (channel.write(rest) == 0) {
                await();
            }
        }
        key.interestOps(SelectionKey.OP_READ);
    }

    @Override
    void setSilenceMax(int millis) {
        silenceMillis = millis;
    }

    @Override
    int receive(byte[] into, int from, int length) throws IOException {
        try {
            while (true) {
                int read = channel.read(ByteBuffer.wrap(into, from, length));
                if (read != 0) {
                    return read;
                }
                await();
            }
        } catch (ClosedChannelException | ClosedSelectorException e) {
            throw closed(e);
        }
    }

    /** Waits until the socket can be used, or throws. */
    private void await() throws IOException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(silenceMillis);
        while (selector.select(Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()))) == 0) {
            if (!channel.isOpen() || !selector.isOpen()) {
                throw closed(null);
            }
            if (System.nanoTime() - end >= 0) {
                throw new SocketTimeoutException("nothing came for " + silenceMillis + " ms");
            }
            checkInterrupt();
        }
        selector.selectedKeys().clear();
    }

    private static SocketException closed(Exception cause) {
        SocketException closed = new SocketException("the connection is closed");
        closed.initCause(cause);
        return closed;
    }

    @Override
    public void close() throws IOException {
        // A thread that waits wakes when its selector ends.
        selector.close();
        channel.close();
    }
}
