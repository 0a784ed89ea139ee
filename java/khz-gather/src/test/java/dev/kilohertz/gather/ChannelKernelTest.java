package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ChannelKernelTest {
    @Test
    void anInterruptedThreadReadsAndStaysInterrupted(@TempDir Path folder) throws Exception {
        Path path = Files.writeString(folder.resolve("text"), "0123456789");
        Kernel kernel = new ChannelKernel();
        int file = kernel.open(path.toString());
        byte[] bytes = new byte[8];
        Thread.currentThread().interrupt();
        assertEquals(4, kernel.read(file, bytes, 2, 4, 3));
        assertTrue(Thread.interrupted());
        assertEquals("\0\0003456\0\0", new String(bytes, StandardCharsets.US_ASCII));
        assertEquals(0, kernel.read(file, bytes, 0, 8, 10));
        kernel.closeAll();
    }

    @Test
    void numbersOfFilesAreUsedAgain(@TempDir Path folder) throws Exception {
        Path path = Files.writeString(folder.resolve("text"), "x");
        Kernel kernel = new ChannelKernel();
        assertEquals(-Errno.NOENT, kernel.open(folder.resolve("missing").toString()));
        assertEquals(0, kernel.open(path.toString()));
        assertEquals(1, kernel.open(path.toString()));
        kernel.close(0);
        assertEquals(0, kernel.open(path.toString()));
        assertEquals(1, kernel.read(0, new byte[1], 0, 1, 0));
        kernel.closeAll();
    }
}
