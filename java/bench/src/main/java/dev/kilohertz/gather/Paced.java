package dev.kilohertz.gather;

import com.sun.management.ThreadMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * Gathers and parses the five files at a fixed rate, as {@code bench/c/paced.c} reads them. It ends after SECONDS or on SIGTERM, and
 * prints what it has counted as one JSON object; what is not known is null.
 *
 * <pre>
 *   Paced RATE WAY SECONDS [CALLS]    WAY is "all" or "take", as in {@link Turns}; CALLS are made before the first tick
 *   Paced turns                       reads {@code WAY RATE MILLISECONDS} from standard input, and prints {@code CALLS MEDIAN_NS LATE MISSED}
 * </pre>
 */
public final class Paced {
    private static final String USAGE = "usage: Paced RATE all|take SECONDS [CALLS], or Paced turns";
    private static final long RATE_MAX = 10_000;
    private static final long SECONDS_MAX = 3_600;
    private static final long CALLS_MAX = 10_000_000;
    /** Room for the times of 17 minutes at 1,000 Hz; of what comes later only the ticks are counted. */
    private static final long TIMES_MAX = 1 << 20;
    private static final Duration GRACE = Duration.ofSeconds(3);

    /** The sum of what the calls return, so that the JIT compiler cannot leave them out. */
    private static long kept;

    private final Clocks clocks = new Clocks();
    private final int rate;
    private final long seconds;
    private final Turns.Way way;
    private final Times calls;
    private final Times wakes;
    private final long firstGather;
    /** Unknown until the run's half is over. */
    private final long[] half = new long[4];
    private final long[] end = new long[4];
    private boolean isHalf;
    private volatile boolean isOver;
    private volatile boolean isReported;

    private Paced(long rate, Turns.Way way, long seconds) throws IOException {
        this.rate = (int) rate;
        this.seconds = seconds;
        this.way = way;
        kept += way.call();
        firstGather = clocks.realTime();
        int most = (int) Math.min(TIMES_MAX, rate * seconds + rate);
        calls = new Times(most);
        wakes = new Times(most);
    }

    /**
     * Runs until it is over.
     *
     * @param arguments as in the class's text
     */
    public static void main(String[] arguments) throws IOException {
        if (arguments.length == 1 && arguments[0].equals("turns")) {
            takeTurns();
            return;
        }
        if (arguments.length != 3 && arguments.length != 4) {
            throw new IllegalArgumentException(USAGE);
        }
        long rate = number(arguments[0], RATE_MAX);
        long seconds = number(arguments[2], SECONDS_MAX);
        Paced paced = new Paced(rate, way(arguments[1]), seconds);
        paced.endOnSignal(Thread.currentThread());
        if (arguments.length == 4) {
            paced.warm(number(arguments[3], CALLS_MAX));
        }
        String report = paced.run();
        System.out.println(report);
        System.out.flush();
        paced.isReported = true;
    }

    private static long number(String text, long most) {
        long number = Long.parseLong(text);
        if (number < 1 || number > most) {
            throw new IllegalArgumentException(text + " is not from 1 to " + most + "; " + USAGE);
        }
        return number;
    }

    private static Turns.Way way(String name) {
        return switch (name) {
            case "all" -> Turns.all();
            case "take" -> Turns.take(true);
            default -> throw new IllegalArgumentException("no way called '" + name + "'; " + USAGE);
        };
    }

    /** On SIGTERM the JVM ends with an exit code of its own; after the report it is 0, as that of any program that did its work. */
    private void endOnSignal(Thread main) {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isOver = true;
            try {
                main.join(GRACE);
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
            if (isReported) {
                Runtime.getRuntime().halt(0);
            }
        }));
    }

    /** Calls in a row, so that the JIT compiler does its work before the first tick. */
    private void warm(long count) throws IOException {
        for (long call = 0; call < count && !isOver; call++) {
            kept += way.call();
        }
    }

    private String run() throws IOException {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        Pauses pauses = new Pauses();
        Pacer pacer = new Pacer(clocks, rate);
        clocks.warm();
        tick(pacer, threads);
        return json(report(pacer, pauses));
    }

    /** The loop. It allocates nothing. */
    private void tick(Pacer pacer, ThreadMXBean threads) throws IOException {
        mark(end, 0, threads); // the first look at these counts may allocate
        long from = clocks.realTime();
        long middle = from + seconds * Clocks.SECOND / 2;
        long last = from + seconds * Clocks.SECOND;
        while (true) {
            long due = pacer.sleep();
            if (!isHalf && due >= middle) {
                isHalf = true;
                mark(half, due, threads);
            }
            if (isOver || due >= last) {
                mark(end, due, threads);
                return;
            }
            wakes.add(pacer.begin());
            long start = System.nanoTime();
            kept += way.call();
            calls.add(System.nanoTime() - start);
            pacer.done();
        }
    }

    /** Between two marks are whole periods, each with its call. */
    private void mark(long[] mark, long due, ThreadMXBean threads) {
        mark[0] = due;
        mark[1] = clocks.processCpu();
        mark[2] = threads.getCurrentThreadCpuTime();
        mark[3] = threads.getCurrentThreadAllocatedBytes();
    }

    private Map<String, Object> report(Pacer pacer, Pauses pauses) throws IOException {
        Map<String, Object> report = new LinkedHashMap<>();
        report.put("ticks", pacer.ticks());
        report.put("late", pacer.late());
        report.put("missed", pacer.missed());
        report.put("span_ns", pacer.span());
        report.put("cpu_s", inSeconds(end[1]));
        report.put("thread_cpu_s", inSeconds(end[2]));
        report.put("half_span_ns", isHalf ? end[0] - half[0] : null);
        report.put("half_cpu_s", isHalf ? inSeconds(end[1] - half[1]) : null);
        report.put("half_thread_cpu_s", isHalf ? inSeconds(end[2] - half[2]) : null);
        report.put("half_bytes", isHalf ? end[3] - half[3] : null);
        report.put("pauses", pauses.count());
        report.put("pauses_ms", pauses.totalMillis());
        report.put("longest_pause_ms", pauses.longestMillis());
        report.put("heap_kb", ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed() / 1024);
        report.put("rss_kb", status("VmRSS"));
        report.put("hwm_kb", status("VmHWM"));
        report.put("first_gather_ns", firstGather);
        report.put("first_gather_ms", firstGather / 1e6 - ManagementFactory.getRuntimeMXBean().getStartTime());
        Long last = calls.medianOfLast(rate);
        report.put("first_second_ns", calls.medianOfFirst(rate));
        report.put("last_second_ns", last);
        report.put("warm_from", last == null ? null : calls.firstWithin(2 * last));
        report.put("wake_ns", wakes.median());
        return report;
    }

    private static double inSeconds(long nanos) {
        return nanos / 1e9;
    }

    /** A number of this process's status; null if the kernel does not print it. */
    private static Long status(String name) throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith(name + ":")) {
                return Long.valueOf(line.substring(name.length() + 1).replace("kB", "").strip());
            }
        }
        return null;
    }

    private static String json(Map<String, Object> report) {
        return report.entrySet().stream()
                .map(entry -> "\"" + entry.getKey() + "\":" + entry.getValue())
                .collect(Collectors.joining(",", "{", "}"));
    }

    /** Serves standard input. A way stays as it is between its turns. */
    private static void takeTurns() throws IOException {
        Map<String, Turns.Way> ways = new LinkedHashMap<>();
        Times calls = new Times((int) TIMES_MAX);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            Turns.Way way = ways.computeIfAbsent(words[0], Paced::way);
            System.out.println(turn(way, number(words[1], RATE_MAX), Long.parseLong(words[2]), calls));
        }
    }

    private static String turn(Turns.Way way, long rate, long millis, Times calls) throws IOException {
        Clocks clocks = new Clocks();
        Pacer pacer = new Pacer(clocks, rate);
        calls.clear();
        long last = clocks.realTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        while (pacer.sleep() < last) {
            pacer.begin();
            long start = System.nanoTime();
            kept += way.call();
            calls.add(System.nanoTime() - start);
            pacer.done();
        }
        return calls.count() + " " + calls.median() + " " + pacer.late() + " " + pacer.missed();
    }
}
