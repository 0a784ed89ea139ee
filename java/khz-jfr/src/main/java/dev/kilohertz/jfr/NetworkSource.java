package dev.kilohertz.jfr;

import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.Series;
import dev.kilohertz.SeriesName;
import dev.kilohertz.Snapshot;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/** Makes events of the network, one for each interface that is there. */
final class NetworkSource extends Source {
    /** More interfaces than this are recorded by nobody: those that came first count. */
    static final int INTERFACES_MAX = 1000;
    private static final String RX_BYTES = "net.rx_bytes";
    private static final String BEGIN = RX_BYTES + "[";

    private final Map<String, Difference> interfaces = new HashMap<>();
    private List<Series> known = List.of();

    NetworkSource(LiveSnapshot node) {
        super(node);
    }

    @Override
    void read(Snapshot snapshot, boolean isRecorded) {
        takeNew(snapshot);
        Iterator<Map.Entry<String, Difference>> each = interfaces.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry<String, Difference> one = each.next();
            Difference traffic = one.getValue();
            if (traffic.read() && isRecorded && isKnown(traffic)) {
                commit(one.getKey(), traffic);
            }
        }
    }

    /** Interfaces may come at any time; the list has them in the order in which they came. */
    private void takeNew(Snapshot snapshot) {
        List<Series> series = snapshot.series();
        if (series.equals(known)) {
            return;
        }
        for (Series one : series) {
            if (one.name().startsWith(BEGIN) && interfaces.size() < INTERFACES_MAX) {
                String device = SeriesName.parse(one.name()).instance();
                interfaces.computeIfAbsent(device, d -> new Difference(snapshot.row(name(RX_BYTES, d), name("net.rx_packets", d), name("net.tx_bytes", d),
                        name("net.tx_packets", d))));
            }
        }
        known = series;
    }

    private static String name(String metric, String device) {
        return SeriesName.of(metric, device).toString();
    }

    /** False also for an interface that is gone, or was made again. */
    private static boolean isKnown(Difference traffic) {
        double sum = 0;
        for (int i = 0; i < 4; i++) {
            sum += traffic.increase(i);
        }
        return !Double.isNaN(sum);
    }

    private static void commit(String device, Difference traffic) {
        NetworkEvent event = new NetworkEvent();
        event.device = device;
        event.received = traffic.rate(0);
        event.packetsReceived = traffic.rate(1);
        event.sent = traffic.rate(2);
        event.packetsSent = traffic.rate(3);
        event.period = traffic.period();
        event.commit();
    }
}
