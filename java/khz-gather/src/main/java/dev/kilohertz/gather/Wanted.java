package dev.kilohertz.gather;

/** A number that a sample has found: its name, and the slot that it has now. */
final class Wanted {
    private final Catalogue.Place place;
    private final String instance;
    private int slot = Slots.NONE;

    private Wanted(Catalogue.Place place, String instance) {
        this.place = place;
        this.instance = instance;
    }

    /** Reads a series' name. */
    static Wanted parse(String series) {
        int bracket = series.indexOf('[');
        String name = bracket < 0 ? series : series.substring(0, bracket);
        Catalogue.Place place = Catalogue.find(name);
        if (place == null) {
            throw new IllegalArgumentException("the gatherer has no metric '" + name
                    + "'; Gatherer.metrics() lists those that it has");
        }
        Metric metric = place.metric();
        if (metric.hasInstances() != bracket >= 0) {
            throw new IllegalArgumentException(metric.hasInstances()
                    ? "'" + name + "' has a number for each " + metric.instances() + ": name one, as in " + name + "[0]"
                    : "'" + series + "': '" + name + "' has no instances: leave out the brackets");
        }
        return new Wanted(place, bracket < 0 ? "" : instance(series, bracket));
    }

    private static String instance(String series, int bracket) {
        if (!series.endsWith("]")) {
            throw new IllegalArgumentException("'" + series + "' has no ']' at its end");
        }
        return Escape.unescape(series.substring(bracket + 1, series.length() - 1), series);
    }

    /** The index of its source. */
    int source() {
        return place.file();
    }

    Metric metric() {
        return place.metric();
    }

    /** Its slot; {@link Slots#NONE} if its instance has none. */
    int slot() {
        return slot;
    }

    /** Finds its slot in the source's slots of now. */
    void resolve(Slots slots) {
        slot = place.metric().hasInstances() ? slots.find(instance, place.entry()) : place.entry();
    }
}
