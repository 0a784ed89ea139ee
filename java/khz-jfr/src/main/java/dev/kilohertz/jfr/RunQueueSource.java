package dev.kilohertz.jfr;

import dev.kilohertz.Latest;
import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.Snapshot;

/** Makes events of the tasks that run or wait. Without a new reading of the kernel it makes none. */
final class RunQueueSource extends Source {
    private final Latest load = new Latest();
    private final Latest running = new Latest();
    private final Latest blocked = new Latest();
    private Snapshot.Handle[] handles;
    private long beforeNanos;

    RunQueueSource(LiveSnapshot node) {
        super(node);
    }

    @Override
    void read(Snapshot snapshot, boolean isRecorded) {
        if (handles == null) {
            handles = new Snapshot.Handle[] {snapshot.handle("load.1m"), snapshot.handle("kernel.procs_running"), snapshot.handle("kernel.procs_blocked")};
        }
        boolean isKnown = snapshot.read(handles[0], load) & snapshot.read(handles[1], running) & snapshot.read(handles[2], blocked);
        // The load and the tasks come from two files of the kernel, which are not read at the same times.
        long now = Math.max(load.bootNanos(), Math.max(running.bootNanos(), blocked.bootNanos()));
        boolean isNew = now != beforeNanos;
        beforeNanos = now;
        // An agent that was killed leaves its last numbers: an event with them would say that they are those of now.
        if (isRecorded && isKnown && isNew) {
            RunQueueEvent event = new RunQueueEvent();
            event.load1m = load.doubleValue();
            event.running = running.unscaled();
            event.blocked = blocked.unscaled();
            event.commit();
        }
    }
}
