package dev.kilohertz.gather;

import java.util.Locale;

/** The unit of a number, after it left the kernel's text: bytes, never kB. */
public enum Unit {
    /** Seconds. */
    SECONDS,
    /** Bytes. */
    BYTES,
    /** Packets. */
    PACKETS,
    /** A number of other things. */
    COUNT;

    /**
     * The word that khz uses.
     *
     * @return {@code seconds}, {@code bytes}, {@code packets} or {@code count}
     */
    public String word() {
        return name().toLowerCase(Locale.ROOT);
    }
}
