package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** What the gatherer reads of captured hosts is what khz prints of them, digit for digit. */
class CapturedTest {
    private static final Pattern PAIR = Pattern.compile("\"(\\w+)\":\"([^\"\\\\]*)\"");
    private static final Set<String> NAMES =
            Gatherer.metrics().stream().map(Metric::name).collect(Collectors.toCollection(TreeSet::new));

    /** The objects of khz that the gatherer has, in their order. */
    private static List<String> expected(String host) throws IOException {
        List<String> lines = new ArrayList<>();
        for (String object : Fixtures.expected(host)) {
            Map<String, String> pairs = PAIR.matcher(object).results()
                    .collect(Collectors.toMap(pair -> pair.group(1), pair -> pair.group(2), (inner, own) -> own));
            if (NAMES.contains(pairs.get("name"))) {
                lines.add(line(pairs.get("name"), pairs.getOrDefault("instance", ""), pairs.get("kind"), pairs.get("unit"),
                        pairs.containsKey("value") ? pairs.get("value") : pairs.get("absent")));
            }
        }
        return lines;
    }

    private static String line(String... parts) {
        return String.join(" | ", parts);
    }

    private static List<String> found(Gatherer gatherer) {
        List<String> lines = new ArrayList<>();
        try (Sample sample = gatherer.sample()) {
            List<Series> all = gatherer.series();
            all.forEach(series -> sample.find(series.toString()));
            assertTrue(sample.take());
            for (int number = 0; number < all.size(); number++) {
                Metric metric = sample.metric(number);
                lines.add(line(metric.name(), all.get(number).instance(), metric.kind().word(), metric.unit().word(),
                        sample.text(number)));
            }
        }
        return lines;
    }

    @Test
    void everySeriesOfACapturedHostIsAsKhzPrintsIt() throws IOException {
        for (String host : List.of("linux-6.18-vm2", "linux-6.1-qemu8", "linux-2.4-documented")) {
            List<String> expected = expected(host);
            assertTrue(expected.size() > 120, host);
            try (Gatherer gatherer = Gatherer.with().root(Fixtures.root(host)).nativeAccess(false).open()) {
                assertEquals(expected, found(gatherer), host);
                assertTrue(gatherer.status().stream().allMatch(source -> source.problem().isEmpty()));
            }
        }
    }

    @Test
    void everyMetricOfTheFiveFilesIsAMetricOfKhz() throws IOException {
        Set<String> known = new TreeSet<>();
        for (String object : Fixtures.expected("linux-6.18-vm2")) {
            Matcher name = Pattern.compile("\"name\":\"([^\"]+)\"").matcher(object);
            assertTrue(name.find(), object);
            known.add(name.group(1));
        }
        assertTrue(known.containsAll(NAMES));
        assertEquals(Gatherer.metrics().size(), NAMES.size(), "a name is taken twice");
    }

    /** All numbers in a text: 0.52 is 52. */
    private static Set<String> numbers(byte[] text) {
        return Pattern.compile("[0-9.]+").matcher(new String(text, java.nio.charset.StandardCharsets.ISO_8859_1)).results()
                .map(number -> number.group().replace(".", "").replaceFirst("^0+(?=.)", "")).collect(Collectors.toSet());
    }

    @Test
    void everyNumberThatIsReadIsInTheText() {
        for (String host : Fixtures.HOSTS) {
            for (KernelFile file : Catalogue.FILES) {
                byte[] text = Fixtures.text(Fixtures.root(host), file);
                Read read = Read.of(file, text);
                assertEquals(List.of(), read.faults(), host + "/" + file.name());
                Set<String> printed = numbers(text);
                long present = read.readings().entrySet().stream().filter(one -> Read.isNumber(one.getValue()))
                        .peek(one -> assertTrue(printed.contains(one.getValue())
                                || printed.contains(Long.toString(Long.parseLong(one.getValue()) / 1_024)), one::toString))
                        .count();
                assertTrue(present >= 2, host + "/" + file.name());
            }
        }
    }

    @Test
    void aHostGoesOnAndTheParserWithIt() {
        for (String host : List.of("linux-6.1-qemu8", "linux-6.1-qemu64", "linux-6.12-qemu4")) {
            for (KernelFile file : Catalogue.FILES) {
                Read longLived = Read.of(file, Fixtures.text(Fixtures.root(host), file));
                byte[] later = Fixtures.text(Fixtures.later(host), file);
                longLived.advance(later);
                Map<String, String> fresh = Read.of(file, later).readings();
                longLived.readings().forEach((series, reading) ->
                        assertEquals(fresh.getOrDefault(series, "INSTANCE_GONE"), reading, host + ": " + series));
            }
        }
    }

    @Test
    void linux61WithACpuOfflineAnInterfaceRenamedAndOneRemoved() {
        Read stat = twice(new StatFile());
        assertEquals("422", stat.get("cpu.idle[1]"));
        assertEquals("INSTANCE_GONE", stat.get("cpu.idle[2]"));
        assertEquals("491", stat.get("cpu.idle[3]"));
        assertEquals("3542", stat.get("cpu.all.idle"));
        Read net = twice(new NetDevFile());
        assertEquals("13440", net.get("net.rx_bytes[lo]"));
        assertEquals("364", net.get("net.tx_bytes[dummy1]"));
        assertEquals("INSTANCE_GONE", net.get("net.tx_bytes[dummy3]"));
        assertEquals("70", net.get("net.tx_bytes[renamed3]"));
        assertEquals("INSTANCE_GONE", net.get("net.tx_bytes[dummy5]"));
    }

    private static Read twice(KernelFile file) {
        Read read = Read.of(file, Fixtures.text(Fixtures.root("linux-6.1-qemu8"), file));
        read.advance(Fixtures.text(Fixtures.later("linux-6.1-qemu8"), file));
        return read;
    }
}
