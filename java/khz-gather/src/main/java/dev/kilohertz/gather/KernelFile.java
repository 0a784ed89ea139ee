package dev.kilohertz.gather;

import java.util.List;

/** A file of the kernel: its path, its metrics, how the kernel hands it out, and its full parser. */
abstract class KernelFile {
    /** The kernel hands out the whole text at once. */
    static final int WHOLE = 0;

    private final String name;
    private final int longestRecord;
    private final List<Entry> scalars;
    private final List<Entry> grouped;

    /**
     * A file.
     *
     * @param name its path below {@code /proc}
     * @param longestRecord no record is longer than this many bytes, if the kernel hands out records about a page at a time
     * @param scalars its metrics without instances: they take the first slots
     * @param grouped its metrics with instances: each new instance takes the next slots
     */
    KernelFile(String name, int longestRecord, List<Entry> scalars, List<Entry> grouped) {
        this.name = name;
        this.longestRecord = longestRecord;
        this.scalars = scalars;
        this.grouped = grouped;
    }

    final String name() {
        return name;
    }

    final int longestRecord() {
        return longestRecord;
    }

    final List<Entry> scalars() {
        return scalars;
    }

    final List<Entry> grouped() {
        return grouped;
    }

    /** Walks the text by field name, and tells the sink where each number is. */
    abstract void parse(Sink sink);
}
