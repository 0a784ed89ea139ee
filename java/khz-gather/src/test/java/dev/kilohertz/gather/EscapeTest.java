package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class EscapeTest {
    @Test
    void charactersWithAMeaningAreEscapedAndComeBack() {
        String[][] names = {{"eth0", "eth0"}, {"br-1.7", "br-1.7"}, {"a b", "a%20b"}, {"a%b", "a%25b"}, {".", "%2E"},
            {"..", "%2E%2E"}, {"ü", "ü"}, {"a\u202eb", "a%E2%80%AEb"}, {"[x]:*?/\\,=\"'", "%5Bx%5D%3A%2A%3F%2F%5C%2C%3D%22%27"},
            {"\u00a0", "%C2%A0"}, {"\u007f", "%7F"}};
        for (String[] name : names) {
            assertEquals(name[1], Escape.escape(name[0]));
            assertEquals(name[0], Escape.unescape(name[1], "whole"));
        }
    }

    @Test
    void whatIsNoEscapeIsRefused() {
        for (String text : new String[] {"%", "a%4", "%G0", "%0g", "%FF"}) {
            assertThrows(IllegalArgumentException.class, () -> Escape.unescape(text, text), text);
        }
    }

    @Test
    void bytesThatAreNotTextAreShownAsNumbers() {
        byte[] bytes = {'a', (byte) 0xC3, (byte) 0xBC, (byte) 0xFF, 0, (byte) 0xE2, (byte) 0x82, 'b', (byte) 0xC3};
        assertEquals("aü\\xFF\\x00\\xE2\\x82b\\xC3", KernelName.of(bytes, 0, bytes.length));
        byte[] mistaken = "\\xFF \\x5C \\x00 dev\\x2duuid \\xff".getBytes(StandardCharsets.US_ASCII);
        assertEquals("\\x5CxFF \\x5Cx5C \\x5Cx00 dev\\x2duuid \\xff", KernelName.of(mistaken, 0, mistaken.length));
        byte[] tooLong = "x".repeat(300).getBytes(StandardCharsets.US_ASCII);
        assertEquals(255, KernelName.of(tooLong, 0, 300).length());
    }
}
