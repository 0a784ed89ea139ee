/** The numbers of this machine, as khz gathers them, for {@link dev.kilohertz.micrometer.KhzMetrics meter registries of Micrometer}. */
package dev.kilohertz.micrometer;
