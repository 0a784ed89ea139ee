package dev.kilohertz;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** The names that one publisher has defined. It refuses what an agent would refuse because of another name, as docs/publish.md has it. */
final class PublishedNames {
    /** The most bytes of all names with their instances and labels: an agent leaves room for one more of the longest. */
    private static final int BYTES_MAX = (1 << 20) - (128 + 255 + 4_096);

    private final Map<String, Declared> declared = new HashMap<>();
    /** For each name at Prometheus, the name that became it. */
    private final Map<String, String> exposed = new HashMap<>();
    private final Set<String> series = new HashSet<>();
    private int bytes;

    /**
     * What the first number of a name says, and each other one must say too.
     *
     * @param kind counter or gauge
     * @param unit the unit
     * @param type the type of its values
     * @param places their decimal places: an agent would round those of later lines to the places of the first
     */
    record Declared(Kind kind, String unit, ValueType type, int places) {
        private String words() {
            String digits = type == ValueType.FLOAT ? "floating" : "with " + places + " decimal places";
            return "a " + (kind == Kind.COUNTER ? "counter" : "gauge") + " in " + unit + ", " + digits;
        }

        /** The name at Prometheus: job.queue.length in seconds becomes khz_job_queue_length_seconds. */
        private String exposed(String metric) {
            String ofUnit = unit.equals("bytes") || unit.equals("seconds") ? "_" + unit : "";
            return "khz_" + metric.replace('.', '_') + ofUnit + (kind == Kind.COUNTER ? "_total" : "");
        }
    }

    /**
     * Adds a number.
     *
     * @throws IllegalArgumentException it contradicts one that is there
     * @throws PublishException there is no room for it
     */
    void add(SeriesName name, String spelled, Declared said) {
        if (series.contains(spelled)) {
            throw new IllegalArgumentException(spelled + " is defined twice: give one of them another label, or keep the first");
        }
        String first = exposed.get(said.exposed(name.metric()));
        if (first != null && !first.equals(name.metric())) {
            throw new IllegalArgumentException(name.metric() + " would be " + said.exposed(name.metric()) + " at Prometheus, and so is " + first
                    + ", which came first: rename one of them");
        }
        checkAlike(name, said);
        checkRoom(name, spelled);
        series.add(spelled);
        bytes += bytes(name);
        declared.put(name.metric(), said);
        exposed.put(said.exposed(name.metric()), name.metric());
    }

    private void checkAlike(SeriesName name, Declared said) {
        Declared before = declared.get(name.metric());
        if (before == null) {
            return;
        }
        if (!before.equals(said)) {
            throw new IllegalArgumentException("another number of the name " + name.metric() + " is " + before.words() + ", and this one is " + said.words()
                    + ": make both alike, or take another name");
        }
        // A series of the name alone is the only one of it.
        boolean isOnly = isPlain(name);
        if (isOnly || series.contains(name.metric())) {
            throw new IllegalArgumentException(name.metric() + " has an instance or labels in one number and none in another: give it some always or never");
        }
    }

    private static boolean isPlain(SeriesName name) {
        return name.instance().isEmpty() && name.labels().isEmpty();
    }

    private void checkRoom(SeriesName name, String spelled) {
        boolean isNewName = !declared.containsKey(name.metric());
        if (isNewName && declared.size() == Publisher.NAMES_MAX) {
            throw new PublishException("there is no room for " + spelled + ": a node takes " + Publisher.NAMES_MAX
                    + " names, and this publisher has as many. Use the same few names with instances or labels");
        }
        if (series.size() == Publisher.SERIES_MAX) {
            throw new PublishException("there is no room for " + spelled + ": a node takes " + Publisher.SERIES_MAX
                    + " series, names with their instances and labels, and this publisher has as many. Use fewer instances and labels");
        }
        if (bytes > BYTES_MAX) {
            throw new PublishException("there is no room for " + spelled + ": a node takes 1 MiB of names with their instances and labels. Shorten them");
        }
    }

    private static int bytes(SeriesName name) {
        int labels = name.labels().entrySet().stream().mapToInt(label -> length(label.getKey()) + length(label.getValue()) + 2).sum();
        return length(name.metric()) + length(name.instance()) + labels;
    }

    private static int length(String text) {
        return text.getBytes(StandardCharsets.UTF_8).length;
    }
}
