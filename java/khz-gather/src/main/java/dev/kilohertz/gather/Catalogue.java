package dev.kilohertz.gather;

import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The five kernel files, in the order in which their metrics are listed. */
final class Catalogue {
    /** The files. */
    static final List<KernelFile> FILES =
            List.of(new StatFile(), new MeminfoFile(), new LoadavgFile(), new UptimeFile(), new NetDevFile());

    private static final Map<String, Place> PLACES = places();

    private Catalogue() {
    }

    /**
     * Where a metric comes from.
     *
     * @param file the index of its file
     * @param entry its index among the file's metrics with instances, or among those without
     * @param metric the metric
     */
    record Place(int file, int entry, Metric metric) {
    }

    /** Where the metric with this name comes from; null if no file has it. */
    static Place find(String metric) {
        return PLACES.get(metric);
    }

    private static Map<String, Place> places() {
        Map<String, Place> places = new HashMap<>();
        for (int file = 0; file < FILES.size(); file++) {
            add(places, file, FILES.get(file).scalars());
            add(places, file, FILES.get(file).grouped());
        }
        return Map.copyOf(places);
    }

    private static void add(Map<String, Place> places, int file, List<Entry> entries) {
        for (int entry = 0; entry < entries.size(); entry++) {
            Metric metric = entries.get(entry).metric();
            places.put(metric.name(), new Place(file, entry, metric));
        }
    }
}
