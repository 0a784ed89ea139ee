package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;

/** The examples of docs/java.md that use one library: each is compiled, and run as a program; what it prints has the form that the page shows. */
public final class Examples {
    private static final Path PAGE = Path.of("../../docs/java.md");
    private static final Pattern EXAMPLE = Pattern.compile("```java\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", Pattern.DOTALL);
    private static final Pattern IMPORT = Pattern.compile("import dev\\.kilohertz(?:\\.([a-z]+))?\\.\\*;");
    private static final Pattern NUMBER = Pattern.compile("[0-9][0-9.E]*");
    private static final int LINES_MAX = 12;

    private final Path folder;
    private final Path runDirectory;
    private final List<String> path;
    private final UnaryOperator<String> placed;

    /**
     * Prepares runs.
     *
     * @param path the flags with which javac and java find the library
     * @param placed makes an example for the khz of the test: what the page calls local is elsewhere there
     */
    public Examples(Path folder, Path runDirectory, List<String> path, UnaryOperator<String> placed) {
        this.folder = folder;
        this.runDirectory = runDirectory;
        this.path = path;
        this.placed = placed;
    }

    /** One test for each example that imports the package {@code dev.kilohertz.LIBRARY}; "": only {@code dev.kilohertz}. */
    public Stream<DynamicTest> tests(String library, int expected) throws IOException {
        Matcher matcher = EXAMPLE.matcher(Files.readString(PAGE));
        List<DynamicTest> tests = new ArrayList<>();
        while (matcher.find()) {
            String code = matcher.group(1);
            String printed = matcher.group(2);
            if (library.equals(library(code))) {
                int number = tests.size() + 1;
                tests.add(DynamicTest.dynamicTest("example " + number, () -> check(number, code, printed)));
            }
        }
        assertEquals(expected, tests.size(), "examples of docs/java.md");
        return tests.stream();
    }

    private static String library(String code) {
        return IMPORT.matcher(code).results().map(found -> found.group(1)).filter(name -> name != null).findFirst().orElse("");
    }

    private void check(int number, String code, String printed) throws Exception {
        assertTrue(code.lines().count() <= LINES_MAX, "an example has about ten lines");
        Path source = Files.createDirectories(folder.resolve("example" + number)).resolve("Example.java");
        Files.writeString(source, placed.apply(code));
        if (printed == null) {
            compile(source);
        } else {
            run(source, printed.lines().toList());
        }
    }

    static String tool(String name) {
        return Path.of(System.getProperty("java.home"), "bin", name).toString();
    }

    private void compile(Path source) throws Exception {
        List<String> words = new ArrayList<>(List.of(tool("javac")));
        words.addAll(path);
        words.addAll(List.of("-d", source.getParent().toString(), source.toString()));
        Process compiler = new ProcessBuilder(words).redirectErrorStream(true).start();
        String said = new String(compiler.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, compiler.waitFor(), said);
    }

    /** Starts a program of one file. */
    Process program(Path source, String... more) throws IOException {
        List<String> words = new ArrayList<>(List.of(tool("java")));
        words.addAll(path);
        words.addAll(List.of(more));
        words.add(source.toString());
        ProcessBuilder builder = new ProcessBuilder(words).redirectErrorStream(true);
        // As systemd does it for a service: local sockets are here.
        builder.environment().keySet().removeIf(name -> name.startsWith("KHZ_"));
        builder.environment().put("RUNTIME_DIRECTORY", runDirectory.toString());
        return builder.start();
    }

    private void run(Path source, List<String> expected) throws Exception {
        Process program = program(source, "--illegal-native-access=deny", "--enable-native-access=" + (path.contains("-p") ? "dev.kilohertz" : "ALL-UNNAMED"));
        try (BufferedReader lines = program.inputReader(StandardCharsets.UTF_8)) {
            for (String line : expected) {
                String printed = lines.readLine();
                if (printed == null || !form(line).matcher(printed).matches()) {
                    fail("in place of the form of '" + line + "' it printed '" + printed + "' " + lines.lines().limit(20).toList());
                }
            }
        } finally {
            // Streams have no end.
            program.destroyForcibly().waitFor();
        }
    }

    /** A line whose numbers may be others. */
    private static Pattern form(String line) {
        StringBuilder form = new StringBuilder();
        int at = 0;
        Matcher numbers = NUMBER.matcher(line);
        while (numbers.find()) {
            form.append(Pattern.quote(line.substring(at, numbers.start()))).append("[0-9][0-9.E]*");
            at = numbers.end();
        }
        return Pattern.compile(form.append(Pattern.quote(line.substring(at))).toString());
    }
}
