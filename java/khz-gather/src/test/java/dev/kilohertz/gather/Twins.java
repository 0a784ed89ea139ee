package dev.kilohertz.gather;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;

/**
 * A sequence of texts, always the same: captured texts that change step by step, most of them damaged. And what a parser reads of them,
 * as the example {@code twins} of khz-parse prints it.
 */
final class Twins {
    /** How many texts there are. */
    static final int COUNT = 6_000;

    private static final List<String> HOSTS =
            List.of("linux-6.18-vm2", "linux-6.12-qemu4", "linux-6.1-qemu8", "linux-2.4-documented");
    private static final int CHANGES_MAX = 4;
    private static final int BEGIN_ANEW_ONE_IN = 20;

    /** Takes one text after the other. */
    @FunctionalInterface
    interface Taker {
        /**
         * Takes a text.
         *
         * @param file the number of its file
         * @param isFresh true if a fresh parser is to read it
         * @param text the text
         */
        void take(int file, boolean isFresh, byte[] text);
    }

    private final Random random = new Random(1);
    private final byte[][] originals = new byte[Catalogue.FILES.size()][];
    private final byte[][] texts = new byte[Catalogue.FILES.size()][];

    private Twins() {
    }

    /** Makes the texts. */
    static void forEach(Taker taker) {
        Twins twins = new Twins();
        for (int number = 0; number < COUNT; number++) {
            twins.next(taker);
        }
    }

    private void next(Taker taker) {
        int file = random.nextInt(texts.length);
        boolean isFresh = texts[file] == null || random.nextInt(BEGIN_ANEW_ONE_IN) == 0;
        if (isFresh) {
            String host = HOSTS.get(random.nextInt(HOSTS.size()));
            originals[file] = Fixtures.text(Fixtures.root(host), Catalogue.FILES.get(file));
            texts[file] = originals[file];
        } else {
            for (int changes = random.nextInt(CHANGES_MAX); changes >= 0; changes--) {
                texts[file] = AgreementTest.change(texts[file], random);
            }
        }
        if (texts[file].length < originals[file].length / 2) {
            texts[file] = originals[file];
        }
        taker.take(file, isFresh, texts[file]);
    }

    /** What the gatherer reads of each text, a line each. */
    static List<String> lines() {
        List<String> lines = new ArrayList<>();
        Read[] reads = new Read[Catalogue.FILES.size()];
        forEach((file, isFresh, text) -> {
            reads[file] = isFresh ? new Read(Catalogue.FILES.get(file)) : reads[file];
            reads[file].advance(text);
            lines.add(file + " " + line(reads[file]));
        });
        return lines;
    }

    private static String line(Read read) {
        List<Series> series = read.parser().slots().series();
        List<String> readings = new ArrayList<>();
        for (int slot = 0; slot < series.size(); slot++) {
            byte state = read.parser().readings().state(slot);
            String value = state == State.PRESENT.code()
                    ? Long.toUnsignedString(read.parser().readings().value(slot)) : "!" + (state & 0xFF);
            readings.add(series.get(slot) + "=" + value);
        }
        // By bytes, as Rust sorts.
        readings.sort(Comparator.comparing(one -> new String(one.getBytes(StandardCharsets.UTF_8), StandardCharsets.ISO_8859_1)));
        String faults = read.faults().stream().map(FaultNote::toString).collect(Collectors.joining(" ; "));
        return String.join(" ", readings) + " | " + faults;
    }
}
