package dev.kilohertz;

/** How a series behaves over time. */
public enum Kind {
    /** It only grows, and begins again at 0 after a restart: take differences of it. */
    COUNTER,
    /** It goes up and down. */
    GAUGE
}
