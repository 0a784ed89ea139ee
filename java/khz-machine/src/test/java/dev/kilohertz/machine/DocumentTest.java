package dev.kilohertz.machine;

import dev.kilohertz.Examples;
import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** The examples of docs/java.md for khz-gather and khz-machine. They print the same with and without an agent. */
class DocumentTest {
    private static final String[] JARS = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")).split(File.pathSeparator);

    @TempDir
    static Path folder;

    @TestFactory
    Stream<DynamicTest> theGathererDoesWhatThePageSays() throws IOException {
        return examples("gather", List.of("-cp", String.join(File.pathSeparator, JARS)));
    }

    @TestFactory
    Stream<DynamicTest> theMachineDoesWhatThePageSays() throws IOException {
        return examples("machine", List.of("-cp", String.join(File.pathSeparator, JARS)));
    }

    /** The gatherer has no native access there, and does without. */
    @TestFactory
    Stream<DynamicTest> theMachineDoesItWithModulesToo() throws IOException {
        List<String> modules = Stream.of(JARS).filter(jar -> !jar.contains("junit") && !jar.contains("test")).toList();
        return examples("machine", List.of("-p", String.join(File.pathSeparator, modules), "--add-modules", "dev.kilohertz.machine"));
    }

    private static Stream<DynamicTest> examples(String library, List<String> path) throws IOException {
        return new Examples(folder.resolve(library + path.getFirst()), folder, path, code -> code).tests(library, 1);
    }
}
