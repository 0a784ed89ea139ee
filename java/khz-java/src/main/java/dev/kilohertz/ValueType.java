package dev.kilohertz;

/** What the values of a series are. */
public enum ValueType {
    /** Exact decimals from 0 on: 64 bits without a sign, and decimal places. */
    UNSIGNED,
    /** Exact decimals that may be below zero: 64 bits in two's complement, and decimal places. */
    SIGNED,
    /** Doubles: computed numbers. */
    FLOAT,
    /** Names and values in place of a number, such as {@code host.uname}. */
    LABELS,
    /** A type of a newer version of khz, whose values this version cannot read. */
    UNKNOWN
}
