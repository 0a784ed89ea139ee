package dev.kilohertz.jfr;

import java.nio.file.Path;

/**
 * Starts the events of the machine in a program that knows nothing of them: {@code java -javaagent:khz-jfr.jar}. With
 * {@code -javaagent:khz-jfr.jar=PATH} those of the snapshot at a path. It never keeps the program from starting.
 * Why nothing is recorded is logged, as {@link KhzEvents} says.
 */
public final class KhzAgent {
    private KhzAgent() {}

    /**
     * The JVM calls this before the program's main method.
     *
     * @param path the snapshot, as for {@link KhzEvents#start(Path)}; null or empty: that of this machine
     */
    public static void premain(String path) {
        try {
            if (path == null || path.isEmpty()) {
                KhzEvents.start();
            } else {
                KhzEvents.start(Path.of(path));
            }
        } catch (RuntimeException | LinkageError e) {
            System.err.println("khz-jfr: no events of the machine are recorded: " + e);
        }
    }

    /**
     * The JVM calls this when the agent is loaded into a running program: {@code jcmd PID JVMTI.agent_load /DIR/khz-jfr.jar}, or
     * {@code jcmd PID JVMTI.agent_load /DIR/khz-jfr.jar PATH}, with a space between them.
     *
     * @param path as for {@link #premain}
     */
    public static void agentmain(String path) {
        premain(path);
    }
}
