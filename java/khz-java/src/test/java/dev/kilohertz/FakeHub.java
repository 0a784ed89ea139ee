package dev.kilohertz;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** Listens at a free port, or at a local socket, and gives each request the same bytes, for tests of what no real khz sends. */
final class FakeHub implements AutoCloseable {
    private final ServerSocketChannel listening;
    private final String address;

    /** What it does with a connection after it has read the head of a request. */
    interface Answering {
        void answer(OutputStream out) throws IOException, InterruptedException;
    }

    FakeHub(Answering answering) throws IOException {
        listening = ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        address = "http://127.0.0.1:" + ((InetSocketAddress) listening.getLocalAddress()).getPort();
        Thread.ofPlatform().daemon().start(() -> serve(answering));
    }

    /** One at a local socket. */
    FakeHub(Path socket, Answering answering) throws IOException {
        listening = ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(UnixDomainSocketAddress.of(socket));
        address = "unix:" + socket;
        Thread.ofPlatform().daemon().start(() -> serve(answering));
    }

    static FakeHub saying(String text) throws IOException {
        return new FakeHub(out -> out.write(text.getBytes(StandardCharsets.UTF_8)));
    }

    /** Says the first text once, and the second again and again for ever. */
    static FakeHub repeating(String once, String forever) throws IOException {
        return new FakeHub(out -> {
            out.write(once.getBytes(StandardCharsets.UTF_8));
            byte[] many = forever.repeat(1 + 8_192 / forever.length()).getBytes(StandardCharsets.UTF_8);
            while (true) {
                out.write(many);
            }
        });
    }

    /** Says the first text at once, and the second again and again, a byte each few milliseconds: it is never silent. */
    static FakeHub dripping(String once, String slowly) throws IOException {
        return new FakeHub(out -> {
            out.write(once.getBytes(StandardCharsets.UTF_8));
            byte[] bytes = slowly.getBytes(StandardCharsets.UTF_8);
            for (int at = 0;; at = (at + 1) % bytes.length) {
                out.write(bytes, at, 1);
                Thread.sleep(5);
            }
        });
    }

    private void serve(Answering answering) {
        while (listening.isOpen()) {
            try (SocketChannel socket = listening.accept()) {
                readHead(Channels.newInputStream(socket));
                answering.answer(Channels.newOutputStream(socket));
            } catch (IOException | InterruptedException e) {
                // The client has had enough, or the test is over.
                continue;
            }
        }
    }

    private static void readHead(InputStream in) throws IOException {
        int last = 0;
        while (last != 0x0d0a0d0a) {
            int next = in.read();
            if (next < 0) {
                throw new IOException("no whole request");
            }
            last = last << 8 | next;
        }
    }

    String address() {
        return address;
    }

    @Override
    public void close() throws IOException {
        listening.close();
    }
}
