package dev.kilohertz.gather;

/**
 * One metric, and the form of its number in the kernel's text.
 *
 * @param metric what the number means
 * @param field the field's name in the kernel's documentation
 * @param textPlaces digits after the point in the text: equal to the metric's places, or 0 when the kernel counts whole steps
 * @param shift the reading is the text's number times two to this power: 10 for kB
 */
record Entry(Metric metric, String field, int textPlaces, int shift) {
    private static final int KIB = 10;

    /** A counter that the kernel prints as {@code field}. */
    static Entry counter(String name, String field, Unit unit) {
        return new Entry(new Metric(name, Kind.COUNTER, unit, 0, ""), field, 0, 0);
    }

    /** A gauge that the kernel prints as {@code field}. */
    static Entry gauge(String name, String field, Unit unit) {
        return new Entry(new Metric(name, Kind.GAUGE, unit, 0, ""), field, 0, 0);
    }

    /** The kernel prints this many digits after the point. */
    Entry places(int places) {
        return new Entry(withPlaces(places), field, places, shift);
    }

    /** The kernel counts whole steps, each {@code 10^-places} of the unit: ticks of 10 ms. */
    Entry steps(int places) {
        return new Entry(withPlaces(places), field, 0, shift);
    }

    /** The kernel prints kB and means KiB. */
    Entry kib() {
        return new Entry(metric, field, textPlaces, KIB);
    }

    /** There is one for each {@code instances}. */
    Entry each(String instances) {
        Metric one = new Metric(metric.name(), metric.kind(), metric.unit(), metric.places(), instances);
        return new Entry(one, field, textPlaces, shift);
    }

    private Metric withPlaces(int places) {
        return new Metric(metric.name(), metric.kind(), metric.unit(), places, metric.instances());
    }
}
