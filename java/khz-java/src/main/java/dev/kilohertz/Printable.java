package dev.kilohertz;

import java.util.stream.Collectors;

/** Texts of other programs as they may stand in a message: one that is printed, or that becomes a line of a log. */
final class Printable {
    /** The longest message: a refused pattern with its caret fits. */
    private static final int CHARS_MAX = 8_192;
    private static final String INDENT = "  ";

    private Printable() {}

    /**
     * The text with {@code \}{@code u001b} in place of a control or hidden character, and cut where it is too long. A line after the
     * first one is indented, so that it cannot pass for another message.
     */
    static String of(String text) {
        String most = text.length() <= CHARS_MAX ? text : text.substring(0, CHARS_MAX) + "... (" + text.length() + " characters)";
        if (most.codePoints().noneMatch(Printable::isEscaped)) {
            return most;
        }
        StringBuilder clean = new StringBuilder(most.length() + 16);
        for (int at = 0; at < most.length(); ) {
            int c = most.codePointAt(at);
            at += Character.charCount(c);
            if (c == '\n') {
                clean.append(most.startsWith(INDENT, at) ? "\n" : "\n" + INDENT);
            } else if (isEscaped(c)) {
                escape(c, clean);
            } else {
                clean.appendCodePoint(c);
            }
        }
        return clean.toString();
    }

    /** The same in one line: {@code "; "} in place of ends of lines, so that a line of a log stays one. */
    static String line(String text) {
        return of(text.lines().map(String::strip).filter(line -> !line.isEmpty()).collect(Collectors.joining("; ")));
    }

    private static boolean isEscaped(int c) {
        // The third: half of a character, which a terminal cannot show.
        return Character.isISOControl(c) || SeriesName.isHidden(c) || c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE;
    }

    private static void escape(int c, StringBuilder into) {
        for (char unit : Character.toChars(c)) {
            into.append(String.format("\\u%04x", (int) unit));
        }
    }
}
