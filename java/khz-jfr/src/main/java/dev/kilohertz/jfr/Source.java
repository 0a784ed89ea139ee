package dev.kilohertz.jfr;

import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.Snapshot;
import dev.kilohertz.SnapshotException;

/** What makes the events of one type. Without an agent it makes none. */
abstract class Source implements Runnable {
    private final LiveSnapshot node;

    Source(LiveSnapshot node) {
        this.node = node;
    }

    /** JFR calls this once in a period. */
    @Override
    public final synchronized void run() {
        read(true);
    }

    /** From now on the next event counts. */
    final synchronized void begin() {
        read(false);
    }

    private void read(boolean isRecorded) {
        try {
            node.now().ifPresent(snapshot -> read(snapshot, isRecorded));
        } catch (SnapshotException | IllegalStateException | IllegalArgumentException e) {
            // The agent has ended since the check, or does not have these series yet; this was closed; a name is damaged: nothing is known.
        }
    }

    /** Reads the numbers, and makes an event of what is known, if it is recorded. */
    abstract void read(Snapshot snapshot, boolean isRecorded);
}
