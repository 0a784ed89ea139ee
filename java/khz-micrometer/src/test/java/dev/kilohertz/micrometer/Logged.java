package dev.kilohertz.micrometer;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** What the library logs while something runs. */
final class Logged {
    private Logged() {}

    /** The lines, each with its level before it. */
    static List<String> during(Runnable what) {
        List<String> lines = new CopyOnWriteArrayList<>();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord line) {
                lines.add(line.getLevel() + " " + line.getMessage());
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger log = Logger.getLogger(KhzMetrics.class.getName());
        log.addHandler(handler);
        log.setUseParentHandlers(false);
        try {
            what.run();
        } finally {
            log.removeHandler(handler);
            log.setUseParentHandlers(true);
        }
        return lines;
    }
}
