package dev.kilohertz.gather;

import java.util.Arrays;

/** The latest reading of every slot of one kernel file: a state, and 64 bits that mean something where the state is present. */
final class Readings {
    private long[] values = new long[0];
    private byte[] states = new byte[0];
    private int count;
    private long changes;
    private State unknown = State.NOT_YET;

    /** Makes room for this many slots; new ones are not gathered yet. */
    void grow(int slots) {
        int before = values.length;
        if (slots > before) {
            int room = Math.max(slots, 2 * before);
            values = Arrays.copyOf(values, room);
            states = Arrays.copyOf(states, room);
            Arrays.fill(states, before, room, State.NOT_YET.code());
        }
        if (slots > count) {
            count = slots;
            changes++;
        }
    }

    int slots() {
        return count;
    }

    long value(int slot) {
        return values[slot];
    }

    byte state(int slot) {
        return states[slot];
    }

    boolean is(int slot, State state) {
        return states[slot] == state.code();
    }

    /** Why an instance without slots has no reading: mostly because it is gone. */
    State unknown() {
        return unknown;
    }

    void setUnknown(State state) {
        if (state != unknown) {
            unknown = state;
            changes++;
        }
    }

    /** Grows with every reading that changes. */
    long changes() {
        return changes;
    }

    void set(int slot, State state, long value) {
        if (values[slot] != value || states[slot] != state.code()) {
            values[slot] = value;
            states[slot] = state.code();
            changes++;
        }
    }

    /** A number of a slot that is present and stays present. */
    void setPresent(int slot, long value) {
        values[slot] = value;
        changes++;
    }

    /** Each slot takes the reading of the slot that is named for it. */
    void takeOver(int[] slots) {
        long[] oldValues = values;
        byte[] oldStates = states;
        values = new long[slots.length];
        states = new byte[slots.length];
        count = slots.length;
        for (int slot = 0; slot < slots.length; slot++) {
            values[slot] = oldValues[slots[slot]];
            states[slot] = oldStates[slots[slot]];
        }
        changes++;
    }
}
