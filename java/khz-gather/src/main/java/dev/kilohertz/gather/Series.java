package dev.kilohertz.gather;

import java.util.Objects;

/**
 * One number of a host: a metric and, if it has instances, one of them. Its text is that of khz: {@code mem.free},
 * {@code net.rx_bytes[eth0]}.
 *
 * @param metric what the number means
 * @param instance the instance, unescaped; empty if the metric has none
 */
public record Series(Metric metric, String instance) {
    /** Refuses missing parts. */
    public Series {
        Objects.requireNonNull(metric, "metric");
        Objects.requireNonNull(instance, "instance");
    }

    @Override
    public String toString() {
        return metric.hasInstances() ? metric.name() + '[' + Escape.escape(instance) + ']' : metric.name();
    }
}
