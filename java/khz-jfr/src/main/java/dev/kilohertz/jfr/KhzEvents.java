package dev.kilohertz.jfr;

import dev.kilohertz.LiveSnapshot;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import jdk.jfr.Event;
import jdk.jfr.FlightRecorder;
import jdk.jfr.FlightRecorderListener;
import jdk.jfr.Recording;
import jdk.jfr.RecordingState;

/**
 * Periodic events of the machine for the JDK Flight Recorder: every recording of this JVM has them, so that JDK Mission Control
 * shows pauses of the collector over the pressure of the machine.
 *
 * <pre>{@code
 * KhzEvents.start();
 * }</pre>
 *
 * <table>
 * <caption>The events, in the category Kilohertz</caption>
 * <tr><th>name</th><th>has</th></tr>
 * <tr><td>{@code khz.Cpu}</td><td>shares of user, nice, system, idle, iowait, interrupts and steal since the last event</td></tr>
 * <tr><td>{@code khz.Pressure}</td><td>for cpu, memory and io: the averages over 10 s, and the stalled time since the last event</td></tr>
 * <tr><td>{@code khz.RunQueue}</td><td>load, running and blocked tasks</td></tr>
 * <tr><td>{@code khz.Network}</td><td>for each interface: bytes and packets a second since the last event</td></tr>
 * <tr><td>{@code khz.Problem}</td><td>why there are none of the others; every 10 s</td></tr>
 * </table>
 *
 * <p>Each of the first four has a period of one second, unless the settings of a recording say otherwise: khz.jfc in this jar is an example. A period
 * costs a few reads of shared memory. While no agent runs, or a number is unknown, there is no event: never one with 0. When the
 * agent is back, so are the events. {@link #problem} says why there are none, and so does a warning of the logger with the name of this class
 * ({@link System#getLogger}), at the start and whenever the problem is another one.
 */
public final class KhzEvents implements AutoCloseable {
    private static KhzEvents started;

    private final Path path;
    private final LiveSnapshot node;
    private final Map<Class<? extends Event>, Source> sources;
    private final Problem problem;
    private final FlightRecorderListener beginnings = new Beginnings();

    private KhzEvents(Path path) {
        this.path = path;
        node = path == null ? LiveSnapshot.local() : LiveSnapshot.at(path);
        sources = Map.of(CpuEvent.class, new CpuSource(node), PressureEvent.class, new PressureSource(node), RunQueueEvent.class,
                new RunQueueSource(node), NetworkEvent.class, new NetworkSource(node));
        problem = new Problem(node);
    }

    /**
     * Starts the events of this machine. If they were started before, for example by the agent, nothing changes.
     *
     * @return what ends them
     * @throws IllegalStateException events of another snapshot were started before
     */
    public static KhzEvents start() {
        return startOnce(null);
    }

    /**
     * Starts the events of another snapshot.
     *
     * @param path as for {@link dev.kilohertz.Snapshot#open}
     * @return what ends them
     * @throws IllegalStateException events of another snapshot were started before
     */
    public static KhzEvents start(Path path) {
        return startOnce(Objects.requireNonNull(path, "path"));
    }

    private static synchronized KhzEvents startOnce(Path path) {
        if (started == null) {
            KhzEvents events = new KhzEvents(path);
            events.addHooks();
            started = events;
        } else if (!Objects.equals(started.path, path)) {
            throw new IllegalStateException("the events of " + place(started.path) + " are started: close them before those of " + place(path)
                    + ", or a recording would mix two machines");
        }
        return started;
    }

    private static String place(Path path) {
        return path == null ? "this machine" : path.toString();
    }

    /**
     * Why there are no events.
     *
     * @return a sentence that says what to do; empty if an agent runs
     */
    public String problem() {
        return node.problem();
    }

    /** Ends the events. */
    @Override
    public void close() {
        synchronized (KhzEvents.class) {
            if (started != this) {
                return;
            }
            started = null;
        }
        FlightRecorder.removeListener(beginnings);
        sources.values().forEach(FlightRecorder::removePeriodicEvent);
        FlightRecorder.removePeriodicEvent(problem);
        problem.close();
        node.close();
    }

    private void addHooks() {
        begin();
        FlightRecorder.addListener(beginnings);
        sources.forEach(FlightRecorder::addPeriodicEvent);
        FlightRecorder.addPeriodicEvent(ProblemEvent.class, problem);
        problem.start();
    }

    private void begin() {
        sources.values().forEach(Source::begin);
    }

    /** The first events of a recording count from its beginning, and not from the last event of an earlier recording. */
    private final class Beginnings implements FlightRecorderListener {
        @Override
        public void recordingStateChanged(Recording recording) {
            if (recording.getState() == RecordingState.RUNNING && isAlone()) {
                begin();
            }
        }

        /** A recording that runs already keeps its counts. */
        private static boolean isAlone() {
            List<Recording> all = FlightRecorder.getFlightRecorder().getRecordings();
            return all.stream().filter(one -> one.getState() == RecordingState.RUNNING).count() == 1;
        }
    }
}
