package dev.kilohertz.jfr;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/** The events of khz in a file of a recording, for tests: as the program {@code jfr} of the JDK prints them, and as Java reads them. */
final class Recorded {
    private final Path file;

    Recorded(Path file) {
        this.file = file;
    }

    /** Those of one type, in the order of the file. */
    List<RecordedEvent> events(String type) throws IOException {
        return RecordingFile.readAllEvents(file).stream().filter(event -> event.getEventType().getName().equals(type)).toList();
    }

    /** What {@code jfr} prints. */
    String printed(String... words) throws Exception {
        List<String> command = new ArrayList<>(List.of(tool("jfr"), "print"));
        command.addAll(List.of(words));
        command.add(file.toString());
        Process jfr = new ProcessBuilder(command).redirectErrorStream(true).start();
        String printed = new String(jfr.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, jfr.waitFor(), printed);
        return printed;
    }

    /** The values of a field in what {@code jfr print --json} prints of one type, as they are written there. */
    List<String> json(String type, String field) throws Exception {
        Matcher values = Pattern.compile("\"" + field + "\": (\"[^\"]*\"|[^,\\s}]+)").matcher(printed("--json", "--events", type));
        return values.results().map(value -> value.group(1).replace("\"", "")).toList();
    }

    /** A program of this JDK. */
    static String tool(String name) {
        return Path.of(System.getProperty("java.home"), "bin", name).toString();
    }
}
