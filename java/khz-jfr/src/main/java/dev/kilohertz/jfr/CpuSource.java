package dev.kilohertz.jfr;

import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.Snapshot;

/** Makes events of the time of all CPUs. */
final class CpuSource extends Source {
    private static final String[] MODES = {"cpu.all.user", "cpu.all.nice", "cpu.all.system", "cpu.all.idle", "cpu.all.iowait", "cpu.all.irq",
        "cpu.all.softirq", "cpu.all.steal"};

    private Difference times;

    CpuSource(LiveSnapshot node) {
        super(node);
    }

    @Override
    void read(Snapshot snapshot, boolean isRecorded) {
        if (times == null) {
            times = new Difference(snapshot.row(MODES));
        }
        double all = times.read() ? all() : 0;
        if (isRecorded && all > 0) {
            commit(all);
        }
    }

    /** The time of all modes. Old kernels do not have all of them. */
    private double all() {
        double all = 0;
        for (int i = 0; i < MODES.length; i++) {
            all += Double.isNaN(times.of(i)) ? 0 : times.of(i);
        }
        return all;
    }

    private void commit(double all) {
        CpuEvent event = new CpuEvent();
        event.user = share(0, all);
        event.nice = share(1, all);
        event.system = share(2, all);
        event.idle = share(3, all);
        event.iowait = share(4, all);
        event.interrupts = share(5, all) + share(6, all);
        event.steal = share(7, all);
        event.period = times.period();
        event.commit();
    }

    /** Idle and iowait may step back a little: then the share is unknown. */
    private float share(int mode, double all) {
        return (float) (times.increase(mode) / all);
    }
}
