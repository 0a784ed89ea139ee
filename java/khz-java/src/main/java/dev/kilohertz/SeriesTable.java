package dev.kilohertz;

import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Series in an order, and where each of them is. Nodes that are alike share one. */
final class SeriesTable {
    static final SeriesTable EMPTY = new SeriesTable(List.of());

    private final List<Series> series;
    /** Made when somebody asks for the first name: many programs never do. */
    private volatile Map<String, Integer> places;

    SeriesTable(List<Series> series) {
        this.series = List.copyOf(series);
    }

    List<Series> all() {
        return series;
    }

    /** The place of a name, or -1. */
    int indexOf(String name) {
        Map<String, Integer> known = places;
        if (known == null) {
            known = new HashMap<>();
            for (int i = 0; i < series.size(); i++) {
                known.putIfAbsent(series.get(i).name(), i);
            }
            places = known;
        }
        return known.getOrDefault(name, -1);
    }
}
