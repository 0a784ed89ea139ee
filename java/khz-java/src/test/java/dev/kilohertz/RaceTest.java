package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Readers beside a writer that hardly pauses. */
class RaceTest {
    private static final int ROWS = 300_000;
    private static final int PAUSE = 20;

    @TempDir
    Path folder;

    @Test
    void noReaderEverSeesHalfARow() throws Exception {
        AtomicBoolean isOver = new AtomicBoolean();
        try (PageFile file = PageFile.create(folder.resolve("snapshot")); ExecutorService threads = Executors.newFixedThreadPool(3)) {
            int[] slots = new int[20];
            for (int i = 0; i < slots.length; i++) {
                slots[i] = file.add("a.series" + i, "count", 5, 0, 0, 0);
            }
            write(file, slots, 0);
            try (Snapshot node = Snapshot.open(folder)) {
                List<Future<Long>> readers = new ArrayList<>();
                for (int i = 0; i < 2; i++) {
                    readers.add(threads.submit(() -> read(node, isOver)));
                }
                Future<?> writer = threads.submit(() -> {
                    for (long row = 1; row <= ROWS; row++) {
                        write(file, slots, row);
                        for (int i = 0; i < PAUSE; i++) {
                            Thread.onSpinWait();
                        }
                    }
                });
                writer.get();
                isOver.set(true);
                for (Future<Long> reader : readers) {
                    assertTrue(reader.get() > 0, "a reader has read nothing");
                }
            }
        }
    }

    /** Every word of a row has the row's number, so that half a row is seen. */
    private static void write(PageFile file, int[] slots, long row) {
        file.beginRow(5);
        for (int slot : slots) {
            file.set(slot, row, 0, 5, 0);
        }
        file.endRow(5, row, 0);
    }

    private static long read(Snapshot node, AtomicBoolean isOver) {
        String[] names = new String[20];
        for (int i = 0; i < names.length; i++) {
            names[i] = "a.series" + i;
        }
        SnapshotRow row = node.row(names);
        Snapshot.Handle last = node.handle("a.series19");
        Latest latest = new Latest();
        long newest = 0;
        long reads = 0;
        while (!isOver.get()) {
            row.read();
            long number = row.get(0).unscaled();
            for (int i = 0; i < names.length; i++) {
                assertEquals(number, row.get(i).unscaled(), "half a row");
                assertEquals(number, row.get(i).bootNanos(), "the time of another row");
            }
            assertTrue(number >= newest, "an older row after a newer one");
            assertTrue(node.read(last, latest));
            assertEquals(latest.unscaled(), latest.bootNanos(), "the time of another row");
            newest = latest.unscaled();
            reads++;
        }
        return reads;
    }
}
