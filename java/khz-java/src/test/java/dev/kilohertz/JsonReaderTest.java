package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class JsonReaderTest {
    private static JsonReader of(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return new JsonReader(bytes, 0, bytes.length);
    }

    @Test
    void objectsAndArraysAreReadInOrder() {
        JsonReader json = of(" { \"a\" : [1, -2 , 9223372036854775807], \"b\":{}, \"c\":[], \"d\":null, \"e\":true, \"f\":false } ");
        json.beginObject();
        assertEquals("a", json.key());
        json.beginArray();
        assertTrue(json.more());
        assertEquals(1, json.number());
        assertTrue(json.more());
        assertEquals(-2, json.number());
        assertTrue(json.more());
        assertEquals(Long.MAX_VALUE, json.number());
        assertFalse(json.more());
        assertEquals("b", json.key());
        json.beginObject();
        assertNull(json.key());
        assertEquals("c", json.key());
        json.beginArray();
        assertFalse(json.more());
        assertEquals("d", json.key());
        assertNull(json.textOrNull());
        assertEquals("e", json.key());
        assertTrue(json.bool());
        assertEquals("f", json.key());
        assertFalse(json.bool());
        assertNull(json.key());
        json.end();
    }

    @Test
    void textsHaveEveryEscape() {
        assertEquals("plain ü😀", of("\"plain ü😀\"").text());
        assertEquals("\"\\/\b\f\n\r\t\u00fc\u202e😀", of("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00fc\\u202E\\ud83d\\ude00\"").text());
        assertEquals("a\"ü\"", of("\"a\\\"ü\\\"\"").text());
    }

    @Test
    void whatNobodyAskedForIsSkipped() {
        JsonReader json = of("{\"new\":{\"deep\":[1.5e-3,{\"x\":\"}\"},[[]],null,true]},\"old\":7}");
        json.beginObject();
        assertEquals("new", json.key());
        json.skip();
        assertEquals("old", json.key());
        assertEquals(7, json.number());
        assertNull(json.key());
        json.end();
    }

    @Test
    void aValueIsGivenAsItIsWritten() {
        JsonReader json = of("{\"a\": {\"b\": [1, \"x\"]} }");
        json.beginObject();
        json.key();
        assertEquals("{\"b\": [1, \"x\"]}", json.written());
    }

    @Test
    void anythingElseIsRefusedWithItsPlace() {
        String deep = "[".repeat(100) + "]".repeat(100);
        String[] wrong = {"", "{", "[", "[1", "[1,", "[1,]", "[1 2]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "\"a", "\"\\x\"", "\"\\u12\"", "nul",
            "tru", "[1]]", "{\"a\":1 \"b\":2}", deep, "x", "\"\\"};
        for (String text : wrong) {
            MalformedException error = assertThrows(MalformedException.class, () -> {
                JsonReader json = of(text);
                json.skip();
                json.end();
            }, text);
            assertTrue(error.getMessage().contains("at byte"), error.getMessage());
        }
        assertThrows(MalformedException.class, () -> of("99999999999999999999").number());
        assertThrows(MalformedException.class, () -> of("-").number());
    }

    @Test
    void everyBeginningOfAnAnswerIsRefused() {
        String whole = "{\"nodes\":[{\"node\":\"n\\u0031\",\"series\":[{\"name\":\"a\",\"instance\":null,\"value\":\"1\",\"stamp\":\"1.5\"}]}],\"missing\":[\"n2\"]}";
        for (int i = 0; i < whole.length(); i++) {
            String part = whole.substring(0, i);
            assertThrows(MalformedException.class, () -> NowDecoder.decode(of(part)), part);
        }
        Now now = NowDecoder.decode(of(whole));
        assertEquals("n1", now.samples().getFirst().node());
        assertEquals("n2", now.missing().getFirst());
    }
}
