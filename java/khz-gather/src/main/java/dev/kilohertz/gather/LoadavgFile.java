package dev.kilohertz.gather;

import java.util.List;

/**
 * {@code /proc/loadavg}: {@code 0.52 0.58 0.59 1/389 12345}. The fields are the load averages over 1, 5 and 15 minutes, running and
 * total tasks, and the last process id, which is ignored.
 */
final class LoadavgFile extends KernelFile {
    private static final int AVERAGES = 3;
    private static final int RUNNING = 3;
    private static final int TOTAL = 4;

    LoadavgFile() {
        super("loadavg", WHOLE, List.of(
                Entry.gauge("load.1m", "first number", Unit.COUNT).places(2),
                Entry.gauge("load.5m", "second number", Unit.COUNT).places(2),
                Entry.gauge("load.15m", "third number", Unit.COUNT).places(2),
                Entry.gauge("tasks.running", "before the slash", Unit.COUNT),
                Entry.gauge("tasks.total", "behind the slash", Unit.COUNT)), List.of());
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
        boolean hasAll = words.next() && words.next() && words.next() && words.next();
        int slash = hasAll ? Words.indexOf(sink.text(), words.start(), words.end(), '/') : -1;
        if (slash < 0) {
            // Which field is missing cannot be known: every number might belong to its neighbour's field.
            for (int scalar = 0; scalar <= TOTAL; scalar++) {
                sink.failScalar(scalar, "the line is not three averages and running/total");
            }
            return;
        }
        words = sink.words(sink.lineStart(), sink.lineEnd());
        for (int average = 0; average < AVERAGES; average++) {
            words.next();
            sink.scalar(average, words.start(), words.end());
        }
        words.next();
        sink.scalar(RUNNING, words.start(), slash);
        sink.scalar(TOTAL, slash + 1, words.end());
        sink.ignore(words.rest(), sink.lineEnd());
    }
}
