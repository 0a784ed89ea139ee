package dev.kilohertz.jfr;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Frequency;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Period;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;

/** What one interface of the machine has received and sent, a second. */
@Name("khz.Network")
@Label("Machine Network")
@Description("What each interface of the machine has received and sent since the last event")
@Category("Kilohertz")
@Period("1 s")
@StackTrace(false)
final class NetworkEvent extends Event {
    @Label("Interface")
    String device;

    @Label("Received")
    @Description("Bytes received a second")
    @DataAmount(DataAmount.BYTES)
    @Frequency
    double received;

    @Label("Sent")
    @Description("Bytes sent a second")
    @DataAmount(DataAmount.BYTES)
    @Frequency
    double sent;

    @Label("Packets Received")
    @Description("Packets received a second")
    @Frequency
    double packetsReceived;

    @Label("Packets Sent")
    @Description("Packets sent a second")
    @Frequency
    double packetsSent;

    @Label("Measured Period")
    @Description("The time between the two readings of the kernel that are compared")
    @Timespan(Timespan.NANOSECONDS)
    long period;
}
