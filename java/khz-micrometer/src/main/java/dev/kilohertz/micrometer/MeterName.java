package dev.kilohertz.micrometer;

import dev.kilohertz.Kind;
import dev.kilohertz.Series;
import dev.kilohertz.SeriesName;
import io.micrometer.core.instrument.Tag;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * What a series is called as a meter: words with dots, the unit apart, and instance and labels as tags.
 *
 * @param name {@code khz.net.rx.bytes}
 * @param tags {@code device=eth0}
 * @param unit {@code bytes}; null for a plain number, which Micrometer takes for none
 */
record MeterName(String name, List<Tag> tags, String unit) {
    private static final String PREFIX = "khz.";
    private static final String CPU = "cpu.";
    private static final String TOTAL = ".total";
    /** What the instances of a metric are, by the first word of its name: as khz and node_exporter call it at Prometheus. */
    private static final Map<String, String> INSTANCES = Map.of("cpu", "cpu", "net", "device", "disk", "device", "fs", "mountpoint",
            "infiniband", "device", "edac", "controller");
    /** For others. Not "instance": Prometheus calls the scraped program that. */
    private static final String OTHER_INSTANCE = "name";

    /** Empty if the name of the series cannot be read: it is damaged, or of a newer khz. */
    static Optional<MeterName> of(Series series) {
        try {
            return Optional.of(of(series, SeriesName.parse(series.name())));
        } catch (IllegalArgumentException e) {
            return Optional.empty();
        }
    }

    private static MeterName of(Series series, SeriesName parsed) {
        String metric = parsed.metric();
        List<Tag> tags = new ArrayList<>();
        if (!parsed.instance().isEmpty()) {
            tags.add(Tag.of(instanceKey(metric), parsed.instance()));
        }
        parsed.labels().forEach((name, value) -> tags.add(Tag.of(name, value)));
        if (isCpuTime(metric, series)) {
            // One meter by mode, so that a share is a division by the sum.
            int last = metric.lastIndexOf('.');
            tags.add(Tag.of("mode", metric.substring(last + 1)));
            metric = metric.substring(0, last);
        } else if (series.kind() == Kind.COUNTER && metric.endsWith(TOTAL)) {
            // Registries whose counters end in total add it themselves.
            metric = metric.substring(0, metric.length() - TOTAL.length());
        }
        return new MeterName(PREFIX + metric.replace('_', '.'), tags, unit(series));
    }

    private static boolean isCpuTime(String metric, Series series) {
        return metric.startsWith(CPU) && series.kind() == Kind.COUNTER && series.unit().equals("seconds");
    }

    private static String instanceKey(String metric) {
        int dot = metric.indexOf('.');
        return INSTANCES.getOrDefault(dot < 0 ? metric : metric.substring(0, dot), OTHER_INSTANCE);
    }

    private static String unit(Series series) {
        return series.unit().equals("count") ? null : series.unit();
    }
}
