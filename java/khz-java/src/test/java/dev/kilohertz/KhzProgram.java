package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.abort;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A running {@code khz} of the tests, at free ports and in a folder of its own. KHZ_PROGRAM names the program. */
public final class KhzProgram implements AutoCloseable {
    private static final Pattern DOOR = Pattern.compile("at (https?://127\\.0\\.0\\.1:[0-9]+)/");
    private static final Pattern LINK = Pattern.compile("report to (127\\.0\\.0\\.1:[0-9]+)");
    private static boolean isSkipSaid;

    private final Process process;
    private final Path folder;
    private final String said;

    private KhzProgram(Process process, Path folder, String said) {
        this.process = process;
        this.folder = folder;
        this.said = said;
    }

    /** The program. Without it the test is skipped, or fails where every test is required. */
    public static String program() {
        String program = System.getenv("KHZ_PROGRAM");
        if (program != null && Files.isExecutable(Path.of(program))) {
            return program;
        }
        String why = "KHZ_PROGRAM does not name a khz to run: tests with a real khz are skipped (cargo xtask test sets it)";
        if (System.getenv("KHZ_TEST_ALL") != null) {
            return fail(why);
        }
        if (!isSkipSaid) {
            isSkipSaid = true;
            System.err.println(why);
        }
        return abort(why);
    }

    /** A khz that gathers and answers alone. */
    public static KhzProgram alone(Path folder, String... more) throws IOException {
        return start(folder, true, words(List.of("--node", "n1", "--listen", "127.0.0.1:0"), more));
    }

    /** A hub without a store, unless {@code more} has one. */
    static KhzProgram hub(Path folder, String... more) throws IOException {
        return start(folder, true, words(List.of("hub", "--node", "hub1", "--link-listen", "127.0.0.1:0", "--insecure"), more));
    }

    /** An agent of a hub in the same folder. */
    static KhzProgram agent(Path folder, String node, KhzProgram hub, String... more) throws IOException {
        List<String> fixed = List.of("agent", "--node", node, "--hub", hub.link(), "--listen", "127.0.0.1:0", "--base-rate", "10Hz", "--ring", "4MiB");
        return start(folder, false, words(fixed, more));
    }

    private static List<String> words(List<String> fixed, String... more) {
        List<String> words = new ArrayList<>(fixed);
        words.addAll(List.of(more));
        return words;
    }

    private static KhzProgram start(Path folder, boolean isAnnounced, List<String> words) throws IOException {
        ProcessBuilder builder = prepared(folder, words);
        builder.redirectError(new File(folder.toFile(), "errors"));
        Process process = builder.start();
        String said = "";
        if (isAnnounced) {
            BufferedReader lines = process.inputReader(StandardCharsets.UTF_8);
            said = lines.readLine();
            if (said == null) {
                fail("khz did not start: " + Files.readString(folder.resolve("errors")));
            }
        }
        return new KhzProgram(process, folder, said);
    }

    private static ProcessBuilder prepared(Path folder, List<String> words) {
        List<String> command = new ArrayList<>(List.of(program()));
        command.addAll(words);
        ProcessBuilder builder = new ProcessBuilder(command);
        // Without the settings of the user who runs the tests.
        builder.environment().keySet().removeIf(name -> name.startsWith("KHZ_"));
        builder.environment().put("XDG_CONFIG_HOME", "/nonexistent");
        builder.environment().put("KHZ_RING_DIR", folder.resolve("ring").toString());
        builder.environment().put("KHZ_RUN_DIR", folder.resolve("run").toString());
        builder.environment().put("KHZ_STATE_DIR", "none");
        builder.environment().put("KHZ_TEXT_LISTEN", "none");
        return builder;
    }

    /** Runs a command of khz beside this one, and returns what it prints. */
    public String run(String... words) throws Exception {
        Process command = prepared(folder, List.of(words)).redirectErrorStream(true).start();
        String printed = new String(command.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, command.waitFor(), printed);
        return printed;
    }

    /** The address of its HTTP door. */
    public String door() {
        return found(DOOR);
    }

    /** The address of a hub's link door. */
    String link() {
        return found(LINK);
    }

    private String found(Pattern pattern) {
        Matcher matcher = pattern.matcher(said);
        return matcher.find() ? matcher.group(1) : fail("khz said: " + said);
    }

    public Path runDirectory() {
        return folder.resolve("run");
    }

    public Path snapshot() {
        return folder.resolve("ring/n1/snapshot");
    }

    /** Ends it in good order. */
    public void end() throws InterruptedException {
        process.destroy();
        if (!process.waitFor(1, TimeUnit.MINUTES)) {
            fail("khz did not end");
        }
    }

    /** Ends it at once. */
    public void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    @Override
    public void close() {
        process.destroyForcibly();
        try {
            process.waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
