package dev.kilohertz;

import java.time.Instant;

/**
 * The newest reading of one series of one node.
 *
 * @param node the node
 * @param name metric and instance: {@code net.rx_bytes[eth0]}; {@link SeriesName#parse} takes it apart
 * @param unit such as {@code bytes}
 * @param kind counter or gauge
 * @param reading the value, or why there is none
 * @param time when the node gathered it, by the node's clock
 */
public record Sample(String node, String name, String unit, Kind kind, Reading reading, Instant time) {
    /**
     * The value as the nearest double.
     *
     * @return NaN if there is no value
     */
    public double doubleValue() {
        return reading.doubleValue();
    }
}
