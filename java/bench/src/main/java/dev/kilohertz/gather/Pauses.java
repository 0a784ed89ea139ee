package dev.kilohertz.gather;

import com.sun.management.GarbageCollectionNotificationInfo;
import com.sun.management.GarbageCollectorMXBean;
import com.sun.management.GcInfo;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.Notification;
import javax.management.NotificationEmitter;
import javax.management.openmbean.CompositeData;

/** Pauses of the garbage collector, in whole milliseconds, as the JVM counts them. ZGC's cycles, which pause nobody, are left out. */
final class Pauses {
    private static final String CYCLES = "Cycles";

    private final List<GarbageCollectorMXBean> collectors =
            ManagementFactory.getPlatformMXBeans(GarbageCollectorMXBean.class).stream()
                    .filter(collector -> !collector.getName().endsWith(CYCLES))
                    .toList();
    private final AtomicLong longest = new AtomicLong();

    /** Hears of each pause from now on. */
    Pauses() {
        for (GarbageCollectorMXBean collector : collectors) {
            ((NotificationEmitter) collector).addNotificationListener((notification, ignored) -> hear(notification), null, null);
        }
    }

    private void hear(Notification notification) {
        if (notification.getType().equals(GarbageCollectionNotificationInfo.GARBAGE_COLLECTION_NOTIFICATION)) {
            keep(GarbageCollectionNotificationInfo.from((CompositeData) notification.getUserData()).getGcInfo());
        }
    }

    private void keep(GcInfo pause) {
        if (pause != null) {
            longest.accumulateAndGet(pause.getDuration(), Math::max);
        }
    }

    long count() {
        return collectors.stream().mapToLong(GarbageCollectorMXBean::getCollectionCount).sum();
    }

    long totalMillis() {
        return collectors.stream().mapToLong(GarbageCollectorMXBean::getCollectionTime).sum();
    }

    /** The longest one; 0 if there was none. */
    long longestMillis() {
        // The notification of the latest one may still be under way.
        collectors.forEach(collector -> keep(collector.getLastGcInfo()));
        return longest.get();
    }
}
