package dev.kilohertz.jfr;

import dev.kilohertz.LiveSnapshot;
import java.lang.System.Logger;
import java.time.Duration;

/**
 * Why there are no events of the machine: for a log, and as an event. A program with {@code -javaagent} knows nothing of khz, and can ask
 * nobody. A thread of its own logs, when there is something to log: loggers that are found before the main method begins would be others
 * than those that the program chooses.
 */
final class Problem implements Runnable, AutoCloseable {
    private static final Duration PAUSE = Duration.ofSeconds(5);

    private final LiveSnapshot node;
    private final Thread thread;
    private String last = "";
    private boolean isClosed;

    Problem(LiveSnapshot node) {
        this.node = node;
        this.thread = Thread.ofPlatform().name("khz-events").daemon().unstarted(this::follow);
    }

    /** Begins to log. */
    void start() {
        thread.start();
    }

    private void follow() {
        try {
            while (true) {
                log();
                Thread.sleep(PAUSE);
            }
        } catch (InterruptedException e) {
            // It was closed.
        }
    }

    /** Logs the problem if it is another one than at the last time. */
    synchronized void log() {
        if (isClosed) {
            return;
        }
        String problem = node.problem();
        // For how many seconds an agent is silent makes no other problem.
        String kind = problem.replaceAll("[0-9]+", "0");
        if (kind.equals(last)) {
            return;
        }
        last = kind;
        Logger log = System.getLogger(KhzEvents.class.getName());
        if (problem.isEmpty()) {
            log.log(Logger.Level.INFO, "khz-jfr: from now on events of the machine are recorded");
        } else {
            log.log(Logger.Level.WARNING, "khz-jfr: no events of the machine are recorded: " + problem);
        }
    }

    /** JFR calls this once in a period: makes an event if there is a problem. */
    @Override
    public void run() {
        String problem = node.problem();
        if (problem.isEmpty()) {
            return;
        }
        ProblemEvent event = new ProblemEvent();
        event.problem = problem;
        event.commit();
    }

    /** Ends logging, before the snapshot is closed: that is no problem. */
    @Override
    public void close() {
        synchronized (this) {
            isClosed = true;
        }
        thread.interrupt();
    }
}
