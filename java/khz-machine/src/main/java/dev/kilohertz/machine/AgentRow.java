package dev.kilohertz.machine;

import dev.kilohertz.Latest;
import dev.kilohertz.Snapshot;
import dev.kilohertz.SnapshotException;
import dev.kilohertz.SnapshotRow;
import java.util.Arrays;

/** Numbers of one kernel file in a snapshot, read together. */
final class AgentRow {
    private final Snapshot node;
    private String[] names = {};
    private SnapshotRow row;

    AgentRow(Snapshot node) {
        this.node = node;
    }

    /** Adds a series. False: it comes from another kernel file, or the agent has changed meanwhile. */
    boolean add(String name) {
        String[] more = Arrays.copyOf(names, names.length + 1);
        more[names.length] = name;
        try {
            row = node.row(more);
            names = more;
            return true;
        } catch (SnapshotException e) {
            return false;
        }
    }

    int size() {
        return names.length;
    }

    void read() {
        row.read();
    }

    Latest get(int place) {
        return row.get(place);
    }
}
