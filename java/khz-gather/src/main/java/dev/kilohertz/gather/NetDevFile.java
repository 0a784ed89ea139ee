package dev.kilohertz.gather;

import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * {@code /proc/net/dev}: sixteen counters for each interface, below two header lines that name the columns. The columns are found by
 * name, because kernels have printed fewer of them.
 */
final class NetDevFile extends KernelFile {
    /**
     * A record is a line: a name of 15 bytes, a colon, 16 numbers of at most 20 digits with a blank before each, a newline, and one
     * more byte that the kernel's printf needs.
     */
    private static final int LONGEST = 16 + 16 * 21 + 2;

    /** Column names in the header, in the order of the metrics; the first {@link #RECEIVE} are the receive columns. */
    private static final List<String> COLUMNS = List.of("bytes", "packets", "errs", "drop", "fifo", "frame",
            "compressed", "multicast", "bytes", "packets", "errs", "drop", "fifo", "colls", "carrier", "compressed");
    private static final List<byte[]> NAMES =
            COLUMNS.stream().map(name -> name.getBytes(StandardCharsets.US_ASCII)).toList();
    private static final int RECEIVE = 8;

    NetDevFile() {
        super("net/dev", LONGEST, List.of(), List.of(
                device("net.rx_bytes", "Receive bytes", Unit.BYTES),
                device("net.rx_packets", "Receive packets", Unit.PACKETS),
                device("net.rx_errors", "Receive errs", Unit.PACKETS),
                device("net.rx_dropped", "Receive drop", Unit.PACKETS),
                device("net.rx_fifo", "Receive fifo", Unit.COUNT),
                device("net.rx_frame", "Receive frame", Unit.COUNT),
                device("net.rx_compressed", "Receive compressed", Unit.PACKETS),
                device("net.rx_multicast", "Receive multicast", Unit.PACKETS),
                device("net.tx_bytes", "Transmit bytes", Unit.BYTES),
                device("net.tx_packets", "Transmit packets", Unit.PACKETS),
                device("net.tx_errors", "Transmit errs", Unit.PACKETS),
                device("net.tx_dropped", "Transmit drop", Unit.PACKETS),
                device("net.tx_fifo", "Transmit fifo", Unit.COUNT),
                device("net.tx_collisions", "Transmit colls", Unit.COUNT),
                device("net.tx_carrier", "Transmit carrier", Unit.COUNT),
                device("net.tx_compressed", "Transmit compressed", Unit.PACKETS)));
    }

    private static Entry device(String name, String field, Unit unit) {
        return Entry.counter(name, field, unit).each("device");
    }

    @Override
    void parse(Sink sink) {
        int columns = 0;
        while (sink.nextLine()) {
            if (columns > 0) {
                device(sink, columns);
            } else {
                columns = header(sink);
            }
        }
        if (columns == 0) {
            sink.note("header", "no line names the columns");
        }
    }

    /**
     * Reads {@code  face |bytes packets ...|bytes packets ...}; returns how many columns there are, 0 for any other line. The scratch
     * then has the meaning of each column: an index of a metric, or one past their end for an unknown column.
     */
    private static int header(Sink sink) {
        byte[] text = sink.text();
        int first = Words.indexOf(text, sink.lineStart(), sink.lineEnd(), '|');
        int second = first < 0 ? -1 : Words.indexOf(text, first + 1, sink.lineEnd(), '|');
        if (second < 0) {
            return 0;
        }
        int receive = section(sink, first + 1, second, 0, 0, RECEIVE);
        int columns = section(sink, second + 1, sink.lineEnd(), receive, RECEIVE, NAMES.size());
        if (columns > Sink.SCRATCH) {
            return 0;
        }
        // The first header line has the bars too, but Receive and Transmit are not column names.
        for (int column = 0; column < columns; column++) {
            if (sink.scratch()[column] < NAMES.size()) {
                return columns;
            }
        }
        return 0;
    }

    /** Reads the columns between two bars, of which {@code count} are known before; returns how many there are then. */
    private static int section(Sink sink, int from, int to, int count, int firstName, int lastName) {
        Words words = sink.words(from, to);
        int columns = count;
        while (words.next()) {
            if (columns < Sink.SCRATCH) {
                sink.scratch()[columns] = meaning(sink.text(), words.start(), words.end(), firstName, lastName);
            }
            columns++;
        }
        return columns;
    }

    private static int meaning(byte[] text, int start, int end, int firstName, int lastName) {
        for (int name = firstName; name < lastName; name++) {
            if (Words.is(text, start, end, NAMES.get(name))) {
                return name;
            }
        }
        return NAMES.size();
    }

    private static void device(Sink sink, int columns) {
        byte[] text = sink.text();
        int colon = Words.indexOf(text, sink.lineStart(), sink.lineEnd(), ':');
        if (colon < 0) {
            sink.note(sink.string(sink.lineStart(), sink.lineEnd()), "no ':' after the interface's name");
            return;
        }
        Words words = sink.words(sink.lineStart(), colon);
        if (!words.next()) {
            sink.note("interface", "no name before ':'");
            return;
        }
        int device = sink.instance(words.start(), words.end());
        if (device != Slots.NONE) {
            numbers(sink, device, colon + 1, columns);
        }
    }

    private static void numbers(Sink sink, int device, int from, int columns) {
        Words words = sink.words(from, sink.lineEnd());
        boolean fits = words.count() == columns;
        for (int column = 0; column < columns; column++) {
            int meaning = sink.scratch()[column];
            if (fits) {
                words.next();
                sink.field(device, meaning, words.start(), words.end());
            } else if (meaning < NAMES.size()) {
                // Which column is missing or added cannot be known: every number might be its neighbour's.
                sink.failField(device, meaning, "the line does not have as many numbers as the header has columns");
            }
        }
    }
}
