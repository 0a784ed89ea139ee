package dev.kilohertz;

/** Whether a reading has a value. */
public enum State {
    /** It has a value. */
    PRESENT,
    /** There is no value, and that is normal: the interface is gone, this kernel does not print the field. */
    ABSENT,
    /** There should be a value, but reading it went wrong. */
    FAILED
}
