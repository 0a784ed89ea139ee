package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

/**
 * Damaged twins of every captured text, made by code. The parser never gives a wrong number: a damaged number is failed, with its field
 * and line named, and every other reading is unchanged.
 */
class DamagedTest {
    private static final List<Twin> TWINS = twins();

    /** A captured text, and the readings of the undamaged text. */
    private record Twin(KernelFile file, String host, Damage damage, Map<String, String> whole) {
        Twin(KernelFile file, String host, byte[] text) {
            this(file, host, new Damage(text), Read.of(file, text).readings());
        }

        String called(String how) {
            return host + "/" + file.name() + ", " + how;
        }

        int headerLines() {
            return file instanceof NetDevFile ? 2 : 0;
        }

        /** Reads the damaged text with a fresh parser and with one that has read the whole text; they must agree. */
        Read damaged(byte[] text, String how) {
            Read fresh = Read.of(file, text);
            Read longLived = Read.of(file, damage.text());
            longLived.advance(text);
            Map<String, String> expected = fresh.readings();
            longLived.readings().forEach((series, reading) -> {
                if (expected.containsKey(series)) {
                    assertEquals(expected.get(series), reading, () -> called(how) + ": " + series);
                } else {
                    assertFalse(Read.isNumber(reading), () -> called(how) + ": " + series + " outlived its instance");
                }
            });
            assertFalse(expected.containsValue("NOT_YET"), () -> called(how));
            boolean isFailed = expected.values().stream().anyMatch(Read::isFailure);
            assertTrue(!isFailed || !fresh.faults().isEmpty(), () -> called(how) + ": no fault says why");
            assertTrue(fresh.faults().size() <= Sink.FAULTS_MAX, () -> called(how));
            return fresh;
        }

        /** No number differs from that of the whole text. */
        void isNeverWrong(Read read, String how) {
            read.readings().forEach((series, reading) -> {
                if (Read.isNumber(reading)) {
                    assertEquals(whole.get(series), reading, () -> called(how) + ": " + series);
                }
            });
        }
    }

    private static List<Twin> twins() {
        List<Twin> twins = new ArrayList<>();
        for (String host : List.of("linux-6.18-vm2", "linux-6.1-qemu8", "linux-2.4-documented")) {
            for (KernelFile file : Catalogue.FILES) {
                byte[] text = Fixtures.text(Fixtures.root(host), file);
                assertEquals(List.of(), Read.of(file, text).faults(), host + "/" + file.name());
                twins.add(new Twin(file, host, text));
            }
        }
        return twins;
    }

    @Test
    void cutOffAtAnyByteNothingIsWrongAndTheLineIsNamed() {
        for (Twin twin : TWINS) {
            byte[] text = twin.damage.text();
            for (int cut = 0; cut < text.length; cut++) {
                String how = "cut at " + cut;
                Read read = twin.damaged(twin.damage.cut(cut), how);
                twin.isNeverWrong(read, how);
                if (cut == 0 || text[cut - 1] != '\n') {
                    // Which line is missing cannot be known: its slots are failed, not absent.
                    assertTrue(read.readings().values().stream().allMatch(r -> Read.isNumber(r) || Read.isFailure(r)),
                            twin.called(how));
                    String problem = cut == 0 ? "empty" : "ends in the middle of a line";
                    int line = twin.damage.lineOf(cut);
                    assertTrue(read.faults().stream().anyMatch(f -> f.problem().equals(problem) && f.line() == line),
                            () -> twin.called(how) + ": " + read.faults());
                }
            }
        }
    }

    @Test
    void aTextOfWhichNoLineCanBeReadIsFailedNotAbsent() {
        for (Twin twin : TWINS) {
            byte[] garbled = twin.damage.text().clone();
            for (int at = 0; at < garbled.length; at++) {
                garbled[at] = " :=\t/".indexOf(garbled[at]) >= 0 ? (byte) '?' : garbled[at];
            }
            Read read = Read.of(twin.file, twin.damage.text());
            read.advance(garbled);
            assertFalse(read.faults().isEmpty(), twin.called("without its separators"));
            read.readings().forEach((series, reading) -> assertEquals("MALFORMED", reading, twin.called(series)));
        }
    }

    @Test
    void bytesThatAreNoTextGiveNoValue() {
        Random random = new Random(7);
        for (Twin twin : TWINS) {
            for (int length : new int[] {1, 2, 7, 64, 100, 4_096, 70_000}) {
                byte[] bytes = new byte[length];
                random.nextBytes(bytes);
                for (int at = 0; at < length; at++) {
                    // A digit in the right place would be a number.
                    bytes[at] = bytes[at] >= '0' && bytes[at] <= '9' ? 0 : bytes[at];
                }
                hasNoNumber(twin, bytes, length + " bytes");
            }
            for (int value : new int[] {0, '\n', ' ', 0xFF, '9'}) {
                byte[] bytes = new byte[5_000];
                Arrays.fill(bytes, (byte) value);
                hasNoNumber(twin, bytes, "5000 times " + value);
            }
        }
    }

    private static void hasNoNumber(Twin twin, byte[] bytes, String how) {
        Read read = twin.damaged(bytes, how);
        assertTrue(read.readings().values().stream().noneMatch(Read::isNumber), () -> twin.called(how));
    }

    /** Replaces each number in turn. Each changed reading is failed, with its line named. Returns how many failed in all. */
    private static int everyNumberBecomes(String replacement, String state) {
        int failures = 0;
        for (Twin twin : TWINS) {
            for (Damage.Stretch number : twin.damage.numbers()) {
                int line = twin.damage.lineOf(number.start());
                String how = "byte " + number.start() + " became '" + replacement + "'";
                Read read = twin.damaged(twin.damage.with(number.start(), number.end(), replacement), how);
                twin.isNeverWrong(read, how);
                for (Map.Entry<String, String> reading : read.readings().entrySet()) {
                    String whole = twin.whole.get(reading.getKey());
                    if (whole == null || whole.equals(reading.getValue())) {
                        continue;
                    }
                    String about = twin.called(how) + ": " + reading;
                    assertTrue(Read.isNumber(whole), about);
                    assertTrue(Read.isFailure(reading.getValue()), about);
                    assertTrue(state.isEmpty() || state.equals(reading.getValue()), about);
                    assertTrue(read.faults().stream()
                            .anyMatch(fault -> fault.field().equals(reading.getKey()) && fault.line() == line), about);
                    failures++;
                }
            }
        }
        return failures;
    }

    @Test
    void numbersBeyond64BitsAreNotWrapped() {
        assertTrue(everyNumberBecomes("18446744073709551616", "") > 300);
        assertTrue(everyNumberBecomes("99999999999999999999999999", "") > 300);
    }

    @Test
    void wordsThatAreNoNumbersAreMalformed() {
        for (String word : List.of("x", "-1", "1e5", "\0")) {
            assertTrue(everyNumberBecomes(word, "MALFORMED") > 300, word);
        }
    }

    @Test
    void aFieldThatIsMissingIsNeverFilledWithItsNeighbour() {
        for (Twin twin : TWINS) {
            for (Damage.Stretch number : twin.damage.numbers()) {
                // The blank before the number goes too.
                int from = number.start() - (number.start() > 0 && twin.damage.text()[number.start() - 1] == ' ' ? 1 : 0);
                String how = "without the number at " + number.start();
                Read read = twin.damaged(twin.damage.with(from, number.end(), ""), how);
                // Kernels have printed from four to ten states of a CPU: a shorter line looks like that of an older kernel.
                if (!(twin.file instanceof StatFile)) {
                    twin.isNeverWrong(read, how);
                }
                int line = twin.damage.lineOf(from);
                assertTrue(read.faults().stream().allMatch(fault -> fault.line() == line), () -> twin.called(how));
            }
        }
    }

    @Test
    void fieldsThatAreAddedChangeNothingOrFailTheirLine() {
        for (Twin twin : TWINS) {
            List<String> lines = twin.damage.lines();
            for (String added : List.of(" 77777", " 77777 88888", " x", "\t5")) {
                int end = -1;
                for (int number = 0; number < lines.size(); number++) {
                    end += lines.get(number).length();
                    String how = "'" + added + "' after line " + (number + 1);
                    Read read = twin.damaged(twin.damage.with(end, end, added), how);
                    int line = number + 1;
                    // A header with one more column makes the lines below it too short.
                    assertTrue(lines.get(number).contains("|")
                            || read.faults().stream().allMatch(fault -> fault.line() == line), () -> twin.called(how));
                    // A longer line of /proc/stat looks like the line of a newer kernel.
                    if (!(twin.file instanceof StatFile)) {
                        twin.isNeverWrong(read, how);
                    }
                }
            }
        }
    }

    @Test
    void linesInAnyOrderMeanTheSame() {
        Random random = new Random(11);
        for (Twin twin : TWINS) {
            for (int round = 0; round < 20; round++) {
                List<String> lines = new ArrayList<>(twin.damage.lines());
                Collections.shuffle(lines.subList(twin.headerLines(), lines.size()), random);
                Read read = twin.damaged(Damage.join(lines), "order " + round);
                assertEquals(twin.whole, read.readings(), twin.called("order " + round));
                assertEquals(List.of(), read.faults());
            }
        }
    }

    @Test
    void aLineThatAppearsTwiceFailsAndNoOther() {
        for (Twin twin : TWINS) {
            for (int number = 0; number < twin.damage.lines().size(); number++) {
                List<String> lines = new ArrayList<>(twin.damage.lines());
                lines.add(number, lines.get(number));
                String how = "line " + (number + 1) + " twice";
                int second = number + 2;
                Read read = twin.damaged(Damage.join(lines), how);
                twin.isNeverWrong(read, how);
                read.readings().forEach((series, reading) -> assertTrue(
                        reading.equals(twin.whole.get(series)) || reading.equals("MALFORMED"), twin.called(how)));
                assertTrue(read.faults().stream().allMatch(fault -> fault.line() == second), () -> twin.called(how));
            }
        }
    }

    @Test
    void aMissingLineLeavesTheOthersUnchanged() {
        for (Twin twin : TWINS) {
            int count = twin.damage.lines().size();
            for (int number = twin.headerLines(); number < count; number++) {
                List<String> lines = new ArrayList<>(twin.damage.lines());
                lines.remove(number);
                String how = "without line " + (number + 1);
                Read read = twin.damaged(Damage.join(lines), how);
                twin.isNeverWrong(read, how);
                boolean isNumberLeft = read.readings().values().stream().anyMatch(Read::isNumber);
                assertEquals(count > twin.headerLines() + 1, isNumberLeft, twin.called(how));
            }
        }
    }

    @Test
    void countersThatGoBackwardsAreReadAsPrinted() {
        for (Twin twin : TWINS) {
            Read longLived = Read.of(twin.file, twin.damage.text());
            for (char digit : new char[] {'9', '1', '0', '5', '0'}) {
                byte[] bytes = twin.damage.text().clone();
                for (Damage.Stretch number : twin.damage.numbers()) {
                    for (int at = number.start(); at < number.end(); at++) {
                        bytes[at] = bytes[at] == '.' ? bytes[at] : (byte) digit;
                    }
                }
                longLived.advance(bytes);
                Read fresh = Read.of(twin.file, bytes);
                assertEquals(fresh.readings(), longLived.readings(), twin.called("all " + digit));
                assertEquals(fresh.faults(), longLived.faults());
            }
        }
    }
}
