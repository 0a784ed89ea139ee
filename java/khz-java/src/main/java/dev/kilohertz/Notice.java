package dev.kilohertz;

import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * What a hub says about nodes of a stream: a rate that was refused, nodes that are gone or back.
 *
 * @param nodes which nodes
 * @param text one sentence
 * @param state what they have become: {@code up}, {@code down}, {@code left} or {@code missing}; empty if it is about something else
 * @param since since when
 * @param isRefused true if these nodes refuse the channel: no row of it comes from them
 */
public record Notice(List<String> nodes, String text, Optional<String> state, Optional<Instant> since, boolean isRefused) implements Event {
    /** Copies the list. */
    public Notice {
        nodes = List.copyOf(nodes);
    }
}
