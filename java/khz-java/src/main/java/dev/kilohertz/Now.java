package dev.kilohertz;

import java.util.Iterator;
import java.util.List;

/**
 * The newest readings of all selected series.
 *
 * @param samples the readings, node after node
 * @param missing nodes that patterns name, and that did not answer
 * @param misses what patterns name and no node has
 */
public record Now(List<Sample> samples, List<String> missing, Misses misses) implements Iterable<Sample> {
    /** Copies the lists. */
    public Now {
        samples = List.copyOf(samples);
        missing = List.copyOf(missing);
    }

    @Override
    public Iterator<Sample> iterator() {
        return samples.iterator();
    }
}
