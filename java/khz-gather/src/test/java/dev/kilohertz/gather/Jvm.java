package dev.kilohertz.gather;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** Runs {@link LiveProgram} or another program in a JVM of its own, with the packaged jar. */
final class Jvm {
    private static final long SECONDS_MAX = 120;

    /** What a JVM printed. */
    record Output(int code, String out, String err) {
    }

    private Jvm() {
    }

    static String jar() {
        return System.getProperty("khz.gather.jar");
    }

    private static String tests() {
        return System.getProperty("khz.gather.tests");
    }

    /** Runs it on this JDK, on the class path. */
    static Output onClassPath(List<String> options, String... arguments) throws IOException, InterruptedException {
        return onClassPath(LiveProgram.class, options, arguments);
    }

    /** The same for another program. */
    static Output onClassPath(Class<?> program, List<String> options, String... arguments)
            throws IOException, InterruptedException {
        return run(Path.of(System.getProperty("java.home")), classPath(program, options), arguments);
    }

    /** Runs it on this JDK, with the gatherer as a module. */
    static Output asModule(List<String> options, String... arguments) throws IOException, InterruptedException {
        List<String> all = new ArrayList<>(options);
        all.addAll(List.of("-p", jar(), "--patch-module", "dev.kilohertz.gather=" + tests(), "-m",
                "dev.kilohertz.gather/" + LiveProgram.class.getName()));
        return run(Path.of(System.getProperty("java.home")), all, arguments);
    }

    /** Runs it on another JDK, on the class path. */
    static Output on(Path javaHome, String... arguments) throws IOException, InterruptedException {
        return run(javaHome, classPath(LiveProgram.class, List.of()), arguments);
    }

    /** Runs another program on this JDK, as the last words of a command. */
    static Output inside(List<String> command, Class<?> program) throws IOException, InterruptedException {
        List<String> all = new ArrayList<>(command);
        all.addAll(List.of(Path.of(System.getProperty("java.home"), "bin/java").toString(),
                "--enable-native-access=ALL-UNNAMED", "-cp", jar() + ":" + tests(), program.getName()));
        return run(all);
    }

    private static List<String> classPath(Class<?> program, List<String> options) {
        List<String> all = new ArrayList<>(options);
        all.addAll(List.of("-cp", jar() + ":" + tests(), program.getName()));
        return all;
    }

    private static Output run(Path javaHome, List<String> options, String... arguments)
            throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(javaHome.resolve("bin/java").toString()));
        command.addAll(options);
        command.addAll(List.of(arguments));
        return run(command);
    }

    private static Output run(List<String> command) throws IOException, InterruptedException {
        Path out = Files.createTempFile("khz-gather", ".out");
        Path err = Files.createTempFile("khz-gather", ".err");
        try {
            Process process = new ProcessBuilder(command).redirectOutput(out.toFile()).redirectError(err.toFile()).start();
            if (!process.waitFor(SECONDS_MAX, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new IllegalStateException(command + " still runs after " + SECONDS_MAX + " s");
            }
            return new Output(process.exitValue(), Files.readString(out, StandardCharsets.UTF_8).trim(),
                    Files.readString(err, StandardCharsets.UTF_8).trim());
        } finally {
            Files.delete(out);
            Files.delete(err);
        }
    }

    /** A JDK 17 on this machine: that of {@code KHZ_JAVA_17}, or one in the usual directory. */
    static Optional<Path> jdk17() throws IOException {
        String chosen = System.getenv("KHZ_JAVA_17");
        if (chosen != null) {
            return Optional.of(Path.of(chosen));
        }
        Path usual = Path.of("/usr/lib/jvm");
        if (!Files.isDirectory(usual)) {
            return Optional.empty();
        }
        try (Stream<Path> homes = Files.list(usual)) {
            return homes.filter(home -> home.getFileName().toString().contains("17")
                    && Files.isExecutable(home.resolve("bin/java"))).findFirst();
        }
    }
}
