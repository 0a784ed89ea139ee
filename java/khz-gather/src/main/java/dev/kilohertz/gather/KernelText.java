package dev.kilohertz.gather;

/** A kernel file that stays open: each gather reads the whole text, from the start, into the room. */
final class KernelText {
    /** A longer text is not read: 10,000 interfaces make 3 MiB. */
    static final int BYTES_MAX = 16 << 20;

    /** The first size of a read: most files fit. */
    private static final int FIRST_BYTES = 8 << 10;

    /** The kernel hands out records about a page at a time, and a page has at least this size. */
    private static final int PAGE = 4_096;

    private static final int CLOSED = -1;

    private final Kernel kernel;
    private final String path;
    private final int longestRecord;
    private int file = CLOSED;
    /** How many bytes one read asks for; grows with the text. */
    private int room = FIRST_BYTES;

    /** The file at this path. No record of it is longer than {@code longestRecord}; {@link KernelFile#WHOLE}: it has none. */
    KernelText(Kernel kernel, String path, int longestRecord) {
        this.kernel = kernel;
        this.path = path;
        this.longestRecord = longestRecord;
    }

    String path() {
        return path;
    }

    /** Reads the text into the room; returns its length, or an error's number with its sign changed. */
    int read(Room text) {
        if (file == CLOSED) {
            int opened = kernel.open(path);
            if (opened < 0) {
                return opened;
            }
            file = opened;
        }
        int length = 0;
        while (true) {
            byte[] bytes = text.grow(room);
            int asked = room - length;
            int got = readOn(bytes, length, asked);
            if (got <= 0) {
                return got < 0 ? got : length;
            }
            length += got;
            if (wasLast(length, got, asked)) {
                return length;
            }
            if (room - length < PAGE) {
                if (room >= BYTES_MAX) {
                    return -Errno.FBIG;
                }
                room *= 2;
            }
        }
    }

    private int readOn(byte[] bytes, int length, int count) {
        int got;
        do {
            got = kernel.read(file, bytes, Room.LEAD + length, count, length);
        } while (got == -Errno.INTR);
        return got;
    }

    /**
     * True when the size of a piece shows that nothing follows, which saves a read that would return 0. The kernel ends a piece when
     * the next record does not fit into its page. So a piece that leaves room for the longest record was the last one.
     */
    private boolean wasLast(int length, int got, int asked) {
        if (longestRecord == KernelFile.WHOLE) {
            return got < asked;
        }
        return length == got && got < asked && got + longestRecord <= PAGE;
    }

    /** Closes the file, so that the next read opens it again. */
    void close() {
        if (file != CLOSED) {
            kernel.close(file);
            file = CLOSED;
        }
    }
}
