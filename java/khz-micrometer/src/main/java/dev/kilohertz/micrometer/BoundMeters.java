package dev.kilohertz.micrometer;

import dev.kilohertz.Kind;
import dev.kilohertz.Latest;
import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.Series;
import dev.kilohertz.Snapshot;
import dev.kilohertz.SnapshotException;
import dev.kilohertz.State;
import dev.kilohertz.ValueType;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.noop.NoopMeter;
import io.micrometer.core.instrument.step.StepMeterRegistry;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The meters of one registry: which series have one. It makes those of new series, and removes those of instances that are gone. A
 * registry gives the meter that it has if somebody wants one with the same name and tags: such a meter belongs to others, and is left alone.
 */
final class BoundMeters {
    /** An instance without a value for as many refreshes is gone. Shortly after its start, an agent has not gathered everything. */
    private static final int ABSENT_MAX = 3;

    private final MeterRegistry registry;
    private final LiveSnapshot node;
    private final List<SeriesPattern> patterns;
    private final Tags tags;
    private final int metersMax;
    private final Map<String, Bound> bound = new HashMap<>();
    /** Whether the patterns mean a name: comparing thousands of names with dozens of patterns takes longer than reading their values. */
    private final Map<String, Boolean> wanted = new HashMap<>();
    private final Unmatched unmatched;
    private final Collisions collisions = new Collisions();
    private final Latest latest = new Latest();
    private int leftOut;
    private boolean isCleared;

    /** {@code named}: those of the patterns that the program has named, and that should match something. */
    BoundMeters(MeterRegistry registry, LiveSnapshot node, List<SeriesPattern> patterns, List<SeriesPattern> named, Tags tags, int metersMax) {
        this.registry = registry;
        this.node = node;
        this.patterns = patterns;
        this.tags = tags;
        this.metersMax = metersMax;
        this.unmatched = new Unmatched(named);
    }

    /** How many series matched at the last refresh, and got no meter because there were too many. */
    synchronized int leftOut() {
        return leftOut;
    }

    /** Which series have no meter because nothing has their names. */
    List<String> unmatched() {
        return unmatched.sentences();
    }

    /** Which series have no meter because the registry has another one in its place. */
    List<String> collisions() {
        return collisions.sentences();
    }

    /** Looks at all series of the node. While no agent runs, meters stay as they are. */
    synchronized void refresh() {
        if (isCleared) {
            return;
        }
        try {
            node.now().ifPresent(this::refresh);
        } catch (SnapshotException e) {
            // The agent has ended in this moment. The next refresh sees the new one.
        }
    }

    private void refresh(Snapshot snapshot) {
        bound.values().forEach(meter -> meter.refreshesAbsent++);
        List<Series> all = snapshot.series();
        // Names of instances that are gone would pile up over restarts of the agent.
        if (wanted.size() > 2 * all.size()) {
            wanted.clear();
        }
        Set<Meter> there = there();
        bound.values().removeIf(meter -> meter.isLost(there));
        int left = 0;
        for (Series series : all) {
            if (series.type() == ValueType.LABELS || series.type() == ValueType.UNKNOWN || !isWanted(series.name())) {
                continue;
            }
            Bound known = bound.get(series.name());
            Snapshot.Handle handle = known == null ? snapshot.handle(series.name()) : known.handle;
            snapshot.read(handle, latest);
            if (latest.state() == State.ABSENT) {
                continue;
            }
            if (known != null) {
                known.refreshesAbsent = 0;
            } else if (bound.size() < metersMax) {
                bind(series, handle, there);
            } else {
                left++;
            }
        }
        leftOut = left;
        collisions.looked();
        unmatched.looked(snapshot);
        bound.entrySet().removeIf(entry -> isRemoved(entry.getKey(), entry.getValue()));
    }

    /** Removes every meter that this made, for good. */
    synchronized void clear() {
        isCleared = true;
        // A registry removes by name and tags: what has taken the place of a meter since is another's.
        Set<Meter> there = there();
        bound.values().stream().filter(meter -> there.contains(meter.meter)).forEach(meter -> registry.remove(meter.meter));
        bound.clear();
    }

    /** The meters of the registry, compared as objects: equal names and tags do not make a meter this binder's own. */
    private Set<Meter> there() {
        Set<Meter> there = Collections.newSetFromMap(new IdentityHashMap<>());
        there.addAll(registry.getMeters());
        return there;
    }

    private boolean isWanted(String name) {
        Boolean known = wanted.get(name);
        if (known == null) {
            unmatched.seen(name);
            known = patterns.stream().anyMatch(pattern -> pattern.isMatch(name));
            wanted.put(name, known);
        }
        return known;
    }

    /** What is of the whole node stays, without a value: only instances come and go. */
    private boolean isRemoved(String name, Bound meter) {
        if (meter.refreshesAbsent < ABSENT_MAX || name.indexOf('[') < 0) {
            return false;
        }
        registry.remove(meter.meter);
        return true;
    }

    private void bind(Series series, Snapshot.Handle handle, Set<Meter> there) {
        MeterName.of(series).ifPresent(name -> bind(name, series, handle, there));
    }

    private void bind(MeterName name, Series series, Snapshot.Handle handle, Set<Meter> there) {
        Meter meter;
        try {
            meter = registered(name, series, handle);
        } catch (IllegalArgumentException e) {
            // It has a meter of another type with this name and these tags, or a filter of the program refuses it.
            collisions.add(series.name(), e);
            return;
        }
        // A filter that denies meters gives one that is in no registry.
        if (meter instanceof NoopMeter || there.add(meter)) {
            bound.put(series.name(), new Bound(handle, meter));
        } else {
            collisions.add(series.name(), meter.getId());
        }
    }

    private Meter registered(MeterName name, Series series, Snapshot.Handle handle) {
        Iterable<Tag> all = tags.and(name.tags());
        String text = "The series " + series.name().replaceFirst("\\[.*", "") + " of khz";
        if (series.kind() == Kind.GAUGE) {
            return Gauge.builder(name.name(), handle, node::doubleValue).strongReference(true).tags(all).baseUnit(name.unit()).description(text)
                    .register(registry);
        }
        CounterValue counter = registry instanceof StepMeterRegistry ? CounterValue.sinceNow(node, handle) : CounterValue.ofKernel(node, handle);
        // Micrometer refers to the object weakly, and to the function strongly.
        return FunctionCounter.builder(name.name(), registry, _ -> counter.get()).tags(all).baseUnit(name.unit()).description(text)
                .register(registry);
    }

    /** A series that has a meter. */
    private static final class Bound {
        final Snapshot.Handle handle;
        final Meter meter;
        int refreshesAbsent;

        Bound(Snapshot.Handle handle, Meter meter) {
            this.handle = handle;
            this.meter = meter;
        }

        /** True if others have taken the meter out of its registry. */
        boolean isLost(Set<Meter> there) {
            return !(meter instanceof NoopMeter) && !there.contains(meter);
        }
    }
}
