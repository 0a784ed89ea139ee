package dev.kilohertz.machine;

import dev.kilohertz.Latest;
import dev.kilohertz.ValueType;
import dev.kilohertz.gather.Metric;
import dev.kilohertz.gather.State;

/** One number of a snapshot, as it was at the latest take. */
final class AgentNumber {
    private final Metric metric;
    private final AgentRow row;
    private final int place;
    private State state = State.NOT_YET;
    private long steps;
    private boolean isChanged;

    AgentNumber(Metric metric, AgentRow row, int place) {
        this.metric = metric;
        this.row = row;
        this.place = place;
    }

    /** Takes over what its row has read; true if that is something else than before. */
    boolean take() {
        Latest latest = latest();
        State now = State.of((byte) latest.stateCode());
        long value = now == State.PRESENT ? exact(latest) : 0;
        isChanged = now != state || value != steps;
        state = now;
        steps = value;
        return isChanged;
    }

    /** An agent of another release may have been started since the number was found. */
    private long exact(Latest latest) {
        if (latest.type() != ValueType.UNSIGNED || latest.places() != metric.places()) {
            throw new IllegalStateException("the agent now gives '" + metric.name() + "' another type or other decimal places");
        }
        return latest.unscaled();
    }

    Latest latest() {
        return row.get(place);
    }

    Metric metric() {
        return metric;
    }

    State state() {
        return state;
    }

    long steps() {
        return steps;
    }

    boolean isChanged() {
        return isChanged;
    }
}
