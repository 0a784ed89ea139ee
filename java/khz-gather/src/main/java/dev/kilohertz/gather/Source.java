package dev.kilohertz.gather;

import java.util.List;

/** One kernel file with its parser, its counts and its rate. After a warm-up a gather allocates nothing. */
final class Source {
    /** A missing source is tried again after this time: a kernel module may be loaded later. */
    static final long LOOK_AGAIN_NANOS = 10_000_000_000L;

    /** Instances that are gone are counted this often, also while nothing moves in the text. */
    private static final long COUNT_GONE_NANOS = 1_000_000_000L;

    private final KernelFile file;
    private final KernelText text;
    private final Parser parser;
    private final long windowNanos;
    private boolean isGathered;
    private long gatheredAt;
    private long restNanos;
    private long countedAt;
    private long stamp;
    private long gathers;
    private long fullParses;
    private long failures;
    private int bytes;
    private String problem = "";

    /** A source that is read at most once in {@code windowNanos}. */
    Source(KernelFile file, KernelText text, long windowNanos) {
        this.file = file;
        this.text = text;
        this.windowNanos = windowNanos;
        parser = new Parser(file);
    }

    /** True if those who ask now need another gather. */
    boolean isDue(long now) {
        return !isGathered || now - gatheredAt >= Math.max(windowNanos, restNanos);
    }

    /** Reads the file and parses it; {@code now} is of {@link System#nanoTime}, {@code stamp} of the wall clock. */
    void gather(Room room, long now, long stamp) {
        isGathered = true;
        gatheredAt = now;
        this.stamp = stamp;
        gathers++;
        int length = text.read(room);
        if (length < 0) {
            lost(-length);
            return;
        }
        bytes = length;
        restNanos = 0;
        boolean isInPlace = parser.advance(room, Room.LEAD + length);
        if (!isInPlace || now - countedAt >= COUNT_GONE_NANOS) {
            countedAt = now;
            if (parser.renewIfWorn(now)) {
                parser.advance(room, Room.LEAD + length);
            }
        }
        if (!isInPlace) {
            afterFullParse();
        }
    }

    private void afterFullParse() {
        fullParses++;
        List<FaultNote> faults = parser.faults();
        failures += faults.isEmpty() ? 0 : 1;
        problem = faults.isEmpty() ? "" : text.path() + ": " + faults.get(0);
    }

    private void lost(int errno) {
        text.close();
        problem = text.path() + ": " + Errno.words(errno);
        if (Errno.isMissing(errno)) {
            parser.lose(State.NO_SOURCE);
            restNanos = LOOK_AGAIN_NANOS;
        } else {
            parser.lose(State.UNREADABLE);
            failures++;
        }
    }

    /** When it was gathered, in nanoseconds since 1970; 0 before the first gather. */
    long stamp() {
        return stamp;
    }

    Readings readings() {
        return parser.readings();
    }

    Slots slots() {
        return parser.slots();
    }

    /** What its slots mean, without instances that are gone. */
    List<Series> living() {
        return parser.slots().living();
    }

    /** What it has done. */
    SourceStatus status() {
        return new SourceStatus(file.name(), gathers, fullParses, failures, bytes, problem);
    }

    List<FaultNote> faults() {
        return List.copyOf(parser.faults());
    }
}
