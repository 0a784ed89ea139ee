package dev.kilohertz.gather;

/**
 * The calls to the kernel that a gatherer needs. A result below 0 is an error's number with its sign changed, so that no call makes an
 * exception. Not safe for several threads at once.
 */
interface Kernel {
    /** Opens a file for reading; returns its number. */
    int open(String path);

    /** Reads at most {@code count} bytes at {@code offset} of the file into {@code bytes} from {@code at} on; returns how many. */
    int read(int file, byte[] bytes, int at, int count, int offset);

    /** Closes a file. */
    void close(int file);

    /** The time of the wall clock, in nanoseconds since 1970. */
    long realTime();

    /** Closes every file. */
    void closeAll();
}
