/**
 * The numbers of this machine in recordings of the JDK Flight Recorder: {@link dev.kilohertz.jfr.KhzEvents} starts the events.
 */
module dev.kilohertz.jfr {
    requires dev.kilohertz;
    requires jdk.jfr;

    exports dev.kilohertz.jfr;
}
