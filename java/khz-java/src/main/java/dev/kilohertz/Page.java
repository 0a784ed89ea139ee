package dev.kilohertz;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.concurrent.locks.LockSupport;

/**
 * One mapped snapshot file, read under its sequence lock. It trusts no number that it finds, and writes nothing. It never becomes
 * another file: {@link Snapshot} maps the successor.
 */
final class Page {
    private static final ValueLayout.OfLong WORD = ValueLayout.JAVA_LONG.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle WORDS = WORD.varHandle();
    /** After this many tries a reader sleeps between tries. A row normally takes less time than that to write. */
    private static final int SPINS = 1_000;
    /** The most tries, which take about a second. */
    private static final int TRIES = 20_000;
    private static final long PAUSE_NANOS = 50_000;
    /** How often a file may be replaced while it is opened. */
    private static final int OPENS = 10;

    private final MemorySegment memory;
    private final Path path;
    private final Object key;
    private final String node;
    private volatile boolean isReplaced;

    private Page(MemorySegment memory, Path path, Object key, String node) {
        this.memory = memory;
        this.path = path;
        this.key = key;
        this.node = node;
    }

    /** Maps the file at this path. */
    static Page open(Path path) {
        // An interrupted thread would close the channel that it reads, and nothing here waits.
        boolean isInterrupted = Thread.interrupted();
        try {
            for (int i = 0; i < OPENS; i++) {
                Object key = keyOf(path);
                try (FileChannel file = FileChannel.open(path, StandardOpenOption.READ)) {
                    Page page = map(file, path, key);
                    if (key.equals(keyOf(path))) {
                        return page;
                    }
                } catch (ClosedByInterruptException e) {
                    isInterrupted |= Thread.interrupted();
                }
            }
            throw new SnapshotException(path + " is replaced all the time: do two agents of one node name run here?");
        } catch (NoSuchFileException e) {
            throw new SnapshotException("there is no snapshot " + path + ": is 'khz agent' or 'khz' running on this machine?", e);
        } catch (AccessDeniedException e) {
            throw new SnapshotException("this user may not read the snapshot " + path + ": the agent's user and group may (mode 0640). Add this user to that group", e);
        } catch (IOException e) {
            throw new SnapshotException("cannot read the snapshot " + path + " (" + e + ")", e);
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static Object keyOf(Path path) throws IOException {
        BasicFileAttributes about = Files.readAttributes(path, BasicFileAttributes.class);
        if (!about.isRegularFile()) {
            throw new SnapshotException(path + " is not a file: name the file 'snapshot' of a node");
        }
        return about.fileKey();
    }

    private static Page map(FileChannel file, Path path, Object key) throws IOException {
        // Read and not mapped: a file that is cut short gives an error here.
        ByteBuffer first = ByteBuffer.allocate(PageLayout.PAGE_BYTES);
        while (first.hasRemaining() && file.read(first, first.position()) > 0) {
            // The rest of the page.
        }
        if (first.hasRemaining()) {
            throw new SnapshotException(path + " is shorter than a snapshot's first page");
        }
        String node = PageLayout.node(first.array(), path.toString());
        if (file.size() != PageLayout.FILE_BYTES) {
            throw new SnapshotException(path + " has " + file.size() + " bytes in place of " + PageLayout.FILE_BYTES
                    + ": somebody has cut it short; the agent makes another one within a second or two");
        }
        refuseEnded(file, node);
        // Without an end of its own: threads may still read it when it is replaced. The collector unmaps it after the last one.
        MemorySegment memory = file.map(FileChannel.MapMode.READ_ONLY, 0, PageLayout.FILE_BYTES, Arena.ofAuto());
        return new Page(memory, path, key, node);
    }

    /** Before it is mapped: a program that waits for an agent tries often, and only the collector takes mappings away. */
    private static void refuseEnded(FileChannel file, String node) throws IOException {
        ByteBuffer ended = ByteBuffer.allocate(Long.BYTES);
        file.read(ended, PageLayout.ENDED_WORD);
        if (ended.getLong(0) != 0) {
            throw new SnapshotException("the agent of " + node + " has ended: start 'khz agent' again; the next read opens its new file");
        }
    }

    String node() {
        return node;
    }

    Path path() {
        return path;
    }

    /** True when this is no longer the file of a running agent: open the path again. No system call. */
    boolean isOver() {
        return isReplaced || word(PageLayout.ENDED_WORD) != 0;
    }

    /** From now on {@link #isOver} is true. */
    void setReplaced() {
        isReplaced = true;
    }

    /** Compares this with the file at the path. Needs a system call. */
    void check() {
        try {
            BasicFileAttributes about = Files.readAttributes(path, BasicFileAttributes.class);
            if (about.size() != PageLayout.FILE_BYTES || !key.equals(about.fileKey())) {
                setReplaced();
            }
        } catch (NoSuchFileException e) {
            setReplaced();
        } catch (IOException e) {
            // Nothing is known about the file, and what is mapped can be read.
            return;
        }
    }

    /** How many slots are complete. They only become more. */
    int slots() {
        long slots = (long) WORDS.getAcquire(memory, PageLayout.SLOTS_WORD);
        return Math.clamp(slots < 0 ? Long.MAX_VALUE : slots, 0, PageLayout.SLOTS_MAX);
    }

    /** The bytes of the names from an offset on, as far as they are complete. */
    MemorySegment names(int from) {
        long bytes = (long) WORDS.getAcquire(memory, PageLayout.NAMES_WORD);
        int complete = bytes < 0 ? PageLayout.NAMES_BYTES : (int) Math.min(bytes, PageLayout.NAMES_BYTES);
        return memory.asSlice(PageLayout.NAMES_AT + from, Math.max(0, complete - from));
    }

    /** The group of a slot: all its slots are written together. */
    int group(int slot) {
        return (int) (word(slotAt(slot) + 8) >>> 8 & 255);
    }

    /** When a group's last row was gathered: nanoseconds since 1970; 0: never. */
    long realNanos(int group) {
        long at = groupAt(group);
        long rows = word(at + PageLayout.ROWS_WORD);
        return rows == 0 ? 0 : word(at + PageLayout.BOOT_WORD) + word(at + PageLayout.OFFSET_WORD);
    }

    /** Reads one value. */
    void read(int slot, int group, Latest into) {
        long at = groupAt(group);
        long before = sequence(at);
        if ((before & 1) == 0) {
            load(slotAt(slot), at, into);
            if (isWhole(at, before)) {
                return;
            }
        }
        readLater(slot, group, into);
    }

    /** Reads one value as the nearest double; NaN: there is none. */
    double readDouble(int slot, int group) {
        long at = groupAt(group);
        long before = sequence(at);
        if ((before & 1) == 0) {
            long bits = word(slotAt(slot));
            long meta = word(slotAt(slot) + 8);
            if (isWhole(at, before)) {
                return Latest.doubleValue(bits, meta);
            }
        }
        Latest latest = new Latest();
        readLater(slot, group, latest);
        return latest.doubleValue();
    }

    private void readLater(int slot, int group, Latest into) {
        Latest[] one = {into};
        readRow(new int[] {slot}, group, one);
    }

    /** Reads values of one group, all of the same row. */
    void readRow(int[] slots, int group, Latest[] into) {
        long at = groupAt(group);
        long first = sequence(at);
        for (int tries = 0; tries < TRIES; tries++) {
            long before = sequence(at);
            if ((before & 1) == 0) {
                for (int i = 0; i < slots.length; i++) {
                    load(slotAt(slots[i]), at, into[i]);
                }
                if (isWhole(at, before)) {
                    return;
                }
            }
            if (isOver()) {
                break;
            }
            pause(tries);
        }
        // Half a row is in there.
        for (Latest latest : into) {
            latest.setGone();
        }
        setReplaced();
        throw new SnapshotException(sequence(at) == first
                ? "the agent died while it wrote " + path + ": start 'khz agent' again; the next read opens its new file"
                : path + " is written without a pause, and no whole row of it can be read: is it damaged? The next read opens it again");
    }

    private static void pause(int tries) {
        if (tries < SPINS) {
            Thread.onSpinWait();
        } else {
            // The kernel has interrupted the writer inside a row: leave the processor to it.
            LockSupport.parkNanos(PAUSE_NANOS);
        }
    }

    private void load(long slotAt, long groupAt, Latest into) {
        into.bits = word(slotAt);
        into.meta = word(slotAt + 8);
        into.boot = word(groupAt + PageLayout.BOOT_WORD);
        into.offset = word(groupAt + PageLayout.OFFSET_WORD);
    }

    private boolean isWhole(long groupAt, long before) {
        VarHandle.acquireFence();
        return word(groupAt) == before;
    }

    private long sequence(long groupAt) {
        return (long) WORDS.getAcquire(memory, groupAt);
    }

    /** A word, read as a whole. */
    private long word(long at) {
        return (long) WORDS.getOpaque(memory, at);
    }

    private static long slotAt(int slot) {
        return PageLayout.SLOTS_AT + (long) slot * PageLayout.SLOT_BYTES;
    }

    private static long groupAt(int group) {
        return PageLayout.GROUPS_AT + (long) group * PageLayout.GROUP_BYTES;
    }
}
