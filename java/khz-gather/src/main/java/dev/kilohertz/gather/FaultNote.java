package dev.kilohertz.gather;

import java.util.Objects;

/**
 * A fault in a text of the kernel.
 *
 * @param line the line in the text, from 1
 * @param field the series or field concerned
 * @param problem the fault, in words
 */
public record FaultNote(int line, String field, String problem) {
    /** Refuses missing parts. */
    public FaultNote {
        Objects.requireNonNull(field, "field");
        Objects.requireNonNull(problem, "problem");
    }

    @Override
    public String toString() {
        return "line " + line + ": " + field + ": " + problem;
    }
}
