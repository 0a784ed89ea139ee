package dev.kilohertz;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;

/** Where a khz listens, and how this program shows who it is. Each request has a connection of its own. */
final class Door {
    private static final int PORT = 7070;
    private static final int PORT_MAX = 65_535;
    private static final int REFUSAL_BYTES_MAX = 64 << 10;

    private final String address;
    private final Path socket;
    private final String host;
    private final int port;
    private final SSLContext tls;
    private final String token;
    private final Times times;

    private Door(String address, Path socket, String host, int port, SSLContext tls, String token, Times times) {
        this.address = address;
        this.socket = socket;
        this.host = host;
        this.port = port;
        this.tls = tls;
        this.token = token;
        this.times = times;
    }

    /**
     * How long a khz may take.
     *
     * @param connectMillis to accept a connection
     * @param silenceMillis between two bytes
     * @param answerNanos for the whole of an answer, or of an event or part of it
     */
    record Times(int connectMillis, int silenceMillis, long answerNanos) {}

    /** The door at an address: {@code http://HOST:PORT}, {@code https://HOST:PORT}, {@code unix:PATH}. */
    static Door at(String address, SSLContext tls, String token, Times times) {
        if (address.startsWith("unix:")) {
            Path socket = Path.of(address.substring("unix:".length()));
            return new Door(address, socket, "localhost", 0, null, token, times);
        }
        URI uri = parsed(address);
        boolean isSecret = uri.getScheme().equals("https");
        if (token != null && token.chars().anyMatch(c -> c <= ' ' || c > '~')) {
            throw new IllegalArgumentException("a token is one word of ASCII: take it as 'khz certs token' prints it, without the line end");
        }
        if (token != null && !isSecret && !isLoopback(uri.getHost())) {
            throw new IllegalArgumentException("everybody on the way to " + address + " could read the token: use https://");
        }
        int port = uri.getPort() < 0 ? PORT : uri.getPort();
        if (port < 1 || port > PORT_MAX) {
            throw new IllegalArgumentException("the address " + address + " has port " + port + ", and ports are 1 to " + PORT_MAX
                    + ": give the one of khz's --listen (" + PORT + " by default)");
        }
        return new Door(address, null, uri.getHost(), port, isSecret ? tls : null, token, times);
    }

    private static boolean isLoopback(String host) {
        return host.equals("localhost") || host.startsWith("127.") || host.equals("[::1]");
    }

    private static URI parsed(String address) {
        try {
            URI uri = new URI(address);
            boolean hasPath = uri.getPath() != null && !uri.getPath().isEmpty() && !uri.getPath().equals("/");
            String scheme = uri.getScheme() == null ? "" : uri.getScheme().toLowerCase(Locale.ROOT);
            if ((scheme.equals("http") || scheme.equals("https")) && uri.getHost() != null && !hasPath && uri.getUserInfo() == null) {
                return new URI(scheme, null, uri.getHost(), uri.getPort(), null, null, null);
            }
        } catch (URISyntaxException e) {
            throw unreadable(address, e);
        }
        throw unreadable(address, null);
    }

    private static IllegalArgumentException unreadable(String address, Exception cause) {
        return new IllegalArgumentException(
                "'" + address + "' is no address of a khz: write http://HOST:PORT, https://HOST:PORT or unix:/run/khz/hub.sock", cause);
    }

    String address() {
        return address;
    }

    /** Asks, and returns an answer that is not a refusal. */
    Answer get(String path) {
        return ask("GET", path, new byte[0]);
    }

    /** The same with another method, and with a body of JSON. */
    Answer ask(String method, String path, byte[] body) {
        Connection connection = null;
        try {
            connection = socket == null ? TcpConnection.open(host, port, tls, times.connectMillis) : local();
            connection.setSilenceMax(times.silenceMillis);
            connection.write(request(method, path, body));
            Answer answer = new Answer(connection, new ReadTime(times.answerNanos));
            if (answer.status() / 100 != 2) {
                try (answer) {
                    throw refusal(answer);
                }
            }
            return answer;
        } catch (IOException e) {
            close(connection);
            throw gone(e);
        } catch (RuntimeException e) {
            close(connection);
            throw e;
        }
    }

    private Connection local() throws InterruptedIOException {
        try {
            return LocalConnection.open(socket, times.connectMillis);
        } catch (IOException e) {
            Connection.checkInterrupt();
            throw new UnreachableException("no khz listens at the socket " + socket + " (" + e.getMessage() + "): is it running, and is this its --run-dir?", e);
        }
    }

    private byte[] request(String method, String path, byte[] body) {
        StringBuilder head = new StringBuilder(method).append(' ').append(path).append(" HTTP/1.1\r\n");
        head.append("Host: ").append(host);
        if (socket == null) {
            head.append(':').append(port);
        }
        head.append("\r\nAccept: */*\r\nUser-Agent: khz-java\r\nConnection: close\r\n");
        if (token != null) {
            head.append("Authorization: Bearer ").append(token).append("\r\n");
        }
        if (body.length > 0) {
            head.append("Content-Type: application/json\r\nContent-Length: ").append(body.length).append("\r\n");
        }
        byte[] first = head.append("\r\n").toString().getBytes(StandardCharsets.US_ASCII);
        byte[] whole = Arrays.copyOf(first, first.length + body.length);
        System.arraycopy(body, 0, whole, first.length, body.length);
        return whole;
    }

    /** What a status beyond 2xx means: a khz refuses with a sentence, and what has none comes from another program. */
    private KhzException refusal(Answer answer) throws IOException {
        int status = answer.status();
        Refusal said = Refusal.read(answer.readNBytes(REFUSAL_BYTES_MAX));
        Duration wait = wait(answer.field("retry-after", ""));
        if (status >= 400 && said.sentence() != null) {
            return new RefusedException(status, said.sentence(), said.shown(), wait);
        }
        String what = address + " answers with status " + status + ", without a sentence of a khz";
        return switch (status) {
            case 401, 403 -> new RefusedException(status, what + ": a proxy in between wants to know who asks. Name the khz itself, or let the proxy pass "
                    + "its requests", null, null);
            case 429 -> new RefusedException(status, what + ": a proxy in between limits requests. Ask less often, or name the khz itself", null, wait);
            case 502, 503, 504 -> new UnreachableException(what + ": the khz behind this proxy does not answer. Is it running?");
            default -> new MalformedException(status / 100 == 3
                    ? what + ": it sends to another address (" + answer.field("location", "not named") + "), and a khz never does. Name the khz itself"
                    : what + ": does a khz listen there, or another program?");
        };
    }

    private static Duration wait(String retryAfter) {
        return retryAfter.matches("[0-9]{1,9}") ? Duration.ofSeconds(Long.parseLong(retryAfter)) : null;
    }

    /** What went wrong on the way, and what to do. */
    KhzException gone(IOException e) {
        if (Connection.isInterrupt(e)) {
            return new InterruptedWaitException("this thread was interrupted while it waited for the khz at " + address
                    + ": its interrupt status is still set, and every request will end so until it is cleared", e);
        }
        String what = switch (e) {
            case ReadTime.OverException over -> "sends too slowly (" + over.getMessage() + "): ask for less, or allow more with answerMax()";
            case SocketTimeoutException timeout -> "says nothing (" + timeout.getMessage() + "): is it stopped, or the network down?";
            case UnknownHostException unknown -> "has a host name that nobody knows: check the name";
            case ConnectException refused -> "takes no connection (" + refused.getMessage() + "): is khz running there, and is this its --listen address?";
            case SSLException ssl -> "cannot be trusted (" + ssl.getMessage() + "): give the cluster's ca.pem with authority(), and a name that the hub's certificate has";
            default -> "is gone (" + e.getMessage() + "): ask again later";
        };
        return new UnreachableException("the khz at " + address + " " + what, e);
    }

    private static void close(Connection connection) {
        if (connection == null) {
            return;
        }
        try {
            connection.close();
        } catch (IOException e) {
            // What made this close is thrown already.
            return;
        }
    }
}
