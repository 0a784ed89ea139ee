package dev.kilohertz.jfr;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Period;
import jdk.jfr.StackTrace;

/** How many tasks of the machine run or wait. */
@Name("khz.RunQueue")
@Label("Machine Run Queue")
@Description("How many tasks of the machine run or wait now")
@Category("Kilohertz")
@Period("1 s")
@StackTrace(false)
final class RunQueueEvent extends Event {
    @Label("Load, 1 min")
    @Description("Tasks running or waiting for a disk, average over 1 minute")
    double load1m;

    @Label("Running")
    @Description("Tasks that run or could run now")
    long running;

    @Label("Blocked")
    @Description("Tasks that wait for a disk")
    long blocked;
}
