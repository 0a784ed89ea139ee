package dev.kilohertz.gather;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/** Texts of one kernel file, captured one a millisecond while two threads keep the machine busy; or those of a file. */
final class Frames {
    private static final int COUNT = 128;
    private static final long MILLI = 1_000_000;
    private static final long WARM_UP_MILLIS = 300;

    private final byte[][] texts;
    private int at;
    private boolean isBack;

    private Frames(byte[][] texts) {
        this.texts = texts;
    }

    /** The texts of a file, each after its length in four bytes, as khz's benchmark writes them. */
    static Frames read(Path path) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(path)).order(ByteOrder.LITTLE_ENDIAN);
        List<byte[]> texts = new ArrayList<>();
        while (bytes.hasRemaining()) {
            byte[] text = new byte[bytes.getInt()];
            bytes.get(text);
            texts.add(text);
        }
        return new Frames(texts.toArray(byte[][]::new));
    }

    static Frames capture(KernelFile file) {
        Thread[] load = {new Thread(Frames::compute), new Thread(Frames::compute)};
        for (Thread thread : load) {
            thread.setDaemon(true);
            thread.start();
        }
        LockSupport.parkNanos(WARM_UP_MILLIS * MILLI);
        byte[][] texts = captureAll(file);
        for (Thread thread : load) {
            thread.interrupt();
        }
        return new Frames(texts);
    }

    private static byte[][] captureAll(KernelFile file) {
        Kernel kernel = new ChannelKernel();
        KernelText source = new KernelText(kernel, "/proc/" + file.name(), file.longestRecord());
        Room room = new Room();
        byte[][] texts = new byte[COUNT][];
        long start = System.nanoTime();
        for (int text = 0; text < COUNT; text++) {
            int length = source.read(room);
            if (length < 0) {
                throw new IllegalStateException("/proc/" + file.name() + ": " + Errno.words(-length));
            }
            texts[text] = Arrays.copyOfRange(room.bytes(), Room.LEAD, Room.LEAD + length);
            LockSupport.parkNanos(start + (text + 1) * MILLI - System.nanoTime());
        }
        kernel.closeAll();
        return texts;
    }

    private static void compute() {
        long number = System.nanoTime();
        while (!Thread.currentThread().isInterrupted()) {
            number = number * 6364136223846793005L + 1442695040888963407L;
            if (number == 0) {
                Thread.yield();
            }
        }
    }

    /** Walks the texts forth and back, so that neighbours are always one capture apart. */
    byte[] next() {
        byte[] now = texts[at];
        if (at + 1 == texts.length) {
            isBack = true;
        } else if (at == 0) {
            isBack = false;
        }
        at += isBack ? -1 : 1;
        return now;
    }
}
