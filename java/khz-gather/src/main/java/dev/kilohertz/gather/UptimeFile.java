package dev.kilohertz.gather;

import java.util.List;

/** {@code /proc/uptime}: {@code 442.81 873.80}, seconds since boot (suspend included), and idle seconds summed over CPUs. */
final class UptimeFile extends KernelFile {
    private static final int UP = 0;
    private static final int IDLE = 1;

    UptimeFile() {
        super("uptime", WHOLE, List.of(
                Entry.gauge("uptime.up", "first number", Unit.SECONDS).places(2),
                Entry.counter("uptime.idle", "second number", Unit.SECONDS).places(2)), List.of());
    }

    @Override
    void parse(Sink sink) {
        boolean isFirst = true;
        while (sink.nextLine()) {
            if (isFirst) {
                line(sink);
            } else {
                sink.note("a second line", "this file has one line");
            }
            isFirst = false;
        }
    }

    private static void line(Sink sink) {
        Words words = sink.words(sink.lineStart(), sink.lineEnd());
        boolean hasUp = words.next();
        int start = words.start();
        int end = words.end();
        if (!hasUp || !words.next()) {
            // Which of the two is present cannot be known.
            sink.failScalar(UP, "the line does not have two numbers");
            sink.failScalar(IDLE, "the line does not have two numbers");
            return;
        }
        sink.scalar(UP, start, end);
        sink.scalar(IDLE, words.start(), words.end());
        sink.ignore(words.rest(), sink.lineEnd());
    }
}
