package dev.kilohertz.gather;

/**
 * What a source has done since the gatherer was opened.
 *
 * @param name the path below {@code /proc}
 * @param gathers how often it was read
 * @param fullParses how often its whole text was parsed, because it was the first, or its layout had moved
 * @param failures how often its text could not be read or had a fault
 * @param bytes the size of its latest text
 * @param problem the problem of its latest gather; empty if there was none
 */
public record SourceStatus(String name, long gathers, long fullParses, long failures, int bytes, String problem) {
}
