package dev.kilohertz;

/**
 * Several values of a node that belong to one row: they were gathered at the same instant. It belongs to one thread.
 *
 * <pre>{@code
 * SnapshotRow memory = node.row("mem.total", "mem.available");
 * memory.read();
 * double used = memory.get(0).doubleValue() - memory.get(1).doubleValue();
 * }</pre>
 */
public final class SnapshotRow {
    private final Snapshot snapshot;
    private final Snapshot.Handle[] handles;
    private final Latest[] values;
    private final int[] numbers;
    /** The places in {@link #values} of the series that are there. */
    private Latest[] there = {};
    private int[] slots = {};
    private Page page;
    private int complete;
    private int group;

    SnapshotRow(Snapshot snapshot, Snapshot.Handle[] handles) {
        this.snapshot = snapshot;
        this.handles = handles;
        this.values = new Latest[handles.length];
        this.numbers = new int[handles.length];
        for (int i = 0; i < handles.length; i++) {
            values[i] = new Latest();
        }
        resolve();
    }

    /**
     * Reads all values, of the newest row. Allocates nothing, unless the agent was restarted.
     *
     * @throws SnapshotException as {@link Snapshot#read}
     */
    public void read() {
        try {
            if (page != snapshot.mapped() || page.isOver() || there.length < values.length && page.slots() > complete) {
                resolve();
            }
            page.readRow(slots, group, there);
        } catch (InternalError e) {
            throw Snapshot.cut(page, e);
        }
    }

    /**
     * How many values there are.
     *
     * @return the number of names of the row
     */
    public int size() {
        return values.length;
    }

    /**
     * One value.
     *
     * @param i its place among the names of the row, from 0
     * @return the value of the last {@link #read}, which the next one overwrites
     */
    public Latest get(int i) {
        return values[i];
    }

    /**
     * A name of the row.
     *
     * @param i its place, from 0
     * @return such as {@code mem.free}
     */
    public String name(int i) {
        return handles[i].name();
    }

    private void resolve() {
        int found = 0;
        int first = -1;
        Page now = null;
        for (int i = 0; i < handles.length; i++) {
            Snapshot.Slot slot = snapshot.resolve(handles[i]);
            numbers[i] = slot.number();
            if (now == null) {
                now = slot.page();
                complete = slot.slots();
            } else if (now != slot.page()) {
                throw new SnapshotException("the agent was restarted in this moment: read again");
            }
            if (slot.number() < 0) {
                values[i].setGone();
                continue;
            }
            if (first >= 0 && slot.group() != group) {
                throw new SnapshotException(name(first) + " and " + name(i) + " come from different kernel files, and so never from one row: "
                        + "make a row for each file");
            }
            first = first < 0 ? i : first;
            group = slot.group();
            found++;
        }
        take(found);
        page = now;
    }

    private void take(int found) {
        there = new Latest[found];
        slots = new int[found];
        int next = 0;
        for (int i = 0; i < handles.length; i++) {
            if (numbers[i] >= 0) {
                there[next] = values[i];
                slots[next++] = numbers[i];
            }
        }
    }
}
