package dev.kilohertz.gather;

import java.time.Duration;

/** A program that takes numbers of this host, as often as its argument says, and prints some of them. Tests start it in a JVM of its own. */
final class LiveProgram {
    private LiveProgram() {
    }

    public static void main(String[] arguments) {
        Gatherer.Options options = Gatherer.with().window(Duration.ZERO);
        if (arguments.length > 1) {
            options.nativeAccess(Boolean.parseBoolean(arguments[1]));
        }
        try (Gatherer gatherer = options.open()) {
            Sample sample = gatherer.sample();
            int total = sample.find("mem.total");
            gatherer.series().forEach(series -> sample.find(series.toString()));
            long takes = Long.parseLong(arguments[0]);
            for (long take = 0; take < takes; take++) {
                sample.take();
            }
            System.out.println(Kernels.fastest().getClass().getSimpleName() + " " + sample.text(total));
        } catch (GatherException refused) {
            System.out.println(refused.getMessage());
        }
    }
}
