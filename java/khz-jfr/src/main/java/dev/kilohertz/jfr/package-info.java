/** Events of this machine, as khz gathers its numbers, for {@link dev.kilohertz.jfr.KhzEvents recordings of the JDK Flight Recorder}. */
package dev.kilohertz.jfr;
