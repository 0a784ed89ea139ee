package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ManyReadersTest {
    private static final int READERS = 16;

    @Test
    void manyWhoAskAtOnceShareOneGather(@TempDir Path folder) throws Exception {
        TemporaryHost host = new TemporaryHost(folder);
        try (Gatherer gatherer =
                Gatherer.with().root(host.root()).nativeAccess(false).window(Duration.ofHours(1)).open()) {
            CyclicBarrier start = new CyclicBarrier(READERS);
            assertEquals(READERS * 1_000L, sum(() -> {
                Sample sample = gatherer.sample();
                sample.find("mem.free");
                sample.find("cpu.all.user");
                start.await();
                long taken = 0;
                for (int take = 0; take < 1_000; take++) {
                    sample.take();
                    taken++;
                }
                return taken;
            }));
            gatherer.status().forEach(source -> assertEquals(1, source.gathers(), source.name()));
        }
    }

    /** Two numbers that the text always has in one relation: a reader who sees another one has seen half a gather. */
    @Test
    void nobodySeesHalfAGather(@TempDir Path folder) throws Exception {
        TemporaryHost host = new TemporaryHost(folder);
        host.write("stat", text(0));
        try (Gatherer gatherer = Gatherer.with().root(host.root()).nativeAccess(false).window(Duration.ZERO).open()) {
            long reads = sum(() -> {
                Sample sample = gatherer.sample();
                int forks = sample.find("kernel.forks");
                int switches = sample.find("kernel.context_switches");
                long read = 0;
                for (int round = 0; round < 2_000; round++) {
                    if (round % 16 == 0) {
                        // One at a time: two that write over each other leave a text with the numbers of both.
                        synchronized (host) {
                            host.write("stat", text(round / 16));
                        }
                    }
                    sample.take();
                    // A writer that is cutting the file to write it again leaves an empty or a cut text, which is failed.
                    if (sample.state(forks) == State.PRESENT && sample.state(switches) == State.PRESENT) {
                        assertEquals(sample.steps(forks), sample.steps(switches));
                        read++;
                    }
                }
                return read;
            });
            assertTrue(reads > 100, reads + " reads");
        }
    }

    private static String text(int number) {
        return "processes " + (1_000 + number) + "\nctxt " + (1_000 + number) + "\n";
    }

    private static long sum(Callable<Long> reader) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(READERS);
        try {
            List<Future<Long>> results = new ArrayList<>();
            for (int number = 0; number < READERS; number++) {
                results.add(threads.submit(reader));
            }
            long sum = 0;
            for (Future<Long> result : results) {
                sum += result.get();
            }
            return sum;
        } finally {
            threads.shutdownNow();
        }
    }
}
