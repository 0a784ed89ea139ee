package dev.kilohertz.micrometer;

import java.util.List;

/** The series that are bound unless a program names others: what tells whether a machine is busy, full, or waits. */
final class DefaultSeries {
    /** Without guest and guest_nice, which user and nice contain: so the modes add up to the time of all CPUs. */
    private static final List<String> CPU = List.of("cpu.all.user", "cpu.all.nice", "cpu.all.system", "cpu.all.idle", "cpu.all.iowait", "cpu.all.irq",
            "cpu.all.softirq", "cpu.all.steal");
    private static final List<String> MEMORY = List.of("mem.total", "mem.free", "mem.available", "mem.buffers", "mem.cached", "mem.dirty",
            "mem.swap_total", "mem.swap_free");
    private static final List<String> TASKS = List.of("load.*", "tasks.running", "tasks.total", "kernel.procs_blocked");
    private static final List<String> PRESSURE = List.of("pressure.*.avg10", "pressure.*.total");
    private static final List<String> NETWORK = List.of("net.?x_bytes", "net.?x_packets", "net.?x_errors", "net.?x_dropped");
    private static final List<String> DISKS = List.of("disk.reads", "disk.read_bytes", "disk.read_time", "disk.writes", "disk.written_bytes",
            "disk.write_time", "disk.io_now", "disk.io_time");

    static final List<String> PATTERNS = List.of(CPU, MEMORY, TASKS, PRESSURE, NETWORK, DISKS).stream().flatMap(List::stream).toList();

    private DefaultSeries() {}
}
