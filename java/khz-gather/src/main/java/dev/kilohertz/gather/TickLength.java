package dev.kilohertz.gather;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

/** How many times a second this kernel counts CPU time (USER_HZ), from the kernel's auxiliary vector. */
final class TickLength {
    /** What nearly every kernel has, and what the numbers of CPU time assume. */
    static final long USUAL = 100;

    private static final long AT_CLKTCK = 17;
    private static final int PAIR_BYTES = 16;

    private TickLength() {
    }

    /** The value of this process; the usual one if the kernel does not tell. */
    static long ofThisKernel() {
        try {
            return in(Files.readAllBytes(Path.of("/proc/self/auxv")));
        } catch (IOException unreadable) {
            return USUAL;
        }
    }

    /** The value in an auxiliary vector: pairs of words, a type and a value. */
    static long in(byte[] vector) {
        ByteBuffer pairs = ByteBuffer.wrap(vector).order(ByteOrder.nativeOrder());
        while (pairs.remaining() >= PAIR_BYTES) {
            long type = pairs.getLong();
            long value = pairs.getLong();
            if (type == AT_CLKTCK) {
                return value;
            }
        }
        return USUAL;
    }
}
