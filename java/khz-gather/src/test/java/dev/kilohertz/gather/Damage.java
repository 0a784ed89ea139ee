package dev.kilohertz.gather;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** One captured text and what is done to it: the places of its numbers and lines, and copies with other bytes there. */
final class Damage {
    /** A stretch of the text. */
    record Stretch(int start, int end) {
    }

    private final byte[] text;

    Damage(byte[] text) {
        this.text = text;
    }

    byte[] text() {
        return text;
    }

    /** The numbers, with their decimals. Digits inside a name do not count. Of the many numbers of {@code intr}, a few are enough. */
    List<Stretch> numbers() {
        List<Stretch> found = new ArrayList<>();
        int ofInterrupts = 0;
        for (int at = 0; at < text.length; at++) {
            int end = at;
            while (end < text.length && (text[end] >= '0' && text[end] <= '9' || text[end] == '.')) {
                end++;
            }
            boolean isSeparated = at == 0 || " :=/\n".indexOf(text[at - 1]) >= 0;
            boolean isEnded = end == text.length || " /\n".indexOf(text[end]) >= 0;
            if (end > at && isSeparated && isEnded) {
                boolean isInterrupt = lines().get(lineOf(at) - 1).startsWith("intr ");
                ofInterrupts += isInterrupt ? 1 : 0;
                if (!isInterrupt || ofInterrupts < 4 || ofInterrupts % 100 == 0) {
                    found.add(new Stretch(at, end));
                }
            }
            at = Math.max(end, at);
        }
        return found;
    }

    /** The lines with their newlines. */
    List<String> lines() {
        List<String> lines = new ArrayList<>();
        int start = 0;
        for (int at = 0; at < text.length; at++) {
            if (text[at] == '\n' || at == text.length - 1) {
                lines.add(new String(text, start, at + 1 - start, StandardCharsets.ISO_8859_1));
                start = at + 1;
            }
        }
        return lines;
    }

    /** The line of a byte, from 1. */
    int lineOf(int at) {
        int line = 1;
        for (int before = 0; before < at; before++) {
            line += text[before] == '\n' ? 1 : 0;
        }
        return line;
    }

    /** The text with other bytes in a stretch. */
    byte[] with(int start, int end, String replacement) {
        byte[] bytes = replacement.getBytes(StandardCharsets.ISO_8859_1);
        byte[] changed = Arrays.copyOf(text, text.length - (end - start) + bytes.length);
        System.arraycopy(bytes, 0, changed, start, bytes.length);
        System.arraycopy(text, end, changed, start + bytes.length, text.length - end);
        return changed;
    }

    /** The text up to a byte. */
    byte[] cut(int end) {
        return Arrays.copyOf(text, end);
    }

    static byte[] join(List<String> lines) {
        return String.join("", lines).getBytes(StandardCharsets.ISO_8859_1);
    }
}
