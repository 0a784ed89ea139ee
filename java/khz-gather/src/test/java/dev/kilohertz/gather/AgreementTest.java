package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

/**
 * The differential and the full parser always agree, whatever happens to the text between two reads: numbers move, grow and shrink,
 * lines come, go and change places, bytes break, the end is cut off.
 */
class AgreementTest {
    private static final int CASES = 1_500;
    private static final String STRANGE = "\n 7:x\0";

    /** Every reading of the long-lived parser equals that of a fresh parser that sees only this text. */
    private static void agree(Read longLived, byte[] text, String about) {
        Map<String, String> fresh = Read.of(longLived.file(), text).readings();
        Map<String, String> kept = longLived.readings();
        kept.forEach((series, reading) -> {
            if (fresh.containsKey(series)) {
                assertEquals(fresh.get(series), reading, () -> about + ": " + series + "\n" + new String(text, StandardCharsets.ISO_8859_1));
            } else {
                assertFalse(Read.isNumber(reading), () -> about + ": " + series + " outlived its instance");
            }
        });
        assertTrue(kept.keySet().containsAll(fresh.keySet()), about);
    }

    static byte[] change(byte[] text, Random random) {
        Damage damage = new Damage(text);
        List<Damage.Stretch> numbers = damage.numbers();
        if (text.length == 0 || numbers.isEmpty()) {
            return text;
        }
        int at = random.nextInt(text.length);
        Damage.Stretch number = numbers.get(random.nextInt(numbers.size()));
        int choice = random.nextInt(24);
        if (choice < 13) {
            byte[] digits = text.clone();
            for (int place = number.start(); place < number.end(); place++) {
                digits[place] = digits[place] == '.' ? digits[place] : (byte) ('0' + random.nextInt(10));
            }
            return digits;
        }
        return switch (choice) {
            case 13, 14 -> damage.with(number.start(), number.end(), Integer.toString(random.nextInt(200)));
            case 15 -> damage.with(number.start(), number.end(), Long.toUnsignedString(random.nextLong()));
            case 16 -> damage.with(at, at + 1, String.valueOf((char) random.nextInt(256)));
            case 17 -> damage.with(at, at + 1, letter(random));
            case 18 -> damage.with(at, at, letter(random));
            case 19 -> damage.cut(at);
            default -> lines(damage, random, choice);
        };
    }

    private static String letter(Random random) {
        return String.valueOf(STRANGE.charAt(random.nextInt(STRANGE.length())));
    }

    private static byte[] lines(Damage damage, Random random, int choice) {
        List<String> lines = new ArrayList<>(damage.lines());
        int row = random.nextInt(lines.size());
        switch (choice) {
            case 20 -> lines.remove(row);
            case 21 -> lines.add(row, lines.get(row));
            default -> Collections.swap(lines, row, random.nextInt(lines.size()));
        }
        return Damage.join(lines);
    }

    @Test
    void differentialAndFullParserAgree() {
        Random random = new Random(20_261_128);
        int inPlace = 0;
        for (int round = 0; round < CASES; round++) {
            KernelFile file = Catalogue.FILES.get(random.nextInt(Catalogue.FILES.size()));
            // The text of 64 CPUs would take most of the time and show nothing else.
            String host = List.of("linux-6.18-vm2", "linux-6.12-qemu4", "linux-6.1-qemu8", "linux-2.4-documented")
                    .get(random.nextInt(4));
            byte[] original = Fixtures.text(Fixtures.root(host), file);
            byte[] text = original;
            Read read = new Read(file);
            int steps = 2 + random.nextInt(10);
            for (int step = 0; step < steps; step++) {
                inPlace += read.advance(text) ? 1 : 0;
                agree(read, text, "case " + round + ", step " + step + " of " + host + "/" + file.name());
                text = text.length < original.length / 2 ? original : text;
                for (int changes = random.nextInt(6); changes > 0; changes--) {
                    text = change(text, random);
                }
            }
        }
        assertTrue(inPlace > CASES, "only " + inPlace + " texts were parsed in place");
    }

    @Test
    void foreignBytesNeverLeaveAnOldValue() {
        Random random = new Random(5);
        for (int round = 0; round < 2_000; round++) {
            KernelFile file = Catalogue.FILES.get(random.nextInt(Catalogue.FILES.size()));
            Read read = Read.of(file, Fixtures.text(Fixtures.root("linux-6.18-vm2"), file));
            byte[] bytes = new byte[random.nextInt(2_000)];
            random.nextBytes(bytes);
            read.advance(bytes);
            agree(read, bytes, "case " + round);
        }
    }

    /** Texts with words that this parser does not know, before and after others, as a newer kernel may have them. */
    private static final Map<KernelFile, String> NEWER = Map.of(
            new NetDevFile(), "Inter-|   Receive          |  Transmit\n face |bytes novel packets errs|bytes later packets\n"
                    + "eth0: 101 77 202   3 404 88 505\n   lo:   1  7   2   3   4  8   5\n",
            new StatFile(), "cpu  10 20 30 40 50 60 70 80 90 100 110 120\ncpu0 10 20 30 40 50 60 70 80 90 100 110 120\n"
                    + "ctxt 7 8\nbtime 9\n");

    /** An unwanted word may change, but it must stay one word, because the words after it are counted from it. */
    @Test
    void aWordThatVanishesOrBecomesTwoIsReadAsByAParserThatNeverSawIt() {
        NEWER.forEach((file, text) -> wordsChange(file, text.getBytes(StandardCharsets.ISO_8859_1)));
        for (KernelFile file : Catalogue.FILES) {
            wordsChange(file, Fixtures.text(Fixtures.root("linux-6.18-vm2"), file));
        }
    }

    private static void wordsChange(KernelFile file, byte[] text) {
        Read read = new Read(file);
        // The first bytes of each file are enough: the interrupts and counters after them are of one kind.
        for (int at = 0; at < Math.min(text.length, 400); at++) {
            for (int width : new int[] {1, 3}) {
                for (char c : new char[] {' ', '\t', '\n', 'x'}) {
                    byte[] changed = text.clone();
                    for (int place = at; place < Math.min(at + width, text.length); place++) {
                        changed[place] = text[place] == '\n' ? text[place] : (byte) c;
                    }
                    read.advance(text);
                    read.advance(changed);
                    agree(read, changed, file.name() + ": byte " + at + " is '" + c + "'");
                }
            }
        }
    }

    @Test
    void aTextThatDoesNotChangeNeedsNoParse() {
        for (String host : Fixtures.HOSTS) {
            for (KernelFile file : Catalogue.FILES) {
                byte[] text = Fixtures.text(Fixtures.root(host), file);
                Read read = Read.of(file, text);
                long changes = read.parser().readings().changes();
                assertTrue(read.advance(text), host + "/" + file.name());
                assertEquals(changes, read.parser().readings().changes(), host + "/" + file.name());
            }
        }
    }
}
