package dev.kilohertz.gather;

/** Numbers of the kernel's errors, and what they mean. */
final class Errno {
    static final int NOENT = 2;
    static final int INTR = 4;
    static final int IO = 5;
    static final int ACCES = 13;
    static final int NODEV = 19;
    static final int FBIG = 27;
    static final int OPNOTSUPP = 95;

    private Errno() {
    }

    /** True if the error says that this host does not have the file. */
    static boolean isMissing(int errno) {
        return errno == NOENT || errno == NODEV || errno == OPNOTSUPP;
    }

    static String words(int errno) {
        return switch (errno) {
            case NOENT -> "no such file";
            case IO -> "input/output error";
            case ACCES -> "permission denied";
            case NODEV -> "no such device";
            case FBIG -> "file too large";
            case OPNOTSUPP -> "operation not supported";
            default -> "error " + errno;
        };
    }
}
