package dev.kilohertz.gather;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;

/**
 * The calls through {@link FileChannel}: for every JDK, and without native access, but slower. The wall clock has milliseconds only,
 * because a finer one would allocate.
 */
final class ChannelKernel implements Kernel {
    private static final long NANOS_IN_MILLI = 1_000_000;

    /** One open file; the channel is null once it is closed. */
    private static final class Open {
        private final Path path;
        private FileChannel channel;

        Open(Path path) {
            this.path = path;
        }
    }

    private final List<Open> files = new ArrayList<>();
    private ByteBuffer buffer = ByteBuffer.allocateDirect(0);

    @Override
    public int open(String path) {
        Open file = new Open(Path.of(path));
        int problem = openChannel(file);
        if (problem < 0) {
            return problem;
        }
        for (int number = 0; number < files.size(); number++) {
            if (files.get(number) == null) {
                files.set(number, file);
                return number;
            }
        }
        files.add(file);
        return files.size() - 1;
    }

    private static int openChannel(Open file) {
        try {
            file.channel = FileChannel.open(file.path, StandardOpenOption.READ);
            return 0;
        } catch (NoSuchFileException missing) {
            return -Errno.NOENT;
        } catch (AccessDeniedException denied) {
            return -Errno.ACCES;
        } catch (IOException other) {
            return -Errno.IO;
        }
    }

    @Override
    public int read(int file, byte[] bytes, int at, int count, int offset) {
        // An interrupted thread that reads would close the channel.
        boolean isInterrupted = Thread.interrupted();
        try {
            return readOrOpenAgain(files.get(file), bytes, at, count, offset);
        } catch (ClosedByInterruptException again) {
            isInterrupted = true;
            return -Errno.INTR;
        } catch (IOException failed) {
            return -Errno.IO;
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private int readOrOpenAgain(Open file, byte[] bytes, int at, int count, int offset) throws IOException {
        if (!file.channel.isOpen()) {
            int problem = openChannel(file);
            if (problem < 0) {
                return problem;
            }
        }
        if (buffer.capacity() < count) {
            buffer = ByteBuffer.allocateDirect(count);
        }
        int got = file.channel.read(buffer.clear().limit(count), offset);
        if (got <= 0) {
            return 0;
        }
        buffer.get(0, bytes, at, got);
        return got;
    }

    @Override
    public void close(int file) {
        Open closed = files.set(file, null);
        try {
            closed.channel.close();
        } catch (IOException alreadyGone) {
            // Nothing was written, so nothing is lost.
        }
    }

    @Override
    public long realTime() {
        return System.currentTimeMillis() * NANOS_IN_MILLI;
    }

    @Override
    public void closeAll() {
        for (int file = 0; file < files.size(); file++) {
            if (files.get(file) != null) {
                close(file);
            }
        }
    }
}
