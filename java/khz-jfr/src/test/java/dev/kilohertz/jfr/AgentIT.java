package dev.kilohertz.jfr;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kilohertz.KhzProgram;
import dev.kilohertz.Patience;
import dev.kilohertz.Snapshot;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.ZipFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The jar for {@code -javaagent}, alone, in a program that knows nothing of khz. */
class AgentIT {
    private static final String JAR = System.getProperty("khz.agent");
    private static final String PROGRAM = """
            void main(String[] words) throws Exception {
                Thread.sleep(Long.parseLong(words[0]));
                IO.println("ended");
            }
            """;

    @TempDir
    Path folder;

    private String run(String agent, Path recording, int millis) throws Exception {
        Path source = folder.resolve("Program.java");
        Files.writeString(source, PROGRAM);
        Path settings = folder.resolve("khz.jfc");
        try (ZipFile jar = new ZipFile(JAR)) {
            Files.write(settings, jar.getInputStream(jar.getEntry("khz.jfc")).readAllBytes());
        }
        List<String> words = new ArrayList<>(List.of(Recorded.tool("java"), agent, "-Xlog:jfr*=error:stderr", "-Xlog:disable", "-XX:StartFlightRecording:settings=default,settings="
                + settings + ",filename=" + recording, source.toString(), Integer.toString(millis)));
        Process program = new ProcessBuilder(words).redirectErrorStream(true).start();
        String said = new String(program.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, program.waitFor(), said);
        return said;
    }

    @Test
    void aProgramWithTheAgentRecordsTheMachine() throws Exception {
        try (KhzProgram khz = KhzProgram.alone(folder); Snapshot node = Snapshot.open(khz.snapshot())) {
            Patience.until("pressure was gathered", () -> node.series().stream().anyMatch(series -> series.name().equals("pressure.io.some.total")));
            Path file = folder.resolve("program.jfr");
            // The first event comes after a second or two.
            assertTrue(run("-javaagent:" + JAR + "=" + khz.snapshot(), file, 5000).contains("ended"));
            Recorded recorded = new Recorded(file);
            for (String type : List.of("khz.Cpu", "khz.Pressure", "khz.RunQueue", "khz.Network")) {
                assertFalse(recorded.json(type, "startTime").isEmpty(), type);
            }
            // The settings of the JDK are there too.
            assertFalse(recorded.events("jdk.GCConfiguration").isEmpty());
        }
    }

    @Test
    void anAgentWithoutAKhzKeepsNoProgramFromRunning() throws Exception {
        Path file = folder.resolve("program.jfr");
        assertTrue(run("-javaagent:" + JAR + "=" + folder.resolve("nothing"), file, 2500).contains("ended"));
        assertTrue(new Recorded(file).events("khz.Cpu").isEmpty());
    }
}
