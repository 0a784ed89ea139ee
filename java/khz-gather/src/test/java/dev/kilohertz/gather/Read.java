package dev.kilohertz.gather;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A parser with a room of its own, which tests feed with texts. */
final class Read {
    private final Room room = new Room();
    private final KernelFile file;
    private final Parser parser;

    Read(KernelFile file) {
        this.file = file;
        parser = new Parser(file);
    }

    /** A parser that has read this text. */
    static Read of(KernelFile file, String text) {
        Read read = new Read(file);
        read.advance(text);
        return read;
    }

    /** A parser that has read this text. */
    static Read of(KernelFile file, byte[] text) {
        Read read = new Read(file);
        read.advance(text);
        return read;
    }

    /** Reads a text; true if it was parsed in place. */
    boolean advance(byte[] text) {
        return parser.advance(room, room.fill(text, 0, text.length));
    }

    boolean advance(String text) {
        return advance(text.getBytes(StandardCharsets.UTF_8));
    }

    KernelFile file() {
        return file;
    }

    Parser parser() {
        return parser;
    }

    List<FaultNote> faults() {
        return parser.faults();
    }

    /** Every series, with its number or the reason why there is none. */
    Map<String, String> readings() {
        Map<String, String> readings = new TreeMap<>();
        List<Series> series = parser.slots().series();
        for (int slot = 0; slot < series.size(); slot++) {
            readings.put(series.get(slot).toString(), reading(slot));
        }
        return readings;
    }

    /** The number of a series in its steps, or the name of its state. */
    String get(String series) {
        String reading = readings().get(series);
        if (reading == null) {
            throw new IllegalArgumentException("no series " + series + " among " + readings().keySet());
        }
        return reading;
    }

    private String reading(int slot) {
        State state = State.of(parser.readings().state(slot));
        return state == State.PRESENT ? Long.toUnsignedString(parser.readings().value(slot)) : state.name();
    }

    /** True if the reading is a number. */
    static boolean isNumber(String reading) {
        return Character.isDigit(reading.charAt(0));
    }

    static boolean isFailure(String reading) {
        return !isNumber(reading) && State.valueOf(reading).isFailure();
    }
}
