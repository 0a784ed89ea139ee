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

/** How all CPUs of the machine have spent their time. Shares of 1, which add up to 1; NaN: unknown. */
@Name("khz.Cpu")
@Label("Machine CPU")
@Description("How all CPUs of the machine have spent their time since the last event")
@Category("Kilohertz")
@Period("1 s")
@StackTrace(false)
final class CpuEvent extends Event {
    @Label("User")
    @Description("In user mode, with guests of virtual machines")
    @Percentage
    float user;

    @Label("Nice")
    @Description("In user mode, at low priority")
    @Percentage
    float nice;

    @Label("System")
    @Description("In the kernel")
    @Percentage
    float system;

    @Label("Idle")
    @Percentage
    float idle;

    @Label("I/O Wait")
    @Description("Idle, with a disk request outstanding")
    @Percentage
    float iowait;

    @Label("Interrupts")
    @Description("In interrupt handlers, hard and soft")
    @Percentage
    float interrupts;

    @Label("Steal")
    @Description("Given to others by the hypervisor while this machine wanted to run")
    @Percentage
    float steal;

    @Label("Measured Period")
    @Description("The time between the two readings of the kernel that are compared")
    @Timespan(Timespan.NANOSECONDS)
    long period;
}
