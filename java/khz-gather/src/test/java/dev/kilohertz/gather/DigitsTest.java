package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.junit.jupiter.api.Test;

class DigitsTest {
    private static final BigInteger LIMIT = BigInteger.ONE.shiftLeft(64);

    private static String parse(String text, int places) {
        byte[] bytes = text.getBytes(StandardCharsets.ISO_8859_1);
        Digits digits = new Digits();
        State state = digits.parse(bytes, 0, bytes.length, places);
        return state == State.PRESENT ? Long.toUnsignedString(digits.value()) : state.name();
    }

    @Test
    void strangeTextIsRefused() {
        for (String text : new String[] {"", " ", "-1", "1 2", "0x10", "1,000", "1.5", "12345678x", "x2345678", "1234567:",
            "1234567/"}) {
            assertEquals("MALFORMED", parse(text, 0), text);
        }
        for (String text : new String[] {"", ".", ".52", "0.5", "0.520", "052", "0..52", "0.5x", "x.52"}) {
            assertEquals("MALFORMED", parse(text, 2), text);
        }
    }

    @Test
    void beyond64BitsIsOutOfRangeNotWrapped() {
        assertEquals("18446744073709551615", parse("18446744073709551615", 0));
        assertEquals("OUT_OF_RANGE", parse("18446744073709551616", 0));
        assertEquals("OUT_OF_RANGE", parse("99999999999999999999999", 0));
        assertEquals("OUT_OF_RANGE", parse("18446744073709551615.00", 2));
        assertEquals("18446744073709551615", parse("184467440737095516.15", 2));
        assertEquals("OUT_OF_RANGE", parse("184467440737095516.16", 2));
    }

    @Test
    void fixedPointIsExact() {
        assertEquals("52", parse("0.52", 2));
        assertEquals("87380", parse("  873.80", 2));
    }

    @Test
    void everyNumberIsReadAsTheJdkReadsIt() {
        Random random = new Random(1);
        for (int round = 0; round < 200_000; round++) {
            BigInteger number = new BigInteger(random.nextInt(68), random);
            String text = " ".repeat(random.nextInt(12)) + number;
            assertEquals(number.compareTo(LIMIT) < 0 ? number.toString() : "OUT_OF_RANGE", parse(text, 0));
        }
    }

    /** The fast way returns what the slow one returns; it refuses only what it is allowed to. */
    private static void compare(String before, String text, int places, boolean padded) {
        byte[] bytes = (" ".repeat(16) + before + text).getBytes(StandardCharsets.ISO_8859_1);
        long fast = Digits.atTheEnd(bytes, bytes.length, text.length(), places, padded);
        String slow = !padded && text.startsWith(" ") ? "MALFORMED" : parse(text, places);
        String expected = Read.isNumber(slow) && text.length() <= 16 && places != 1 ? slow : null;
        String found = fast == Digits.REFUSED ? null : Long.toUnsignedString(fast);
        assertEquals(expected, found, "'" + before + "' '" + text + "', places " + places + ", padded " + padded);
    }

    @Test
    void theFastWayAgreesOnNumbers() {
        Random random = new Random(2);
        for (int round = 0; round < 300_000; round++) {
            long number = random.nextLong() >>> 22 + random.nextInt(42);
            String pad = " ".repeat(random.nextInt(10));
            String before = word(random, "0123456789 :", random.nextInt(9));
            boolean padded = random.nextBoolean();
            compare(before, pad + number, 0, padded);
            compare(before, pad + number / 100 + "." + String.format("%02d", number % 100), 2, padded);
        }
    }

    @Test
    void theFastWayAgreesOnAnything() {
        Random random = new Random(3);
        int numbers = 0;
        for (int round = 0; round < 2_000_000; round++) {
            String text = word(random, "0123456789  .!*/:x-", 1 + random.nextInt(18));
            compare(word(random, "0123456789 :", random.nextInt(9)), text, random.nextInt(3), random.nextBoolean());
            numbers += Read.isNumber(parse(text, 0)) ? 1 : 0;
        }
        assertTrue(numbers > 1_000, "of so many texts some are numbers");
    }

    @Test
    void theFastWayAgreesOnAnyByteAtAnyPlace() {
        for (String number : new String[] {"7", "1234567", "12345678", "  345678", "123456789", "   4567890123456", "1.23",
            "12345.67", "1234567.89", "    567890123.45"}) {
            for (int at = 0; at < number.length(); at++) {
                for (char c = 0; c < 256; c++) {
                    String text = number.substring(0, at) + c + number.substring(at + 1);
                    for (int places = 0; places <= 2; places += 2) {
                        compare("5", text, places, true);
                        compare("5", text, places, false);
                    }
                }
            }
        }
    }

    private static String word(Random random, String letters, int length) {
        StringBuilder word = new StringBuilder();
        for (int at = 0; at < length; at++) {
            word.append(letters.charAt(random.nextInt(letters.length())));
        }
        return word.toString();
    }
}
