package dev.kilohertz;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** Listens at a free port, and gives each request the same bytes, for tests of what no real khz sends. */
final class FakeHub implements AutoCloseable {
    private final ServerSocket listening;

    /** What it does with a connection after it has read the head of a request. */
    interface Answering {
        void answer(OutputStream out) throws IOException, InterruptedException;
    }

    FakeHub(Answering answering) throws IOException {
        listening = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        Thread.ofPlatform().daemon().start(() -> serve(answering));
    }

    static FakeHub saying(String text) throws IOException {
        return new FakeHub(out -> out.write(text.getBytes(StandardCharsets.UTF_8)));
    }

    private void serve(Answering answering) {
        while (!listening.isClosed()) {
            try (Socket socket = listening.accept()) {
                readHead(socket.getInputStream());
                answering.answer(socket.getOutputStream());
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
        return "http://127.0.0.1:" + listening.getLocalPort();
    }

    @Override
    public void close() throws IOException {
        listening.close();
    }
}
