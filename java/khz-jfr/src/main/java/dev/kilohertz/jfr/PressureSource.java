package dev.kilohertz.jfr;

import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.Snapshot;
import java.util.ArrayList;
import java.util.List;

/** Makes events of the pressure stall information, one for each resource. */
final class PressureSource extends Source {
    private static final List<String> RESOURCES = List.of("cpu", "memory", "io");
    private static final double PERCENT = 100;

    private List<Difference> stalls = List.of();

    PressureSource(LiveSnapshot node) {
        super(node);
    }

    @Override
    void read(Snapshot snapshot, boolean isRecorded) {
        if (stalls.isEmpty()) {
            List<Difference> rows = new ArrayList<>();
            for (String resource : RESOURCES) {
                String name = "pressure." + resource;
                rows.add(new Difference(snapshot.row(name + ".some.avg10", name + ".some.total", name + ".full.avg10", name + ".full.total")));
            }
            stalls = rows;
        }
        for (int i = 0; i < stalls.size(); i++) {
            Difference stall = stalls.get(i);
            // Kernels without PSI, or with it switched off, have no values.
            if (stall.read() && isRecorded && stall.latest(0).isPresent()) {
                commit(RESOURCES.get(i), stall);
            }
        }
    }

    private static void commit(String resource, Difference stall) {
        PressureEvent event = new PressureEvent();
        event.resource = resource;
        event.someAverage = (float) (stall.latest(0).doubleValue() / PERCENT);
        event.someStalled = stall.nanos(1);
        event.fullAverage = (float) (stall.latest(2).doubleValue() / PERCENT);
        event.fullStalled = stall.nanos(3);
        event.period = stall.period();
        event.commit();
    }
}
