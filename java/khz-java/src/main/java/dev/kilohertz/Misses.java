package dev.kilohertz;

import java.util.List;

/**
 * What patterns name and no node has.
 *
 * @param nodes unknown nodes
 * @param patterns patterns that select nothing
 * @param more how many more there are: 64 are listed
 */
public record Misses(List<Miss> nodes, List<Miss> patterns, long more) implements Event {
    static final Misses NONE = new Misses(List.of(), List.of(), 0);

    /** Copies the lists. */
    public Misses {
        nodes = List.copyOf(nodes);
        patterns = List.copyOf(patterns);
    }

    /**
     * Whether everything was found.
     *
     * @return true if nothing is missing
     */
    public boolean isEmpty() {
        return nodes.isEmpty() && patterns.isEmpty();
    }

    /**
     * One name that nobody has.
     *
     * @param asked as it was written
     * @param near what was probably meant; null if nothing is near
     */
    public record Miss(String asked, String near) {
        @Override
        public String toString() {
            return near == null ? asked : asked + " (did you mean " + near + "?)";
        }
    }
}
