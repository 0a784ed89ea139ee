package dev.kilohertz.machine;

import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.Series;
import dev.kilohertz.Snapshot;
import dev.kilohertz.ValueType;
import dev.kilohertz.gather.Gatherer;
import dev.kilohertz.gather.Metric;
import dev.kilohertz.gather.Numbers;
import dev.kilohertz.gather.State;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The snapshot of an agent as {@link Numbers}. Numbers of one kernel file are of one instant, as those of a gatherer are. When the
 * agent ends or dies, {@link #take} throws; the snapshot itself stays open, because it is not this object's own.
 */
final class AgentNumbers implements Numbers {
    private static final Map<String, Metric> METRICS = metrics();

    private final LiveSnapshot agent;
    private final Snapshot node;
    private final List<AgentNumber> numbers = new ArrayList<>();
    private final List<AgentRow> rows = new ArrayList<>();
    private long oldest;

    private AgentNumbers(LiveSnapshot agent, Snapshot node) {
        this.agent = agent;
        this.node = node;
    }

    /** The numbers of an agent that lives. */
    static AgentNumbers open(LiveSnapshot agent) {
        Snapshot node = agent.now().orElseThrow(() -> new IllegalStateException(agent.problem()));
        return new AgentNumbers(agent, node);
    }

    private static Map<String, Metric> metrics() {
        Map<String, Metric> metrics = new HashMap<>();
        Gatherer.metrics().forEach(metric -> metrics.put(metric.name(), metric));
        return Map.copyOf(metrics);
    }

    @Override
    public int find(String name) {
        int bracket = name.indexOf('[');
        Metric metric = METRICS.get(bracket < 0 ? name : name.substring(0, bracket));
        if (metric == null) {
            throw new IllegalArgumentException("'" + name + "' is not among the metrics of Gatherer.metrics(); Snapshot reads all of an agent's");
        }
        Series series = node.series().stream().filter(known -> known.name().equals(name)).findFirst()
                .orElseThrow(() -> new IllegalArgumentException("node " + node.node() + " has no series '" + name + "' now"));
        if (!series.unit().equals(metric.unit().word()) || series.places() != metric.places() || series.type() != ValueType.UNSIGNED) {
            throw new IllegalArgumentException("the agent of " + node.node() + " gives '" + name + "' another unit or type than this library: "
                    + "use both of one release");
        }
        numbers.add(placed(metric, name));
        return numbers.size() - 1;
    }

    /** Puts the number into the row of its kernel file. */
    private AgentNumber placed(Metric metric, String name) {
        for (AgentRow row : rows) {
            if (row.add(name)) {
                return new AgentNumber(metric, row, row.size() - 1);
            }
        }
        AgentRow row = new AgentRow(node);
        if (!row.add(name)) {
            throw new IllegalStateException("the agent of " + node.node() + " was restarted in this moment");
        }
        rows.add(row);
        return new AgentNumber(metric, row, 0);
    }

    @Override
    public boolean take() {
        String problem = agent.problem();
        if (!problem.isEmpty()) {
            throw new IllegalStateException(problem);
        }
        for (int row = 0; row < rows.size(); row++) {
            rows.get(row).read();
        }
        boolean isAnyChanged = false;
        oldest = 0;
        for (int index = 0; index < numbers.size(); index++) {
            AgentNumber number = numbers.get(index);
            isAnyChanged |= number.take();
            addStamp(number.latest().realNanos());
        }
        return isAnyChanged;
    }

    /** 0: the number's instance is gone, or nothing was gathered yet. */
    private void addStamp(long stamp) {
        if (stamp != 0) {
            oldest = oldest == 0 ? stamp : Math.min(oldest, stamp);
        }
    }

    @Override
    public State state(int number) {
        return numbers.get(number).state();
    }

    @Override
    public long steps(int number) {
        return numbers.get(number).steps();
    }

    @Override
    public Metric metric(int number) {
        return numbers.get(number).metric();
    }

    @Override
    public boolean isChanged(int number) {
        return numbers.get(number).isChanged();
    }

    @Override
    public long stampNanos() {
        return oldest;
    }

    @Override
    public void close() {
        numbers.clear();
        rows.clear();
    }
}
