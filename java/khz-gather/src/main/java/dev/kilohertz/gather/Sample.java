package dev.kilohertz.gather;

import java.util.Arrays;

/**
 * The numbers that one thread wants from a {@link Gatherer}: only their sources are read. A sample is a copy, so it stays as it is
 * while other threads gather. {@link #take} allocates nothing once the numbers are found.
 */
public final class Sample implements Numbers {
    private final Gatherer gatherer;
    private final boolean isOnly;
    private Wanted[] wanted = new Wanted[0];
    private long[] values = new long[0];
    private byte[] states = new byte[0];
    /** For each number, the take that changed it last. */
    private long[] changedBy = new long[0];
    /** For each source, how many readings had changed, and which meaning its slots had, at the latest copy. */
    private final long[] changes;
    private final long[] generations;
    /** For each source, its numbers among {@link #wanted}. */
    private final int[][] ofSource;
    private long takes;
    private boolean isChanged;
    private boolean isClosed;
    private long oldest;

    Sample(Gatherer gatherer, int sources, boolean isOnly) {
        this.gatherer = gatherer;
        this.isOnly = isOnly;
        changes = new long[sources];
        generations = new long[sources];
        ofSource = new int[sources][0];
        Arrays.fill(changes, -1);
        Arrays.fill(generations, -1);
    }

    @Override
    public int find(String series) {
        Wanted found = Wanted.parse(series);
        int number = wanted.length;
        wanted = Arrays.copyOf(wanted, number + 1);
        wanted[number] = found;
        values = Arrays.copyOf(values, number + 1);
        states = Arrays.copyOf(states, number + 1);
        states[number] = State.NOT_YET.code();
        changedBy = Arrays.copyOf(changedBy, number + 1);
        changedBy[number] = -1;
        int source = found.source();
        ofSource[source] = Arrays.copyOf(ofSource[source], ofSource[source].length + 1);
        ofSource[source][ofSource[source].length - 1] = number;
        changes[source] = -1;
        generations[source] = -1;
        return number;
    }

    /**
     * {@inheritDoc} A source is read if nobody has read it within its window, by one thread for all who ask.
     *
     * @throws IllegalStateException if this or the gatherer is closed
     */
    @Override
    public boolean take() {
        if (isClosed) {
            throw new IllegalStateException("this sample is closed: open another one");
        }
        takes++;
        isChanged = false;
        oldest = Long.MAX_VALUE;
        gatherer.serve(this);
        return isChanged;
    }

    /** True if it has numbers of this source. */
    boolean wants(int source) {
        return ofSource[source].length > 0;
    }

    /** Copies the numbers of a source; the gatherer calls it while nobody else gathers. */
    void copy(int number, Source source) {
        oldest = Math.min(oldest, source.stamp());
        Readings readings = source.readings();
        if (readings.changes() == changes[number]) {
            return;
        }
        changes[number] = readings.changes();
        int[] own = ofSource[number];
        if (source.slots().generation() != generations[number]) {
            generations[number] = source.slots().generation();
            for (int index : own) {
                wanted[index].resolve(source.slots());
            }
        }
        for (int index : own) {
            copy(index, wanted[index].slot(), readings);
        }
    }

    private void copy(int index, int slot, Readings readings) {
        byte state = slot == Slots.NONE ? readings.unknown().code() : readings.state(slot);
        long value = slot == Slots.NONE ? 0 : readings.value(slot);
        if (state != states[index] || value != values[index]) {
            states[index] = state;
            values[index] = value;
            changedBy[index] = takes;
            isChanged = true;
        }
    }

    @Override
    public State state(int number) {
        return State.of(states[number]);
    }

    @Override
    public long steps(int number) {
        return values[number];
    }

    @Override
    public Metric metric(int number) {
        return wanted[number].metric();
    }

    @Override
    public boolean isChanged(int number) {
        return changedBy[number] == takes;
    }

    @Override
    public long stampNanos() {
        return oldest == Long.MAX_VALUE ? 0 : oldest;
    }

    /**
     * Ends the use of this sample, which keeps its last numbers. Closes the gatherer if it was opened for this sample alone; else its files stay
     * open for its other samples.
     */
    @Override
    public void close() {
        isClosed = true;
        if (isOnly) {
            gatherer.close();
        }
    }
}
