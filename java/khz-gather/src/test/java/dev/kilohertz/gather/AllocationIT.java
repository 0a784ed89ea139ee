package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

/** A gather allocates nothing: counted by the JVM itself. */
class AllocationIT {
    private static final int WARM_UP = 20_000;
    private static final int BATCHES = 21;
    private static final int BATCH = 500;

    private final ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    /**
     * Bytes that a batch allocates on this thread: the median, because in some batch an interface may come or the JIT compiler may undo
     * its work.
     */
    private long bytesOf(Runnable work) {
        for (int round = 0; round < WARM_UP; round++) {
            work.run();
        }
        long self = Thread.currentThread().getId();
        long[] bytes = new long[BATCHES];
        for (int batch = 0; batch < BATCHES; batch++) {
            long before = threads.getThreadAllocatedBytes(self);
            for (int round = 0; round < BATCH; round++) {
                work.run();
            }
            bytes[batch] = threads.getThreadAllocatedBytes(self) - before;
        }
        Arrays.sort(bytes);
        return bytes[BATCHES / 2];
    }

    private static Sample sampleOfAll(Gatherer gatherer) {
        Sample sample = gatherer.sample();
        gatherer.series().forEach(series -> sample.find(series.toString()));
        return sample;
    }

    @Test
    void theCountSeesAnAllocation() {
        Object[] kept = new Object[1];
        assertTrue(bytesOf(() -> kept[0] = new long[2]) >= BATCH * 16L);
    }

    @Test
    void aGatherOfAllFilesAllocatesNothing() {
        try (Gatherer gatherer = Gatherer.with().window(Duration.ZERO).open()) {
            Sample sample = sampleOfAll(gatherer);
            assertEquals(0, bytesOf(sample::take));
        }
    }

    @Test
    void neitherDoesOneThroughAChannel() {
        try (Gatherer gatherer = Gatherer.with().window(Duration.ZERO).nativeAccess(false).open()) {
            Sample sample = sampleOfAll(gatherer);
            assertEquals(0, bytesOf(sample::take));
        }
    }

    @Test
    void neitherDoesAFullParse() {
        for (KernelFile file : Catalogue.FILES) {
            byte[] text = Fixtures.text(Fixtures.root("linux-6.1-qemu8"), file);
            byte[] later = Fixtures.text(Fixtures.later("linux-6.1-qemu8"), file);
            Room room = new Room();
            Parser parser = new Parser(file);
            long[] full = new long[1];
            long bytes = bytesOf(() -> {
                parser.lose(State.UNREADABLE);
                full[0] += parser.advance(room, room.fill(text, 0, text.length)) ? 0 : 1;
                parser.lose(State.UNREADABLE);
                full[0] += parser.advance(room, room.fill(later, 0, later.length)) ? 0 : 1;
                parser.renewIfWorn(0);
            });
            assertEquals(0, bytes, file.name());
            assertEquals(2L * (WARM_UP + BATCHES * BATCH), full[0]);
        }
    }
}
