package dev.kilohertz.jfr;

import dev.kilohertz.Examples;
import dev.kilohertz.KhzProgram;
import dev.kilohertz.Patience;
import dev.kilohertz.Snapshot;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** The examples of docs/java.md for this library, with its module on the path of the program. */
class DocumentTest {
    private static final int EXAMPLES = 1;
    private static final List<String> MODULES = List.of("-p", "target/classes:../khz-java/target/classes", "--add-modules", "dev.kilohertz.jfr");

    @TempDir
    static Path folder;
    private static KhzProgram khz;

    @BeforeAll
    static void start() throws Exception {
        khz = KhzProgram.alone(folder);
        try (Snapshot node = Snapshot.open(khz.snapshot())) {
            Patience.until("pressure was gathered", () -> node.series().stream().anyMatch(series -> series.name().equals("pressure.io.some.avg10")));
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
        return new Examples(folder, khz.runDirectory(), MODULES, DocumentTest::placed).tests("jfr", EXAMPLES);
    }

    private static String placed(String code) {
        return code.replace("KhzEvents.start()", "KhzEvents.start(java.nio.file.Path.of(\"" + khz.snapshot() + "\"))");
    }
}
