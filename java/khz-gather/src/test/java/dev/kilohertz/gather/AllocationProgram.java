package dev.kilohertz.gather;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Arrays;

/** Prints how many bytes some calls allocate, as the JVM counts them. */
final class AllocationProgram {
    private static final int BATCHES = 5;
    private static final int BATCH = 50;

    private final ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    private final int warmUp;

    private AllocationProgram(int warmUp) {
        this.warmUp = warmUp;
    }

    /**
     * Prints a line for each kind of call: its name, and the bytes of a call.
     *
     * @param arguments how many calls the warm-up has
     */
    public static void main(String[] arguments) {
        AllocationProgram program = new AllocationProgram(Integer.parseInt(arguments[0]));
        Object[] kept = new Object[1];
        program.print("an array of two", () -> kept[0] = new long[2]);
        program.take("take", true);
        program.take("take through a channel", false);
        for (KernelFile file : Catalogue.FILES) {
            program.parse(file);
        }
    }

    private void take(String name, boolean nativeAccess) {
        try (Gatherer gatherer = Gatherer.with().window(Duration.ZERO).nativeAccess(nativeAccess).open();
                Fallback fallback = new Fallback(gatherer::sample, gatherer.sample(), Duration.ZERO)) {
            Sample sample = gatherer.sample();
            for (Series series : gatherer.series()) {
                sample.find(series.toString());
                fallback.find(series.toString());
            }
            print(name, sample::take);
            print(name + " with a fallback", fallback::take);
        }
    }

    /** Full parses of two texts with other CPUs and interfaces. */
    private void parse(KernelFile file) {
        byte[] text = Fixtures.text(Fixtures.root("linux-6.1-qemu8"), file);
        byte[] later = Fixtures.text(Fixtures.later("linux-6.1-qemu8"), file);
        Room room = new Room();
        Parser parser = new Parser(file);
        print("full parse of " + file.name(), () -> {
            parse(parser, room, text);
            parse(parser, room, later);
        });
    }

    private static void parse(Parser parser, Room room, byte[] text) {
        parser.lose(State.UNREADABLE);
        if (parser.advance(room, room.fill(text, 0, text.length))) {
            throw new IllegalStateException("not a full parse");
        }
        parser.renewIfWorn(0);
    }

    /** The median of some batches, because in one of them an interface of this host may come. */
    private void print(String name, Runnable call) {
        for (int round = 0; round < warmUp; round++) {
            call.run();
        }
        long self = Thread.currentThread().getId();
        long[] bytes = new long[BATCHES];
        for (int batch = 0; batch < BATCHES; batch++) {
            long before = threads.getThreadAllocatedBytes(self);
            for (int round = 0; round < BATCH; round++) {
                call.run();
            }
            bytes[batch] = threads.getThreadAllocatedBytes(self) - before;
        }
        Arrays.sort(bytes);
        System.out.println(name + ": " + (double) bytes[BATCHES / 2] / BATCH);
    }
}
