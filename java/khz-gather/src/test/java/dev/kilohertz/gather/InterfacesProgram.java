package dev.kilohertz.gather;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;

/**
 * Prints how many interfaces the gatherer finds, how many of their received packets differ from those below /sys, and how many reads were
 * full parses. A test starts it where there are many interfaces.
 */
final class InterfacesProgram {
    private static final int TAKES = 100;

    private InterfacesProgram() {
    }

    public static void main(String[] arguments) throws Exception {
        try (Gatherer gatherer = Gatherer.with().window(Duration.ZERO).open()) {
            Sample sample = gatherer.sample();
            int found = 0;
            int different = 0;
            for (Series series : gatherer.series()) {
                if (series.metric().name().equals("net.rx_packets")) {
                    int packets = sample.find(series.toString());
                    sample.take();
                    found++;
                    Path file = Path.of("/sys/class/net", series.instance(), "statistics/rx_packets");
                    different += Files.readString(file).trim().equals(sample.text(packets)) ? 0 : 1;
                }
            }
            long before = gatherer.status().get(Catalogue.FILES.size() - 1).fullParses();
            for (int take = 0; take < TAKES; take++) {
                sample.take();
            }
            long fullParses = gatherer.status().get(Catalogue.FILES.size() - 1).fullParses() - before;
            System.out.println(found + " interfaces, " + different + " differ, " + fullParses + " full parses");
        }
    }
}
