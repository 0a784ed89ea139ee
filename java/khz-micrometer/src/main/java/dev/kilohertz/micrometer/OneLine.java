package dev.kilohertz.micrometer;

import java.util.stream.Collectors;

/** Texts of registries and of programs as they may stand in a problem, which becomes a line of a log. */
final class OneLine {
    private OneLine() {}

    /** The text with {@code "; "} in place of ends of lines, and a space in place of other control characters. */
    static String of(String text) {
        String line = String.valueOf(text).lines().map(String::strip).filter(part -> !part.isEmpty()).collect(Collectors.joining("; "));
        return line.replaceAll("\\p{Cntrl}", " ");
    }
}
