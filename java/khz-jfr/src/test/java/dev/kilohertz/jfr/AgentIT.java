package dev.kilohertz.jfr;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kilohertz.KhzProgram;
import dev.kilohertz.Patience;
import java.io.File;
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
    private static final List<String> TYPES = List.of("khz.Cpu", "khz.Pressure", "khz.RunQueue", "khz.Network");
    /** Ends when its input does. */
    private static final String PROGRAM = """
            void main() throws Exception {
                IO.println("began");
                System.in.readAllBytes();
                IO.println("ended");
            }
            """;

    @TempDir
    Path folder;

    private Process start(String agent) throws Exception {
        Path source = folder.resolve("Program.java");
        Files.writeString(source, PROGRAM);
        Path settings = folder.resolve("khz.jfc");
        try (ZipFile jar = new ZipFile(JAR)) {
            Files.write(settings, jar.getInputStream(jar.getEntry("khz.jfc")).readAllBytes());
        }
        return new ProcessBuilder(Recorded.tool("java"), agent, "-XX:StartFlightRecording:settings=default,settings=" + settings, source.toString())
                .redirectErrorStream(true).redirectOutput(said()).start();
    }

    private File said() {
        return folder.resolve("said").toFile();
    }

    /** What a program has recorded until now. */
    private Recorded dumped(Process program) throws Exception {
        Path file = Files.createTempFile(folder, "program", ".jfr");
        command(program, "JFR.dump", "filename=" + file);
        return new Recorded(file);
    }

    /** Gives a running JVM a command, and returns what it answers. */
    private static String command(Process program, String... words) throws Exception {
        List<String> all = new ArrayList<>(List.of(Recorded.tool("jcmd"), Long.toString(program.pid())));
        all.addAll(List.of(words));
        Process jcmd = new ProcessBuilder(all).redirectErrorStream(true).start();
        String printed = new String(jcmd.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, jcmd.waitFor(), printed);
        return printed;
    }

    /** Lets a program end, and checks that it did as if there were no agent. */
    private void end(Process program) throws Exception {
        program.getOutputStream().close();
        assertEquals(0, program.waitFor());
        List<String> lines = Files.readAllLines(said().toPath());
        assertEquals(List.of("began", "ended"), lines.stream().filter(List.of("began", "ended")::contains).toList(), lines.toString());
    }

    private void awaitBeginning(Process program) throws Exception {
        Patience.until("the program has begun", () -> {
            assertTrue(program.isAlive(), () -> "it ended");
            return Files.readString(said().toPath()).contains("began");
        });
    }

    private void awaitEvents(Process program) throws Exception {
        Patience.until("there are events of each type", () -> {
            Recorded recorded = dumped(program);
            for (String type : TYPES) {
                if (recorded.json(type, "startTime").isEmpty()) {
                    return false;
                }
            }
            return true;
        });
    }

    @Test
    void theAgentIsLoadedIntoAProgramThatRuns() throws Exception {
        try (KhzProgram khz = KhzProgram.alone(folder)) {
            Process program = start("-XX:+EnableDynamicAgentLoading");
            try {
                awaitBeginning(program);
                command(program, "JVMTI.agent_load", JAR, khz.snapshot().toString());
                awaitEvents(program);
                end(program);
            } finally {
                program.destroyForcibly();
            }
        }
    }

    @Test
    void aProgramWithTheAgentRecordsTheMachine() throws Exception {
        try (KhzProgram khz = KhzProgram.alone(folder)) {
            Process program = start("-javaagent:" + JAR + "=" + khz.snapshot());
            try {
                awaitBeginning(program);
                awaitEvents(program);
                // The settings of the JDK are there too.
                assertFalse(dumped(program).events("jdk.OSInformation").isEmpty());
                end(program);
            } finally {
                program.destroyForcibly();
            }
        }
    }

    @Test
    void anAgentWithoutAKhzKeepsNoProgramFromRunning() throws Exception {
        Process program = start("-javaagent:" + JAR + "=" + folder.resolve("nothing"));
        try {
            awaitBeginning(program);
            Patience.until("JFR has asked for events of each second", () -> dumped(program).events("jdk.CPULoad").size() >= 3);
            for (String type : TYPES) {
                assertTrue(dumped(program).events(type).isEmpty(), type);
            }
            end(program);
            String why = "khz-jfr: no events of the machine are recorded: there is no snapshot " + folder.resolve("nothing");
            List<String> lines = Files.readAllLines(said().toPath());
            assertEquals(1, lines.stream().filter(line -> line.contains(why)).count(), "it is said once: " + lines);
        } finally {
            program.destroyForcibly();
        }
    }
}
