package dev.kilohertz.machine;

import dev.kilohertz.LiveSnapshot;
import dev.kilohertz.gather.Fallback;
import dev.kilohertz.gather.Gatherer;
import dev.kilohertz.gather.Metric;
import dev.kilohertz.gather.Numbers;
import dev.kilohertz.gather.State;
import java.time.Duration;
import java.util.Objects;

/**
 * The numbers of this machine: from the shared memory of khz's agent while one runs, else from a gatherer inside this program. It
 * changes between the two by itself, and names, units and digits stay the same. One thread uses it.
 *
 * <pre>{@code
 * try (MachineNumbers machine = MachineNumbers.open()) {
 *     int free = machine.find("mem.free");
 *     machine.take();
 *     System.out.println(machine.text(free) + " bytes free");
 * }
 * }</pre>
 *
 * <p>An agent that has ended is noticed at the next {@link #take}; one that was killed when it has gathered nothing for 10 s; one that
 * has started within 10 s. {@link #take} and reads allocate nothing, except when an agent is looked for (every 10 s while none runs
 * or it lacks a number) or was found.
 *
 * <p>An agent's numbers are up to a tenth of a second old. Counters do not fall because of that when it changes from the gatherer to the
 * agent: they keep their number until the agent's has come so far (30 s at most).
 *
 * <p>It has the numbers that {@link Gatherer#metrics} lists. An agent has more: {@link dev.kilohertz.Snapshot} reads those.
 */
public final class MachineNumbers implements Numbers {
    private static final Duration RETRY = Duration.ofSeconds(10);

    private final LiveSnapshot agent;
    private final Fallback numbers;

    private MachineNumbers(LiveSnapshot agent, Numbers gatherer) {
        this.agent = agent;
        this.numbers = new Fallback(() -> AgentNumbers.open(agent), gatherer, RETRY);
    }

    /**
     * The numbers of this machine. The gatherer calls the C library if the program allows that ({@code --enable-native-access}, for
     * {@code dev.kilohertz.gather} or {@code ALL-UNNAMED}), and else reads more slowly.
     *
     * @return them, whether an agent runs or not
     * @throws dev.kilohertz.gather.GatherException this machine has no {@code /proc}
     */
    public static MachineNumbers open() {
        boolean isNative = Gatherer.class.getModule().isNativeAccessEnabled();
        return of(LiveSnapshot.local(), Gatherer.with().nativeAccess(isNative).openSample());
    }

    /**
     * The same, with a snapshot and a gatherer that the program has chosen.
     *
     * @param agent such as {@link LiveSnapshot#at}; it is closed in the end
     * @param gatherer such as that of {@link Gatherer.Options#openSample}; it is closed in the end
     * @return the numbers of the snapshot while its agent lives, else those of the gatherer
     */
    public static MachineNumbers of(LiveSnapshot agent, Numbers gatherer) {
        return new MachineNumbers(Objects.requireNonNull(agent, "agent"), Objects.requireNonNull(gatherer, "gatherer"));
    }

    /**
     * Whether the latest numbers came from the agent. Single numbers that it lacks come from the gatherer.
     *
     * @return false: from the gatherer
     */
    public boolean isFromAgent() {
        return numbers.isBetter();
    }

    /**
     * Why the latest numbers did not come from the agent, as it is now.
     *
     * @return a sentence; empty if they did, or nothing was taken yet
     */
    public String problem() {
        Exception last = numbers.problem();
        if (isFromAgent() || last == null) {
            return "";
        }
        // What the last attempt has found may be over.
        String now = agent.problem();
        String then = String.valueOf(last.getMessage());
        return now.isEmpty() ? "an agent gathers now, and is asked again within " + RETRY.toSeconds() + " s (before: " + then + ")" : now;
    }

    @Override
    public int find(String series) {
        return numbers.find(series);
    }

    @Override
    public boolean take() {
        return numbers.take();
    }

    @Override
    public State state(int number) {
        return numbers.state(number);
    }

    @Override
    public long steps(int number) {
        return numbers.steps(number);
    }

    @Override
    public Metric metric(int number) {
        return numbers.metric(number);
    }

    @Override
    public boolean isChanged(int number) {
        return numbers.isChanged(number);
    }

    @Override
    public long stampNanos() {
        return numbers.stampNanos();
    }

    @Override
    public void close() {
        numbers.close();
        agent.close();
    }
}
