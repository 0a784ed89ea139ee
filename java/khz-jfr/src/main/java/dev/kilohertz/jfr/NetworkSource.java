package dev.kilohertz.jfr;

import dev.kilohertz.Latest;
import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.Series;
import dev.kilohertz.SeriesName;
import dev.kilohertz.Snapshot;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;

/** Makes events of the network, one for each interface that is there. */
final class NetworkSource extends Source {
    /** More interfaces at a time than this are not recorded: those that came first are. */
    static final int INTERFACES_MAX = 1000;
    private static final String BEGIN = "net.rx_bytes[";

    private final Map<String, Difference> interfaces = new HashMap<>();
    private final Latest latest = new Latest();

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
                commit(SeriesName.parse(one.getKey()).instance(), traffic);
            }
            if (!traffic.latest(0).isPresent()) {
                // It is gone: containers make and remove many.
                each.remove();
            }
        }
    }

    /** Interfaces may come at any time. A node lists also those that are gone. */
    private void takeNew(Snapshot snapshot) {
        for (Series series : snapshot.series()) {
            String name = series.name();
            if (name.startsWith(BEGIN) && !interfaces.containsKey(name) && interfaces.size() < INTERFACES_MAX
                    && snapshot.read(snapshot.handle(name), latest)) {
                String device = SeriesName.parse(name).instance();
                interfaces.put(name, new Difference(snapshot.row(name, name("net.rx_packets", device), name("net.tx_bytes", device),
                        name("net.tx_packets", device))));
            }
        }
    }

    private static String name(String metric, String device) {
        return SeriesName.of(metric, device).toString();
    }

    /** False for an interface that was made again: it counts from 0. */
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
