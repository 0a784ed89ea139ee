package dev.kilohertz;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
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
        Socket plain = new Socket();
        try {
            plain.connect(new InetSocketAddress(host, port), connectMillis);
            plain.setTcpNoDelay(true);
            if (tls == null) {
                return new TcpConnection(plain);
            }
            plain.setSoTimeout(connectMillis);
            SSLSocket secret = (SSLSocket) tls.getSocketFactory().createSocket(plain, host, port, true);
            SSLParameters parameters = secret.getSSLParameters();
            // Without this any certificate of the authority would do, whatever host it names.
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            secret.setSSLParameters(parameters);
            secret.startHandshake();
            return new TcpConnection(secret);
        } catch (IOException | RuntimeException e) {
            plain.close();
            throw e;
        }
    }

    @Override
    void write(byte[] bytes) throws IOException {
        socket.getOutputStream().write(bytes);
    }

    @Override
    void setSilenceMax(int millis) throws IOException {
        socket.setSoTimeout(millis);
    }

    @Override
    public int read(byte[] into, int from, int length) throws IOException {
        return socket.getInputStream().read(into, from, length);
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
