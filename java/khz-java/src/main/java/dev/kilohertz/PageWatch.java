package dev.kilohertz;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;

/**
 * Looks once a second whether mapped files are still the files at their paths, so that a read need not. One thread for the whole
 * program, which ends when nothing is mapped.
 */
final class PageWatch {
    private static final long PERIOD_MILLIS = 1_000;
    private static final List<WeakReference<Page>> PAGES = new ArrayList<>();
    private static Thread thread;

    private PageWatch() {}

    /** Watches a page until nobody holds it, or {@link #forget}. */
    static void watch(Page page) {
        synchronized (PAGES) {
            PAGES.add(new WeakReference<>(page));
            if (thread == null) {
                thread = Thread.ofPlatform().name("khz-snapshot-watch").daemon().start(PageWatch::run);
            }
        }
    }

    static void forget(Page page) {
        synchronized (PAGES) {
            PAGES.removeIf(watched -> watched.refersTo(page) || watched.refersTo(null));
            PAGES.notifyAll();
        }
    }

    private static void run() {
        List<Page> pages = new ArrayList<>();
        while (true) {
            synchronized (PAGES) {
                try {
                    PAGES.wait(PERIOD_MILLIS);
                } catch (InterruptedException e) {
                    // Nobody can mean this thread: it ends when its pages do.
                    Thread.onSpinWait();
                }
                PAGES.removeIf(watched -> watched.refersTo(null));
                if (PAGES.isEmpty()) {
                    thread = null;
                    return;
                }
                PAGES.forEach(watched -> add(watched.get(), pages));
            }
            pages.forEach(Page::check);
            pages.clear();
        }
    }

    private static void add(Page page, List<Page> pages) {
        if (page != null) {
            pages.add(page);
        }
    }
}
