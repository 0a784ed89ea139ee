package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The calls of the C library, in the packaged jar. */
class NativeIT {
    private static final int EISDIR = 21;
    private static final int EBADF = 9;

    @Test
    void theJarHasTheFastWayOfThisJdk() {
        String expected = Runtime.version().feature() >= 22 ? "ForeignKernel" : "ChannelKernel";
        assertEquals(expected, Kernels.fastest().getClass().getSimpleName());
    }

    @Test
    void bothWaysReadTheSameBytes() {
        Kernel fast = Kernels.fastest();
        Kernel channel = new ChannelKernel();
        for (String host : Fixtures.HOSTS) {
            for (KernelFile file : Catalogue.FILES) {
                String path = Fixtures.root(host).resolve("proc").resolve(file.name()).toString();
                byte[] text = Fixtures.text(Fixtures.root(host), file);
                for (Kernel kernel : new Kernel[] {fast, channel}) {
                    Room room = new Room();
                    KernelText source = new KernelText(kernel, path, file.longestRecord());
                    assertEquals(text.length, source.read(room), path);
                    assertArrayEquals(text, Arrays.copyOfRange(room.bytes(), Room.LEAD, Room.LEAD + text.length));
                }
            }
        }
        fast.closeAll();
        channel.closeAll();
    }

    @Test
    void errorsHaveTheKernelsNumbers(@TempDir Path folder) {
        Kernel kernel = Kernels.fastest();
        assertEquals(-Errno.NOENT, kernel.open(folder.resolve("missing").toString()));
        int file = kernel.open(folder.toString());
        assertTrue(file >= 0);
        assertEquals(-EISDIR, kernel.read(file, new byte[64], 0, 64, 0));
        kernel.close(file);
        assertEquals(-EBADF, kernel.read(file, new byte[64], 0, 64, 0));
    }

    @Test
    void theWallClockIsTheOneOfTheJdk() {
        long before = TimeUnit.MILLISECONDS.toNanos(System.currentTimeMillis());
        long now = Kernels.fastest().realTime();
        long after = TimeUnit.MILLISECONDS.toNanos(System.currentTimeMillis() + 1);
        assertTrue(before <= now && now <= after, before + " " + now + " " + after);
    }

    @Test
    void closingAGathererClosesItsFiles() throws Exception {
        Gatherer.open().close();
        long before = filesOfProc();
        Gatherer gatherer = Gatherer.open();
        assertEquals(before + Catalogue.FILES.size(), filesOfProc());
        gatherer.close();
        assertEquals(before, filesOfProc());
    }

    private static long filesOfProc() throws Exception {
        try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
            return files.filter(file -> {
                try {
                    String path = Files.readSymbolicLink(file).toString();
                    return Catalogue.FILES.stream().anyMatch(one -> path.endsWith("/" + one.name()));
                } catch (java.io.IOException closedMeanwhile) {
                    return false;
                }
            }).count();
        }
    }

    @Test
    void numbersOfThisHostAreThoseOfTheJdk() {
        try (Gatherer gatherer = Gatherer.open()) {
            Sample sample = gatherer.sample();
            int started = sample.find("kernel.boot_time");
            int up = sample.find("uptime.up");
            sample.take();
            long upNanos = sample.steps(up) * 10_000_000;
            long bootNanos = sample.stampNanos() - upNanos;
            // The kernel counts whole seconds, and its clocks may be set a little in between.
            assertEquals(sample.steps(started), TimeUnit.NANOSECONDS.toSeconds(bootNanos), 2);
            assertEquals(Runtime.getRuntime().availableProcessors() > 0, gatherer.series().stream()
                    .anyMatch(series -> series.toString().startsWith("cpu.user[")));
        }
    }
}
