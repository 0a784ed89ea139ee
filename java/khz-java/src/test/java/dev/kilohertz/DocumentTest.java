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
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** Each example of docs/java.md is compiled, and run as a program with the module on its path; what it prints has the form that the page shows. */
class DocumentTest {
    private static final Path PAGE = Path.of("../../docs/java.md");
    private static final Pattern EXAMPLE = Pattern.compile("```java\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", Pattern.DOTALL);
    private static final Pattern NUMBER = Pattern.compile("[0-9][0-9.E]*");
    private static final int EXAMPLES = 7;

    @TempDir
    static Path folder;
    private static KhzProgram khz;

    @BeforeAll
    static void start() throws Exception {
        khz = KhzProgram.alone(folder);
        Client client = Client.connect(khz.door());
        Patience.until("there is a past", () -> {
            try (RangeStream past = client.range(Range.of("mem.total").from("-1min"))) {
                return past.next().isPresent();
            }
        });
    }

    @AfterAll
    static void end() {
        if (khz != null) {
            khz.close();
        }
    }

    @TestFactory
    Stream<DynamicTest> everyExampleDoesWhatThePageSays() throws IOException {
        Matcher matcher = EXAMPLE.matcher(Files.readString(PAGE));
        List<DynamicTest> tests = new ArrayList<>();
        while (matcher.find()) {
            String code = matcher.group(1);
            String printed = matcher.group(2);
            int number = tests.size() + 1;
            tests.add(DynamicTest.dynamicTest("example " + number, () -> check(number, code, printed)));
        }
        assertEquals(EXAMPLES, tests.size(), "examples of docs/java.md");
        return tests.stream();
    }

    private static void check(int number, String code, String printed) throws Exception {
        assertTrue(code.lines().count() <= 12, "an example has about ten lines");
        Path source = Files.createDirectories(folder.resolve("example" + number)).resolve("Example.java");
        Files.writeString(source, placed(code));
        if (printed == null) {
            compile(source);
        } else {
            run(source, printed.lines().toList());
        }
    }

    /** The example for the khz of this test: what the page calls local is elsewhere here. */
    private static String placed(String code) {
        return code.replace("Snapshot.local()", "Snapshot.open(java.nio.file.Path.of(\"" + khz.snapshot() + "\"))")
                .replace("http://hub:7070", khz.door());
    }

    private static String tool(String name) {
        return Path.of(System.getProperty("java.home"), "bin", name).toString();
    }

    private static void compile(Path source) throws Exception {
        Process compiler = new ProcessBuilder(tool("javac"), "-p", "target/classes", "--add-modules", "dev.kilohertz", "-d", source.getParent().toString(),
                source.toString()).redirectErrorStream(true).start();
        String said = new String(compiler.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, compiler.waitFor(), said);
    }

    private static Process program(Path source, String... more) throws IOException {
        List<String> words = new ArrayList<>(List.of(tool("java"), "-p", "target/classes", "--add-modules", "dev.kilohertz", "--illegal-native-access=deny"));
        words.addAll(List.of(more));
        words.add(source.toString());
        ProcessBuilder builder = new ProcessBuilder(words).redirectErrorStream(true);
        // As systemd does it for a service: local sockets are here.
        builder.environment().put("RUNTIME_DIRECTORY", khz.runDirectory().toString());
        return builder.start();
    }

    @Test
    void withoutNativeAccessAPublisherSaysWhichFlagIsMissing() throws Exception {
        assertTrue(printed("Publisher.local().close();").contains("start it with --enable-native-access=dev.kilohertz"));
    }

    @Test
    void theKhzOfThisMachineIsFound() throws Exception {
        String expected = Client.connect(khz.door()).now("mem.total").samples().getFirst().reading().toString();
        assertEquals(expected, printed("IO.println(Client.local().now(\"mem.total\").samples().getFirst().reading());").strip());
    }

    /** What a program of this statement prints. */
    private static String printed(String statement) throws Exception {
        Path source = Files.createTempDirectory(folder, "program").resolve("Example.java");
        Files.writeString(source, "import dev.kilohertz.*;\n\nvoid main() {\n    " + statement + "\n}\n");
        Process program = program(source);
        String printed = new String(program.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        program.waitFor();
        return printed;
    }

    private static void run(Path source, List<String> expected) throws Exception {
        Process program = program(source, "--enable-native-access=dev.kilohertz");
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
