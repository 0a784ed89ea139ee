package dev.kilohertz;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * A node and its state.
 *
 * @param name the node
 * @param isUp connected, and heard from within the last seconds
 * @param state {@code up}; {@code down}: silent; {@code left}: its agent was stopped; {@code missing}: expected, and never seen
 * @param isExpected the hub's setting {@code nodes} names it
 * @param heardAge how long ago it was last heard; empty: never, or it is the process that answers
 * @param since since when it has been up, or down, by the clock of the process that answers
 * @param address where it connects from
 * @param version the version of its program
 * @param clockOffset its wall clock minus that of the process that answers
 * @param problem why it was last refused or disconnected
 * @param hub the hub that it reports to
 * @param lanes its rows at each rate
 */
public record Node(String name, boolean isUp, String state, boolean isExpected, Optional<Duration> heardAge, Optional<Instant> since,
        Optional<String> address, String version, Optional<Duration> clockOffset, Optional<String> problem, Optional<String> hub,
        List<Lane> lanes) {
    /** Copies the list. */
    public Node {
        lanes = List.copyOf(lanes);
    }

    /**
     * A sequence of rows of a node at one rate.
     *
     * @param name the lane
     * @param rate its present rate
     * @param asked the rate that was asked for: a node under its CPU ceiling runs fast lanes slower
     * @param age how old its newest row is
     * @param rows rows received
     * @param lost rows that the node does not have any more
     */
    public record Lane(String name, String rate, String asked, Optional<Duration> age, long rows, long lost) {}
}
