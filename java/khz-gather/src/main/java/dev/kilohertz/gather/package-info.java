/**
 * Gathers the numbers of a Linux host inside the JVM. Begin with {@link dev.kilohertz.gather.Gatherer} and
 * {@link dev.kilohertz.gather.Sample}. {@link dev.kilohertz.gather.Numbers} is what a program needs to know if its numbers may also
 * come from elsewhere, and {@link dev.kilohertz.gather.Fallback} chooses between two such sources.
 */
package dev.kilohertz.gather;
