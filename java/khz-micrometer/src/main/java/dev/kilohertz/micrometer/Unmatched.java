package dev.kilohertz.micrometer;

import dev.kilohertz.Snapshot;
import dev.kilohertz.SnapshotException;
import java.util.ArrayList;
import java.util.List;

/** The patterns that a program has named and that no series has matched until now: each is misspelt, or its series come later. */
final class Unmatched {
    /** Shortly after its start, an agent has not gathered everything. */
    private static final int LOOKS_UNTIL_WARNED = 3;
    private static final System.Logger LOG = System.getLogger(KhzMetrics.class.getName());

    private final List<SeriesPattern> patterns;
    private volatile List<String> sentences = List.of();
    private int looks;

    Unmatched(List<SeriesPattern> named) {
        patterns = new ArrayList<>(named);
    }

    /** A series with numbers has this name. */
    void seen(String name) {
        patterns.removeIf(pattern -> pattern.isMatch(name));
    }

    /** All series of a node were seen. At the third time, what is still missing is logged, once. */
    void looked(Snapshot node) {
        sentences = patterns.stream().map(pattern -> sentence(pattern, node)).toList();
        if (++looks == LOOKS_UNTIL_WARNED) {
            sentences.forEach(sentence -> LOG.log(System.Logger.Level.WARNING, sentence));
        }
    }

    private static String sentence(SeriesPattern pattern, Snapshot node) {
        String what = "no series of node " + node.node() + " with numbers matches '" + pattern + "'";
        if (pattern.isName()) {
            try {
                node.handle(pattern.toString());
            } catch (SnapshotException e) {
                // It knows the nearest name.
                what = e.getMessage();
            }
        }
        return what + ". There is no meter for it until one comes: check the spelling in series()";
    }

    /** What is missing; empty if nothing is, or no agent was there yet. */
    List<String> sentences() {
        return sentences;
    }
}
