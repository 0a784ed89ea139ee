package dev.kilohertz;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;

/**
 * A snapshot that was found on this machine, and whether its agent lives. It is read and not mapped: only the collector takes mappings
 * away, and a program that waits for an agent looks often.
 *
 * @param path the file
 * @param isFresh true if its agent gathers
 * @param about what is known of its agent, in words
 */
record Candidate(Path path, boolean isFresh, String about) {
    private static final int GROUPS_BYTES = PageLayout.GROUPS_MAX * PageLayout.GROUP_BYTES;
    private static final long NANOS_A_MILLISECOND = 1_000_000;

    /** Looks at a file. One that cannot be read is a candidate, too: opening it says why. */
    static Candidate at(Path path, long nowMillis) {
        // An interrupted thread would close the channel that it reads, and nothing here waits.
        boolean isInterrupted = Thread.interrupted();
        try (FileChannel file = FileChannel.open(path, StandardOpenOption.READ)) {
            return read(file, path, nowMillis);
        } catch (ClosedByInterruptException e) {
            isInterrupted = true;
            return new Candidate(path, false, "cannot be read: this thread was interrupted");
        } catch (IOException e) {
            return new Candidate(path, false, "cannot be read: " + e);
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static Candidate read(FileChannel file, Path path, long nowMillis) throws IOException {
        if (word(file, PageLayout.ENDED_WORD) != 0) {
            return new Candidate(path, false, "its agent has ended");
        }
        long newest = newestNanos(bytes(file, PageLayout.GROUPS_AT, GROUPS_BYTES));
        if (newest == 0) {
            return new Candidate(path, false, "its agent has gathered nothing yet");
        }
        Duration silence = Duration.ofMillis(nowMillis - newest / NANOS_A_MILLISECOND);
        boolean isFresh = silence.compareTo(LiveSnapshot.STALE_AFTER) <= 0;
        return new Candidate(path, isFresh, isFresh ? "its agent lives" : "its agent has gathered nothing for " + silence.toSeconds() + " s");
    }

    /** When the newest value was gathered. A row that is written at this moment may give a time that is off by a row. */
    private static long newestNanos(ByteBuffer groups) {
        long newest = 0;
        for (int at = 0; at < GROUPS_BYTES; at += PageLayout.GROUP_BYTES) {
            if (groups.getLong(at + (int) PageLayout.ROWS_WORD) != 0) {
                newest = Math.max(newest, groups.getLong(at + (int) PageLayout.BOOT_WORD) + groups.getLong(at + (int) PageLayout.OFFSET_WORD));
            }
        }
        return newest;
    }

    private static long word(FileChannel file, long at) throws IOException {
        return bytes(file, at, Long.BYTES).getLong(0);
    }

    /** Bytes at an offset; zeros where the file was cut short. */
    private static ByteBuffer bytes(FileChannel file, long at, int length) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
        while (bytes.hasRemaining() && file.read(bytes, at + bytes.position()) > 0) {
            // The rest of it.
        }
        return bytes;
    }

    @Override
    public String toString() {
        return path + " (" + about + ")";
    }
}
