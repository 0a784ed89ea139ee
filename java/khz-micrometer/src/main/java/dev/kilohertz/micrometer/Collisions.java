package dev.kilohertz.micrometer;

import io.micrometer.core.instrument.Meter;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** The series that have no meter because the registry has another one in its place. */
final class Collisions {
    private static final System.Logger LOG = System.getLogger(KhzMetrics.class.getName());

    private final Set<String> logged = new HashSet<>();
    private List<String> found = new ArrayList<>();
    private volatile List<String> sentences = List.of();

    /** The registry gave a meter that was there before. */
    void add(String series, Meter.Id id) {
        add(series, "the registry had a meter " + OneLine.of(id.getName() + id.getTags()) + " before, which this binder did not make, so the series " + series
                + " has none: give these meters other tags with tags(), or remove the other one, and the next refresh makes it");
    }

    /** The registry did not take the meter. */
    void add(String series, IllegalArgumentException refusal) {
        add(series, "the registry refuses the meter of the series " + series + ": " + OneLine.of(refusal.getMessage()));
    }

    private void add(String series, String sentence) {
        found.add(sentence);
        if (logged.add(series)) {
            LOG.log(System.Logger.Level.WARNING, sentence);
        }
    }

    /** All series were looked at: what was found until now is the whole of it. */
    void looked() {
        sentences = List.copyOf(found);
        found = new ArrayList<>();
    }

    /** What the last look has found. */
    List<String> sentences() {
        return sentences;
    }
}
