package dev.kilohertz.jfr;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Percentage;
import jdk.jfr.Period;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;

/** How long tasks of the machine have waited for one resource (pressure stall information). NaN, or the least long: unknown. */
@Name("khz.Pressure")
@Label("Machine Pressure")
@Description("How long tasks of the machine have waited for CPUs, memory or disks (PSI)")
@Category("Kilohertz")
@Period("1 s")
@StackTrace(false)
final class PressureEvent extends Event {
    /** What the fields of a time show if it is unknown: JFR prints N/A. */
    static final long UNKNOWN = Long.MIN_VALUE;

    @Label("Resource")
    @Description("cpu, memory or io")
    String resource;

    @Label("Some, Average")
    @Description("Share of the last 10 s in which at least one task waited")
    @Percentage
    float someAverage;

    @Label("Full, Average")
    @Description("Share of the last 10 s in which all tasks that were not idle waited")
    @Percentage
    float fullAverage;

    @Label("Some, Stalled")
    @Description("Time since the last event in which at least one task waited")
    @Timespan(Timespan.NANOSECONDS)
    long someStalled;

    @Label("Full, Stalled")
    @Description("Time since the last event in which all tasks that were not idle waited")
    @Timespan(Timespan.NANOSECONDS)
    long fullStalled;

    @Label("Measured Period")
    @Description("The time between the two readings of the kernel that are compared")
    @Timespan(Timespan.NANOSECONDS)
    long period;
}
