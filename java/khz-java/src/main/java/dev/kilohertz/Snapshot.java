package dev.kilohertz;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.function.Supplier;

/**
 * The newest value of everything that a node gathers, out of shared memory: no system call, no lock, and no effect on the agent.
 *
 * <pre>{@code
 * try (Snapshot node = Snapshot.local()) {
 *     Snapshot.Handle free = node.handle("mem.free");          // looked up once
 *     System.out.println(node.doubleValue(free) + " bytes free");
 * }
 * }</pre>
 *
 * <p><b>How new.</b> A value is as new as the agent's last read of its source. The agent reads CPU, memory, load, interfaces, disks and
 * pressure ten times a second, other sources every 1 to 60 s, and each more often while somebody watches at a faster rate.
 * {@link Latest#time} says when it was, {@link #age} how long ago the newest was.
 *
 * <p><b>After a restart of the agent</b> the next read opens the new file by itself, and handles stay valid. While no agent runs,
 * reads throw {@link SnapshotException}. If an agent is killed, the last values stay readable until another one starts: ask for
 * their time.
 *
 * <p><b>If somebody cuts the file short</b> (khz never does), a read of the lost part throws {@link SnapshotException}. The JVM may
 * report such a read a moment later, with an {@link InternalError} in the same thread. A check once a second keeps the time
 * short in which that can happen.
 *
 * <p>Several threads may read one snapshot. A {@link Latest} belongs to one thread. docs/shm.md describes the file.
 */
public final class Snapshot implements AutoCloseable {
    private final Supplier<Path> where;
    private volatile Page page;
    private PageNames names;
    private boolean isClosed;

    private Snapshot(Supplier<Path> where, Page page) {
        this.where = where;
        this.page = page;
        this.names = new PageNames(page);
    }

    /**
     * Opens the snapshot of this machine's agent. It is looked for where khz puts it: in {@code KHZ_RING_DIR} if the environment has it, else
     * in the usual directories; of the node {@code KHZ_NODE} if the environment has it, else of the one whose agent has gathered something in
     * the last 10 s. Of several such agents, the one with the name of this machine is meant. When the agent has ended, it is looked for again.
     *
     * @return the snapshot
     * @throws SnapshotException no agent runs here, or its file cannot be read; or several do, and none has the name of this machine: the
     *     message names them
     */
    public static Snapshot local() {
        return local(Places.here());
    }

    static Snapshot local(Places places) {
        return opened(places::snapshot);
    }

    /**
     * Opens the snapshot at a path: that of an agent with {@code --ring-dir}, or of another node, which {@code khz mount --shm} keeps.
     *
     * @param path the file {@code snapshot}, or the directory of the node that has it
     * @return the snapshot
     * @throws SnapshotException there is no such file, or it is not a snapshot of version 1
     */
    public static Snapshot open(Path path) {
        Objects.requireNonNull(path, "path");
        Path file = Files.isDirectory(path) ? path.resolve(Places.SNAPSHOT) : path;
        return opened(() -> file);
    }

    private static Snapshot opened(Supplier<Path> where) {
        Page page = Page.open(where.get());
        PageWatch.watch(page);
        return new Snapshot(where, page);
    }

    /**
     * The name of the node.
     *
     * @return such as {@code node7}
     */
    public String node() {
        return page.node();
    }

    /**
     * Everything that the node gathers now. Copies the list: a call takes microseconds.
     *
     * @return the series, in the order in which the node came to know them; also those of instances that are gone since
     * @throws SnapshotException the agent has ended
     */
    public synchronized List<Series> series() {
        current();
        return names.all();
    }

    /**
     * Looks up a name. Do this once: a handle stays valid, also when the agent is restarted.
     *
     * @param name metric and instance: {@code mem.free}, {@code net.rx_bytes[eth0]}. For an instance with unusual characters make
     *     it with {@link SeriesName}
     * @return the handle
     * @throws SnapshotException the node has no such series, or the agent has ended
     */
    public synchronized Handle handle(String name) {
        Objects.requireNonNull(name, "name");
        Page current = current();
        int slot = find(name);
        if (slot < 0) {
            throw new SnapshotException("node " + current.node() + " has no series '" + name + "'"
                    + Near.hint(name, names.all().stream().map(Series::name).toList()));
        }
        return new Handle(this, name, new Slot(current, slot, current.group(slot), current.slots()));
    }

    /**
     * Puts several values into one row: what they read was gathered at the same instant.
     *
     * @param names as for {@link #handle}; all of one kernel file. In a file of {@code khz mount --shm} all values are of one row
     * @return the row
     * @throws SnapshotException the node has no such series, or they are never of one row
     */
    public SnapshotRow row(String... names) {
        Objects.requireNonNull(names, "names");
        Handle[] handles = new Handle[names.length];
        for (int i = 0; i < names.length; i++) {
            handles[i] = handle(names[i]);
        }
        return new SnapshotRow(this, handles);
    }

    /**
     * Reads the newest value of a series. Takes nanoseconds, and allocates nothing.
     *
     * @param handle what to read
     * @param into what is filled in: the value, or why there is none. A series that the node no longer has is absent
     * @return true if there is a value
     * @throws SnapshotException the agent has ended, and no other has started; or it died within a row
     * @throws IllegalStateException this is closed
     */
    public boolean read(Handle handle, Latest into) {
        Slot slot = handle.slot;
        try {
            if (isStale(slot)) {
                slot = resolve(handle);
            }
            if (slot.number() < 0) {
                into.setGone();
                return false;
            }
            slot.page().read(slot.number(), slot.group(), into);
        } catch (InternalError e) {
            throw cut(slot.page(), e);
        }
        return into.isPresent();
    }

    /**
     * The newest value of a series as the nearest double. Takes nanoseconds, and allocates nothing.
     *
     * @param handle what to read
     * @return the value in the unit of its series; NaN if there is none
     * @throws SnapshotException as {@link #read}
     */
    public double doubleValue(Handle handle) {
        Slot slot = handle.slot;
        try {
            if (isStale(slot)) {
                slot = resolve(handle);
            }
            return slot.number() < 0 ? Double.NaN : slot.page().readDouble(slot.number(), slot.group());
        } catch (InternalError e) {
            throw cut(slot.page(), e);
        }
    }

    /**
     * How long ago the newest value was gathered, by the clocks of the node and of this machine. An agent gathers ten times a second:
     * after ten seconds without a value it is dead.
     *
     * @return the age; a little below zero if the two clocks differ; since 1970 if nothing was gathered yet
     * @throws SnapshotException the agent has ended, and no other has started
     */
    public Duration age() {
        return Duration.between(Instant.EPOCH.plusNanos(newestNanos()), Instant.now());
    }

    /** When the newest value was gathered: nanoseconds since 1970; 0: nothing was gathered yet. Allocates nothing. */
    long newestNanos() {
        Page current;
        synchronized (this) {
            current = current();
        }
        long newest = 0;
        try {
            for (int group = 0; group < PageLayout.GROUPS_MAX; group++) {
                newest = Math.max(newest, current.realNanos(group));
            }
        } catch (InternalError e) {
            throw cut(current, e);
        }
        return newest;
    }

    /** Looks again where the snapshot of this machine is, after a long silence. The next read opens another one, if there is one now. */
    synchronized void search() {
        if (!isClosed && !where.get().equals(page.path())) {
            page.setReplaced();
        }
    }

    /**
     * Ends reading. The mapping of the file goes when the garbage collector finds that no thread can read it any more, which may be long after: a
     * program that opens snapshots again and again keeps one open instead. A mapping costs addresses, and no memory of its own.
     */
    @Override
    public synchronized void close() {
        isClosed = true;
        PageWatch.forget(page);
        page.setReplaced();
    }

    /** The file that is mapped at present. */
    Page mapped() {
        return page;
    }

    private boolean isStale(Slot slot) {
        Page known = slot.page();
        // A series that was not there may have come since.
        return known != page || known.isOver() || slot.number() < 0 && known.slots() > slot.slots();
    }

    /** Finds a handle's slot in the present file. */
    synchronized Slot resolve(Handle handle) {
        if (handle.owner != this) {
            throw new IllegalArgumentException("the handle of '" + handle.name + "' is of another snapshot: look it up in this one");
        }
        Page current = current();
        int complete = current.slots();
        int number = find(handle.name);
        Slot slot = new Slot(current, number, number < 0 ? 0 : current.group(number), complete);
        handle.slot = slot;
        return slot;
    }

    /** The slot of a name in the present file, if a group of it can be read. */
    private int find(String name) {
        int slot = names.find(name);
        return slot >= 0 && page.group(slot) < PageLayout.GROUPS_MAX ? slot : -1;
    }

    /** The present file. Opens the next one if its writer has ended. */
    private Page current() {
        if (isClosed) {
            throw new IllegalStateException("this snapshot is closed: open another one");
        }
        try {
            if (!page.isOver()) {
                return page;
            }
        } catch (InternalError e) {
            // It was cut short, and so it is over.
            page.setReplaced();
        }
        Page next;
        try {
            next = Page.open(where.get());
        } catch (SnapshotException e) {
            throw new SnapshotException("the agent of " + page.node() + " has ended or its file was taken away, and: " + e.getMessage(), e);
        }
        if (next.isOver()) {
            throw new SnapshotException("the agent of " + page.node() + " has ended: start 'khz agent' again; the next read opens its new file");
        }
        PageWatch.forget(page);
        PageWatch.watch(next);
        names = new PageNames(next);
        page = next;
        return next;
    }

    /** What a read of a part that is gone throws. */
    static SnapshotException cut(Page page, InternalError cause) {
        page.setReplaced();
        return new SnapshotException("somebody has cut the snapshot of " + page.node() + " short while it was read: the agent makes another one "
                + "within a second or two, and the next read opens it", cause);
    }

    /** A series that was looked up. It stays valid as long as the snapshot is open. */
    public static final class Handle {
        final Snapshot owner;
        final String name;
        volatile Slot slot;

        private Handle(Snapshot owner, String name, Slot slot) {
            this.owner = owner;
            this.name = name;
            this.slot = slot;
        }

        /**
         * What was looked up.
         *
         * @return such as {@code net.rx_bytes[eth0]}
         */
        public String name() {
            return name;
        }
    }

    /**
     * Where a series is in one file.
     *
     * @param page the file
     * @param number the slot; below zero: the file has no such series
     * @param group the group of the slot
     * @param slots how many slots the file had then
     */
    record Slot(Page page, int number, int group, int slots) {}
}
