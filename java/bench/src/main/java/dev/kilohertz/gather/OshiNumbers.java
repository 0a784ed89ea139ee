package dev.kilohertz.gather;

import java.util.List;
import oshi.SystemInfo;
import oshi.hardware.CentralProcessor;
import oshi.hardware.GlobalMemory;
import oshi.hardware.NetworkIF;
import oshi.hardware.VirtualMemory;
import oshi.software.os.OperatingSystem;
import oshi.util.GlobalConfig;

/** The values of the five files that OSHI has, too. It has fewer of each. */
final class OshiNumbers {
    /** OSHI gives old values again for this long, unless its configuration says otherwise. */
    private static final String EXPIRATION = "oshi.util.memoizer.expiration";

    private final CentralProcessor processor;
    private final GlobalMemory memory;
    private final VirtualMemory swap;
    private final OperatingSystem system;
    private final List<NetworkIF> interfaces;

    /** Makes the objects once. {@code isFresh}: each read reads; this holds for the whole JVM. */
    OshiNumbers(boolean isFresh) {
        if (isFresh) {
            GlobalConfig.set(EXPIRATION, 0);
        }
        SystemInfo info = new SystemInfo();
        processor = info.getHardware().getProcessor();
        memory = info.getHardware().getMemory();
        swap = memory.getVirtualMemory();
        system = info.getOperatingSystem();
        // true: the loopback too, as the kernel's file has it.
        interfaces = info.getHardware().getNetworkIFs(true);
    }

    /** Reads the values; returns something that depends on all of them. */
    long read() {
        long sum = 0;
        for (long ticks : processor.getSystemCpuLoadTicks()) {
            sum += ticks;
        }
        for (long[] one : processor.getProcessorCpuLoadTicks()) {
            for (long ticks : one) {
                sum += ticks;
            }
        }
        sum += processor.getContextSwitches() + processor.getInterrupts();
        for (double load : processor.getSystemLoadAverage(3)) {
            sum += (long) load;
        }
        sum += memory.getAvailable() + memory.getTotal() + swap.getSwapTotal() + swap.getSwapUsed();
        sum += system.getSystemUptime() + system.getSystemBootTime();
        for (NetworkIF one : interfaces) {
            one.updateAttributes();
            sum += one.getBytesRecv() + one.getBytesSent() + one.getPacketsRecv() + one.getPacketsSent();
        }
        return sum;
    }
}
