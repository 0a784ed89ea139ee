package dev.kilohertz;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.nio.channels.SocketChannel;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/** A connection over TCP, with TLS or without. */
final class TcpConnection extends Connection {
    private final Socket socket;

    private TcpConnection(Socket socket) {
        this.socket = socket;
    }

    /** Connects. {@code tls} null: without TLS. */
    static TcpConnection open(String host, int port, SSLContext tls, int connectMillis) throws IOException {
        checkInterrupt();
        InetSocketAddress address = new InetSocketAddress(host, port);
        if (address.isUnresolved()) {
            throw new UnknownHostException(host);
        }
        // An interrupt ends the wait of a channel's socket in any thread, and that of another socket in virtual threads only.
        Socket plain = SocketChannel.open().socket();
        try {
            plain.connect(address, connectMillis);
            plain.setTcpNoDelay(true);
            return new TcpConnection(tls == null ? plain : secret(plain, host, port, tls, connectMillis));
        } catch (IOException e) {
            plain.close();
            throw Thread.currentThread().isInterrupted() ? interrupted(e) : e;
        } catch (RuntimeException e) {
            plain.close();
            throw e;
        }
    }

    private static SSLSocket secret(Socket plain, String host, int port, SSLContext tls, int connectMillis) throws IOException {
        SSLSocket secret = (SSLSocket) tls.getSocketFactory().createSocket(plain, host, port, true);
        SSLParameters parameters = secret.getSSLParameters();
        // Without this any certificate of the authority would do, whatever host it names.
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        secret.setSSLParameters(parameters);
        AtomicBoolean isDecided = new AtomicBoolean();
        Thread watch = Thread.ofVirtual().name("khz-connect").start(() -> closeAfter(connectMillis, plain, isDecided));
        try {
            secret.startHandshake();
        } catch (IOException e) {
            throw isDecided.compareAndSet(false, true) ? e : tooLong(connectMillis, e);
        } finally {
            watch.interrupt();
        }
        if (!isDecided.compareAndSet(false, true)) {
            throw tooLong(connectMillis, null);
        }
        return secret;
    }

    /** The time of a handshake as a whole: a timeout of the socket would begin again with each byte. */
    private static void closeAfter(int millis, Socket plain, AtomicBoolean isDecided) {
        try {
            Thread.sleep(millis);
            if (isDecided.compareAndSet(false, true)) {
                plain.close();
            }
        } catch (InterruptedException | IOException e) {
            // The handshake has ended, or the connection has.
            return;
        }
    }

    private static SocketTimeoutException tooLong(int millis, IOException cause) {
        SocketTimeoutException tooLong = new SocketTimeoutException("no TLS within " + millis + " ms");
        tooLong.initCause(cause);
        return tooLong;
    }

    @Override
    void send(byte[] bytes) throws IOException {
        socket.getOutputStream().write(bytes);
    }

    @Override
    void setSilenceMax(int millis) throws IOException {
        socket.setSoTimeout(millis);
    }

    @Override
    int receive(byte[] into, int from, int length) throws IOException {
        return socket.getInputStream().read(into, from, length);
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
