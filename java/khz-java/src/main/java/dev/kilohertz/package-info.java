/**
 * Kilohertz (khz) for programs on the JVM.
 *
 * <table>
 * <caption>Where to begin</caption>
 * <tr><th>to</th><th>use</th><th>it costs</th></tr>
 * <tr><td>read the newest numbers of this machine</td><td>{@link dev.kilohertz.Snapshot}</td><td>nanoseconds, no system
 * call</td></tr>
 * <tr><td>read numbers of a cluster, now or as they come, or of the past</td><td>{@link dev.kilohertz.Client}</td><td>one
 * request</td></tr>
 * <tr><td>add numbers of this program to those of its node</td><td>{@link dev.kilohertz.Publisher}</td><td>one datagram for
 * many numbers</td></tr>
 * </table>
 *
 * <p>A value is exact: a whole number and its decimal places. A reading without a value says why there is none: it is never 0.
 * Every exception of this package is a {@link dev.kilohertz.KhzException}, and says what to do. An argument that is null is refused with a
 * {@link java.lang.NullPointerException} that names the parameter, unless the parameter's description allows null.
 */
package dev.kilohertz;
