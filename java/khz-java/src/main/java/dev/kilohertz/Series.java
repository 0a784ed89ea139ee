package dev.kilohertz;

import java.util.Objects;

/**
 * What a node measures under one name.
 *
 * @param name metric and instance as khz writes them: {@code mem.free}, {@code net.rx_bytes[eth0]}; {@link SeriesName#parse} takes
 *     it apart
 * @param unit the unit: {@code count}, {@code bytes}, {@code seconds}, {@code percent}, {@code pages}, {@code packets} or
 *     {@code hertz}
 * @param kind counter or gauge
 * @param type what its values are
 * @param places how many decimal places its values have
 */
public record Series(String name, String unit, Kind kind, ValueType type, int places) {
    /** Checks that nothing is missing. */
    public Series {
        Objects.requireNonNull(name, "name");
        Objects.requireNonNull(unit, "unit");
        Objects.requireNonNull(kind, "kind");
        Objects.requireNonNull(type, "type");
    }
}
