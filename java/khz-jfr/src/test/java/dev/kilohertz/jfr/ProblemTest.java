package dev.kilohertz.jfr;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.PageFile;
import dev.kilohertz.Patience;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What is logged where there are no events. */
class ProblemTest {
    @TempDir
    Path folder;
    private final Logger logger = Logger.getLogger(KhzEvents.class.getName());
    private final List<String> lines = new CopyOnWriteArrayList<>();
    private final Handler handler = new Handler() {
        @Override
        public void publish(LogRecord line) {
            lines.add(line.getLevel() + " " + line.getMessage());
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    };

    @BeforeEach
    void listen() {
        logger.addHandler(handler);
        logger.setUseParentHandlers(false);
    }

    @AfterEach
    void leave() {
        logger.removeHandler(handler);
        logger.setUseParentHandlers(true);
    }

    @Test
    void aProblemIsLoggedOnceUntilItIsAnother() throws Exception {
        LiveSnapshot node = LiveSnapshot.at(folder, Duration.ofDays(100_000));
        Problem problem = new Problem(node);
        problem.log();
        problem.log();
        assertEquals(1, lines.size(), lines.toString());
        assertTrue(lines.getFirst().startsWith("WARNING khz-jfr: no events of the machine are recorded: there is no snapshot"), lines.toString());
        try (PageFile file = PageFile.create(folder.resolve("snapshot"))) {
            file.row(file.add("mem.free", "bytes", 1, 1, 0, 0), 7, 0, 1, 0);
            Patience.until("the agent is found", () -> node.problem().isEmpty());
            problem.log();
            problem.log();
            assertEquals("INFO khz-jfr: from now on events of the machine are recorded", lines.getLast());
            assertEquals(2, lines.size(), lines.toString());
            file.end();
            Patience.until("its end is seen", () -> !node.problem().isEmpty());
            problem.log();
            problem.log();
            assertEquals(3, lines.size(), lines.toString());
            assertTrue(lines.getLast().contains("has ended"), lines.toString());
        }
        problem.close();
        node.close();
        problem.log();
        assertEquals(3, lines.size(), "that it was closed is no problem");
    }

    @Test
    void howLongAnAgentIsSilentMakesNoOtherProblem() throws Exception {
        // The rows of this file are of 2001.
        try (PageFile file = PageFile.create(folder.resolve("snapshot")); LiveSnapshot node = LiveSnapshot.at(folder); Problem problem = new Problem(node)) {
            file.row(file.add("mem.free", "bytes", 1, 1, 0, 0), 7, 0, 1, 0);
            String first = node.problem();
            problem.log();
            Patience.until("the sentence has another number", () -> !node.problem().equals(first));
            problem.log();
            assertEquals(1, lines.size(), lines.toString());
        }
    }
}
