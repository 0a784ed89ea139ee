package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** The examples of docs/java.md for this library, with the module on the path of the program. */
class DocumentTest {
    private static final int EXAMPLES = 7;
    private static final List<String> MODULE = List.of("-p", "target/classes", "--add-modules", "dev.kilohertz");

    @TempDir
    static Path folder;
    private static KhzProgram khz;
    private static Examples examples;

    @BeforeAll
    static void start() throws Exception {
        khz = KhzProgram.alone(folder);
        examples = new Examples(folder, khz.runDirectory(), MODULE, DocumentTest::placed);
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
        return examples.tests("", EXAMPLES);
    }

    private static String placed(String code) {
        return code.replace("Snapshot.local()", "Snapshot.open(java.nio.file.Path.of(\"" + khz.snapshot() + "\"))")
                .replace("http://hub:7070", khz.door());
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

    /** With the variables that a khz takes its directories from, a program finds it without any path. */
    @Test
    void theVariablesOfKhzAreThoseOfPrograms() throws Exception {
        Path source = source("try (Snapshot node = Snapshot.local(); Publisher _ = Publisher.local()) { IO.println(node.node() + Client.local().nodes().getFirst().name()); }");
        ProcessBuilder builder = new ProcessBuilder(Examples.tool("java"), "-p", "target/classes", "--add-modules", "dev.kilohertz",
                "--enable-native-access=dev.kilohertz", source.toString()).redirectErrorStream(true);
        builder.environment().keySet().removeIf(name -> name.startsWith("KHZ_"));
        builder.environment().put("RUNTIME_DIRECTORY", "/nonexistent");
        builder.environment().put("KHZ_RUN_DIR", khz.runDirectory().toString());
        builder.environment().put("KHZ_RING_DIR", folder.resolve("ring").toString());
        builder.environment().put("KHZ_NODE", "n1");
        Process program = builder.start();
        assertEquals("n1n1", new String(program.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip());
        program.waitFor();
    }

    /** What a program of this statement prints. */
    private static String printed(String statement) throws Exception {
        Process program = examples.program(source(statement), "--illegal-native-access=deny");
        String printed = new String(program.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        program.waitFor();
        return printed;
    }

    private static Path source(String statement) throws IOException {
        Path source = Files.createTempDirectory(folder, "program").resolve("Example.java");
        return Files.writeString(source, "import dev.kilohertz.*;\n\nvoid main() {\n    " + statement + "\n}\n");
    }
}
