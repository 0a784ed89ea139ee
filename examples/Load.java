import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.math.BigInteger;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Load and free memory of every node, once a second: java Load.java [HOST [PORT [COUNT]]]. See docs/text-protocol.md. */
public class Load {
    private final OutputStream out;
    private final BufferedReader in;

    private Load(Socket socket) throws IOException {
        out = socket.getOutputStream();
        in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
    }

    /** The lines up to the blank one. */
    private List<String> ask(String command) throws IOException {
        out.write(command.getBytes(StandardCharsets.US_ASCII));
        List<String> lines = new ArrayList<>();
        for (String line = in.readLine(); line != null && !line.isEmpty(); line = in.readLine()) {
            lines.add(line);
        }
        return lines;
    }

    public static void main(String[] args) throws Exception {
        String host = args.length > 0 ? args[0] : "localhost";
        int port = args.length > 1 ? Integer.parseInt(args[1]) : 2709;
        int count = args.length > 2 ? Integer.parseInt(args[2]) : 0;
        try (Socket socket = new Socket(host, port)) {
            Load cluster = new Load(socket);
            // '#' names the items; the sum of their bits is the mask.
            BigInteger mask = BigInteger.ZERO;
            for (String item : cluster.ask("#")) {
                String[] words = item.split(" ");
                if (words[1].equals("load1m") || words[1].equals("memfree")) {
                    mask = mask.add(new BigInteger(words[0], 16));
                }
            }
            for (int round = 0; count == 0 || round < count; round++) {
                if (round > 0) {
                    Thread.sleep(1000);
                }
                cluster.ask(mask.toString(16) + "\nS").forEach(System.out::println);
            }
        }
    }
}
