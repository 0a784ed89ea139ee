package dev.kilohertz.gather;

import java.util.Locale;

/** Whether a metric counts or measures. */
public enum Kind {
    /** It grows from the start of the host: its differences have a meaning. */
    COUNTER,
    /** It goes up and down. */
    GAUGE;

    /**
     * The word that khz uses.
     *
     * @return {@code counter} or {@code gauge}
     */
    public String word() {
        return name().toLowerCase(Locale.ROOT);
    }
}
