package dev.kilohertz.micrometer;

import dev.kilohertz.Examples;
import dev.kilohertz.KhzProgram;
import dev.kilohertz.Patience;
import dev.kilohertz.Snapshot;
import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** The examples of docs/java.md for this library, with everything on the class path, as most programs with Micrometer have it, and with modules. */
class DocumentTest {
    private static final int EXAMPLES = 2;
    private static final String[] JARS = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")).split(File.pathSeparator);

    @TempDir
    static Path folder;
    private static KhzProgram khz;

    @BeforeAll
    static void start() throws Exception {
        khz = KhzProgram.alone(folder);
        try (Snapshot node = Snapshot.open(khz.snapshot())) {
            Patience.until("disks and pressure were gathered", () -> node.series().stream().anyMatch(series -> series.name().startsWith("disk."))
                    && node.series().stream().anyMatch(series -> series.name().equals("pressure.memory.some.avg10")));
        }
    }

    @AfterAll
    static void end() {
        if (khz != null) {
            khz.close();
        }
    }

    @TestFactory
    Stream<DynamicTest> everyExampleDoesWhatThePageSays() throws IOException {
        return examples("class path", List.of("-cp", String.join(File.pathSeparator, JARS)));
    }

    @TestFactory
    Stream<DynamicTest> everyExampleDoesItWithModulesToo() throws IOException {
        // Tests and their tools are no modules.
        List<String> modules = Stream.of(JARS).filter(jar -> !jar.contains("junit") && !jar.contains("test")).toList();
        return examples("modules", List.of("-p", String.join(File.pathSeparator, modules), "--add-modules", "dev.kilohertz.micrometer,ALL-MODULE-PATH"));
    }

    private static Stream<DynamicTest> examples(String how, List<String> path) throws IOException {
        return new Examples(folder.resolve(how), khz.runDirectory(), path, DocumentTest::placed).tests("micrometer", EXAMPLES);
    }

    private static String placed(String code) {
        String there = "snapshot(java.nio.file.Path.of(\"" + khz.snapshot() + "\"))";
        return code.replace("KhzMetrics.local()", "KhzMetrics.builder()." + there + ".build()")
                .replace("KhzMetrics.builder().series", "KhzMetrics.builder()." + there + ".series");
    }
}
