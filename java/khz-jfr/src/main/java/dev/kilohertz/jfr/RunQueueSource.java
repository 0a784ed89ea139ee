package dev.kilohertz.jfr;

import dev.kilohertz.Latest;
import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.Snapshot;

/** Makes events of the tasks that run or wait. */
final class RunQueueSource extends Source {
    private final Latest load = new Latest();
    private final Latest running = new Latest();
    private final Latest blocked = new Latest();
    private Snapshot.Handle[] handles;

    RunQueueSource(LiveSnapshot node) {
        super(node);
    }

    @Override
    void read(Snapshot snapshot, boolean isRecorded) {
        if (handles == null) {
            handles = new Snapshot.Handle[] {snapshot.handle("load.1m"), snapshot.handle("kernel.procs_running"), snapshot.handle("kernel.procs_blocked")};
        }
        boolean isKnown = snapshot.read(handles[0], load) & snapshot.read(handles[1], running) & snapshot.read(handles[2], blocked);
        if (isRecorded && isKnown) {
            RunQueueEvent event = new RunQueueEvent();
            event.load1m = load.doubleValue();
            event.running = running.unscaled();
            event.blocked = blocked.unscaled();
            event.commit();
        }
    }
}
