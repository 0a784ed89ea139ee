package dev.kilohertz.gather;

import java.util.Objects;

/**
 * What a number means. The names are those of khz; its page of metrics says more about each.
 *
 * @param name the dotted name, such as {@code mem.available}
 * @param kind counter or gauge
 * @param unit the unit
 * @param places how many digits of the number come after the point
 * @param instances what its instances are ({@code cpu}, {@code device}); empty if it has none
 */
public record Metric(String name, Kind kind, Unit unit, int places, String instances) {
    /** Refuses missing parts. */
    public Metric {
        Objects.requireNonNull(name, "name");
        Objects.requireNonNull(kind, "kind");
        Objects.requireNonNull(unit, "unit");
        Objects.requireNonNull(instances, "instances");
    }

    /**
     * True if there is one number for each CPU or interface.
     *
     * @return whether it has instances
     */
    public boolean hasInstances() {
        return !instances.isEmpty();
    }
}
