package dev.kilohertz.gather;

import java.util.concurrent.locks.LockSupport;

/** Texts of one kernel file, captured one a millisecond while two threads keep the machine busy. */
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
            texts[text] = java.util.Arrays.copyOfRange(room.bytes(), Room.LEAD, Room.LEAD + length);
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
