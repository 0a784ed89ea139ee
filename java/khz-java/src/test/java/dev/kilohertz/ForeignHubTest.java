package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What answers is no khz, or one that floods, drips or lies: every call ends, with an exception of this library that says why. */
@Timeout(60)
class ForeignHubTest {
    private static final String OK = "HTTP/1.1 200 OK\r\n";
    private static final String JSON = OK + "content-type: application/json\r\n\r\n";
    private static final String EVENTS = OK + "khz-heartbeat: 1\r\n\r\n";

    private static void stream(Client client) {
        try (EventStream stream = client.stream(Subscription.of("a.b"))) {
            stream.next();
        }
    }

    private static void range(Client client) {
        try (RangeStream range = client.range(Range.of("a.b"))) {
            range.next();
        }
    }

    private static KhzException failure(FakeHub hub, Consumer<Client> call) throws IOException {
        return failure(hub, Duration.ofMinutes(5), call);
    }

    private static KhzException failure(FakeHub hub, Duration answerMax, Consumer<Client> call) throws IOException {
        try (hub) {
            Client client = Client.builder(hub.address()).answerBytesMax(1 << 20).answerMax(answerMax).build();
            return assertThrows(KhzException.class, () -> call.accept(client));
        }
    }

    private static KhzException failure(String answer) throws IOException {
        return failure(FakeHub.saying(answer), Client::nodes);
    }

    private static void assertSays(String what, KhzException error) {
        assertTrue(error.getMessage().contains(what), error.toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"a: b\r\n", "a:\n", "content-length: 5\r\n", "x-123456789: 0123456789012345678901234567890123456789\r\n"})
    void aHeadWithoutAnEndIsRefused(String line) throws IOException {
        KhzException error = failure(FakeHub.repeating(OK, line), Client::nodes);
        assertInstanceOf(MalformedException.class, error);
        assertSays("more than 100 lines", error);
    }

    @Test
    void aHeadHasSoManyBytesAtMost() throws IOException {
        String line = "a: " + "b".repeat(16_000) + "\r\n";
        assertSays("65536 bytes", failure(OK + line.repeat(5)));
        assertSays("a line of the answer is longer than 16384 bytes", failure(OK + "a: " + "b".repeat(17_000)));
    }

    @ParameterizedTest
    @ValueSource(strings = {"content-length: -5", "content-length: 5 5", "content-length: 99999999999999999999", "content-length: +5", "content-length:",
        "content-length: 5\r\ncontent-length: 6", "transfer-encoding: gzip"})
    void aLengthThatIsNoneIsRefused(String field) throws IOException {
        KhzException error = failure(OK + field + "\r\n\r\n{}xxxx");
        assertInstanceOf(MalformedException.class, error);
        assertSays("the answer is not HTTP: it", error);
    }

    @ParameterizedTest
    @ValueSource(strings = {"-5", "+5", "zz", "", "ffffffffffffffff", "0x5"})
    void aPieceWhoseLengthIsNoneIsRefused(String length) throws IOException {
        KhzException error = failure(OK + "transfer-encoding: chunked\r\n\r\n" + length + "\r\n{}xxx\r\n");
        assertInstanceOf(MalformedException.class, error);
        assertSays("a piece of its body has the length '" + length + "'", error);
    }

    @Test
    void aBodyThatBreaksOffIsNotCalledTheHead() throws IOException {
        String chunked = OK + "transfer-encoding: chunked\r\n\r\n";
        for (String part : new String[] {chunked, chunked + "5", chunked + "2\r\n{", chunked + "2\r\n{}", OK + "content-length: 5\r\n\r\n{}"}) {
            KhzException error = failure(part);
            assertInstanceOf(UnreachableException.class, error);
            assertSays("ended in the body of the answer", error);
        }
        assertSays("ended in the head of the answer", failure(OK));
    }

    @Test
    void anEventWithoutAnEndIsRefused() throws IOException {
        KhzException data = failure(FakeHub.repeating(EVENTS + "event: newer\n", "data: {}\n"), ForeignHubTest::stream);
        assertInstanceOf(MalformedException.class, data);
        assertSays("several lines of data", data);
        for (String line : new String[] {": x\n", "id: 7\n", "event: newer\n", "\u00fc\n"}) {
            assertSays("has no end within 1048576 bytes", failure(FakeHub.repeating(EVENTS, line), ForeignHubTest::stream));
        }
        assertSays("longer than 1048576 bytes", failure(FakeHub.repeating(EVENTS, "x"), ForeignHubTest::stream));
    }

    @Test
    void aPeerThatIsNeverSilentAndNeverDoneIsGivenUp() throws IOException {
        assertIsTooSlow(FakeHub.dripping("", "HTTP/1.1 200 OK"), Client::nodes);
        assertIsTooSlow(FakeHub.dripping(OK, "a: b\r\n"), Client::nodes);
        assertIsTooSlow(FakeHub.dripping(JSON, " "), Client::nodes);
        assertIsTooSlow(FakeHub.dripping(OK + "transfer-encoding: chunked\r\n\r\n", "1\r\n \r\n"), Client::nodes);
        assertIsTooSlow(FakeHub.dripping("HTTP/1.1 400 x\r\n\r\n", " "), Client::nodes);
        assertIsTooSlow(FakeHub.dripping(JSON, " "), client -> client.removeChannel("hot"));
        assertIsTooSlow(FakeHub.dripping(EVENTS, "x"), ForeignHubTest::stream);
        assertIsTooSlow(FakeHub.dripping(EVENTS, ":\n"), ForeignHubTest::stream);
        assertIsTooSlow(FakeHub.dripping(JSON, " "), ForeignHubTest::range);
    }

    private static void assertIsTooSlow(FakeHub hub, Consumer<Client> call) throws IOException {
        KhzException error = failure(hub, Duration.ofMillis(300), call);
        assertInstanceOf(UnreachableException.class, error);
        assertSays("sends too slowly", error);
        assertSays("answerMax()", error);
    }

    /** Waiting for events, however long, does not count; nor does what the program does meanwhile. */
    @Test
    void aStreamWhoseEventsAreWholeIsNotTooSlow() throws Exception {
        String row = "event: rows\ndata: {\"node\":\"n1\",\"lost\":0,\"rows\":[{\"t\":\"1.0\",\"b\":\"1.0\",\"c\":[]}]}\n";
        String columns = "event: columns\ndata: {\"node\":\"n1\",\"rate\":\"1Hz\",\"period_ns\":1,\"columns\":[]}\n\n";
        try (FakeHub hub = FakeHub.dripping(EVENTS + columns + row, "\n: heartbeat\n\n" + row);
                EventStream stream = Client.builder(hub.address()).answerMax(Duration.ofSeconds(20)).build().stream(Subscription.of("a.b"))) {
            assertTrue(stream.nextRow().isPresent());
            assertTrue(stream.nextRow().isPresent());
        }
        ReadTime time = new ReadTime(10);
        time.add(100);
        time.begin();
        time.add(10);
        time.begin();
        assertThrows(ReadTime.OverException.class, () -> time.add(1));
        time.end();
        time.add(100);
        time.begin();
        time.add(10);
    }

    @Test
    void aLineOfThePastThatSaysNothingIsRefused() throws IOException {
        assertInstanceOf(MalformedException.class, failure(FakeHub.repeating(JSON, "{}\n"), ForeignHubTest::range));
    }

    @Test
    void whatIsCompleteAndNoAnswerOfAKhzDidNotBreakOff() throws IOException {
        for (String body : new String[] {"{}", "{}\n", "{\"status\":\"success\"}", "[1]\n", "<html></html>"}) {
            KhzException stream = failure(FakeHub.saying(JSON + body), ForeignHubTest::stream);
            assertInstanceOf(MalformedException.class, stream, body);
            assertSays("no stream of events", stream);
        }
        for (String body : new String[] {"{}", "{\"node\":\"n1\"}", " [1] ", "\"text\""}) {
            assertInstanceOf(MalformedException.class, failure(FakeHub.saying(JSON + body), ForeignHubTest::range), body);
        }
        for (String cut : new String[] {"", "{\"node\"", "{\"node\":\"n1\"", "{} {"}) {
            assertInstanceOf(UnreachableException.class, failure(FakeHub.saying(JSON + cut), ForeignHubTest::range), cut);
        }
        for (String cut : new String[] {"", "data: {", "event", "event: rows\ndata: {}"}) {
            assertInstanceOf(UnreachableException.class, failure(FakeHub.saying(EVENTS + cut), ForeignHubTest::stream), cut);
        }
    }

    @Test
    void anAnswerWithoutItsFieldIsNone() throws IOException {
        for (String body : new String[] {"{}", "{\"other\":1}"}) {
            KhzException nodes = failure(JSON + body);
            assertInstanceOf(MalformedException.class, nodes);
            assertSays("has no field 'status'", nodes);
            KhzException now = failure(FakeHub.saying(JSON + body), Client::now);
            assertInstanceOf(MalformedException.class, now);
            assertSays("has no field 'nodes'", now);
        }
    }

    @Test
    void messagesHaveNoControlCharacters() throws IOException {
        // In JSON, and as they are.
        String evil = "\\u001b[2J\\u0007\\u009b31m\\r\\n2026 root logged in\\u202e\\u200b\\ud800\\u0000";
        String raw = "\u001b[2J\u0007\u0085\t\u202e";
        assertIsClean("\\u001b[2J\\u0007\\u009b31m; 2026 root", failure("HTTP/1.1 400 x\r\n\r\n{\"error\":\"" + evil + "\"}"));
        RefusedException shown = assertInstanceOf(RefusedException.class,
                failure("HTTP/1.1 400 x\r\n\r\n{\"error\":\"x\",\"shown\":\"x\\n  a[\\u001b\\n   ^\"}"));
        assertEquals("x", shown.getMessage());
        assertEquals(Optional.of("x\n  a[\\u001b\n   ^"), shown.shown());
        assertEquals("one; two; three", failure("HTTP/1.1 400 x\r\n\r\n{\"error\":\"one\\r\\n\\n  two\\rthree\\n\"}").getMessage());
        assertIsClean("2026", failure(FakeHub.saying(EVENTS + "event: dropped\ndata: {\"error\":\"" + evil + "\"}\n\n"), ForeignHubTest::stream));
        assertIsClean("2026", failure(FakeHub.saying(JSON + "{\"error\":\"" + evil + "\"}\n"), ForeignHubTest::range));
        assertIsClean("it begins with", failure(raw + "\r\n"));
        assertIsClean("its head has the line", failure(OK + raw + "\r\n\r\n"));
        assertIsClean("sends to another address", failure("HTTP/1.1 302 x\r\nlocation: " + raw + "\r\n\r\n"));
        assertIsClean("near", failure(JSON + "{" + raw + "}"));
        assertIsClean("is no time", failure(JSON + "{\"status\":[{\"heard_age\":\"" + evil + "\"}]}"));
        assertIsClean("rows of node", failure(FakeHub.saying(EVENTS + "event: rows\ndata: {\"node\":\"" + evil + "\"}\n\n"), ForeignHubTest::stream));
    }

    @Test
    void problemsOfNodesAndDamagesAreOneLine() throws IOException {
        try (FakeHub hub = FakeHub.saying(JSON + "{\"status\":[{\"node\":\"n1\",\"problem\":\"cut\\r\\n\\u001b[2Jhere\"}]}")) {
            assertEquals(Optional.of("cut; \\u001b[2Jhere"), Client.connect(hub.address()).nodes().getFirst().problem());
        }
        try (FakeHub hub = FakeHub.saying(JSON + "{\"damage\":\"file x\\nbyte 7\"}\n{\"end\":{}}\n");
                RangeStream range = Client.connect(hub.address()).range(Range.of("a.b"))) {
            assertEquals(Optional.empty(), range.next());
            assertEquals(List.of("file x; byte 7"), range.damages());
        }
    }

    private static void assertIsClean(String part, KhzException error) {
        assertSays(part, error);
        for (Throwable one = error; one != null; one = one.getCause()) {
            String message = String.valueOf(one.getMessage());
            assertTrue(message.chars().noneMatch(Character::isISOControl), message);
            assertTrue(message.chars().noneMatch(c -> c == 0x202e || c == 0x200b), message);
        }
    }

    @Test
    void aMessageIsNotLongerThanAScreenOrTwo() throws IOException {
        String message = failure("HTTP/1.1 400 x\r\n\r\n{\"error\":\"" + "x".repeat(60_000) + "\"}").getMessage();
        assertTrue(message.length() < 10_000 && message.endsWith("x... (60000 characters)"), message.length() + " characters");
    }

    @ParameterizedTest
    @CsvSource({"302, dev.kilohertz.MalformedException, 'sends to another address (/login)'", "304, dev.kilohertz.MalformedException, 'sends to another'",
        "418, dev.kilohertz.MalformedException, 'does a khz listen there'", "404, dev.kilohertz.MalformedException, 'does a khz listen there'",
        "100, dev.kilohertz.MalformedException, 'does a khz listen there'", "500, dev.kilohertz.MalformedException, 'does a khz listen there'",
        "401, dev.kilohertz.RefusedException, 'wants to know who asks'", "403, dev.kilohertz.RefusedException, 'wants to know who asks'",
        "429, dev.kilohertz.RefusedException, 'limits requests'", "502, dev.kilohertz.UnreachableException, 'the khz behind this proxy does not answer'",
        "503, dev.kilohertz.UnreachableException, 'the khz behind this proxy'", "504, dev.kilohertz.UnreachableException, 'the khz behind this proxy'"})
    void aStatusWithoutASentenceOfAKhzSaysWhatCameAndWhatToDo(int status, Class<?> type, String what) throws IOException {
        for (String body : new String[] {"<html>", "", "{\"error\":", "{\"error\":null}", "{\"message\":\"x\"}"}) {
            KhzException error = failure("HTTP/1.1 " + status + " x\r\nlocation: /login\r\nretry-after: 7\r\n\r\n" + body);
            assertEquals(type, error.getClass(), error.getMessage());
            assertSays("answers with status " + status, error);
            assertSays(what, error);
            if (error instanceof RefusedException refused) {
                assertEquals(status, refused.status());
                assertEquals(status == 429, refused.retryAfter().isPresent());
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"1e2147483648", "1e-2147483648", "1e1000", "1e309", "-1.7e999", "x", "", "0x10", "1e", "Infinity", "1.", ".5", "+1"})
    void aNumberThatNoKhzSendsIsRefused(String number) throws IOException {
        String series = "{\"nodes\":[{\"node\":\"n1\",\"series\":[{\"name\":\"a.b\",\"value\":\"" + number + "\"}]}]}";
        assertSays("is no number of a khz", failure(FakeHub.saying(JSON + series), client -> client.now("a.b")));
        String row = "{\"node\":\"n1\",\"name\":\"a.b\",\"rows\":[[\"5.0\",\"1.5\",\"" + number + "\"]]}\n";
        assertSays("is no number of a khz", failure(FakeHub.saying(JSON + row), ForeignHubTest::range));
    }

    @Test
    void numbersOfAKhzAreRead() {
        for (String number : new String[] {"0", "-0.0125", "18446744073709551615", "1.7976931348623157e308", "5e-324", "1" + "0".repeat(308), "1E+9"}) {
            Reading.Value value = AnswerDecoder.value(number);
            assertEquals(value.decimal().doubleValue(), value.doubleValue(), number);
            assertTrue(value.decimal().toPlainString().length() < 400);
        }
        for (String number : new String[] {"NaN", "+Inf", "-Inf"}) {
            assertFalse(Double.isFinite(AnswerDecoder.value(number).doubleValue()), number);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"1e5", "1e2147483648", "9223372036854775808", "-9223372036854775809", "007", "+1", "-", "1.5", "000000000000000000000000000000000000000000000000001"})
    void aWholeNumberThatIsNoneIsRefused(String number) throws IOException {
        KhzException error = failure(JSON + "{\"status\":[{\"node\":\"n1\",\"lanes\":[{\"name\":\"base\",\"rows\":" + number + "}]}]}");
        assertInstanceOf(MalformedException.class, error);
        assertSays("a whole number of 64 bits was expected", error);
    }

    @ParameterizedTest
    @ValueSource(strings = {"-1", "256", "4294967296"})
    void decimalPlacesThatNoSeriesHasAreRefused(String places) throws IOException {
        String columns = "event: columns\ndata: {\"node\":\"n1\",\"columns\":[{\"name\":\"a.b\",\"places\":" + places + "}]}\n\n";
        assertSays("decimal places", failure(FakeHub.saying(EVENTS + columns), ForeignHubTest::stream));
    }

    @Test
    void aHandshakeHasTheTimeOfAConnection() throws IOException {
        try (FakeHub hub = FakeHub.saying("")) {
            Client client = Client.builder(hub.address().replace("http:", "https:")).connectMax(Duration.ofMillis(50)).build();
            assertSays("no TLS within 50 ms", assertThrows(UnreachableException.class, client::nodes));
        }
    }

    @Test
    void portsAndTimesThatCannotBeAreRefusedWhenTheClientIsMade() {
        for (String address : new String[] {"http://hub:99999", "http://hub:0", "https://hub:65536", "http://[::1]:70000"}) {
            IllegalArgumentException error = assertThrows(IllegalArgumentException.class, () -> Client.connect(address), address);
            assertTrue(error.getMessage().contains("ports are 1 to 65535"), error.getMessage());
        }
        Duration huge = Duration.ofSeconds(Long.MAX_VALUE);
        for (Duration time : new Duration[] {huge, huge.negated(), Duration.ZERO, Duration.ofDays(25), Duration.ofNanos(1)}) {
            Client.Builder client = Client.builder("http://hub");
            for (Consumer<Duration> setting : java.util.List.<Consumer<Duration>>of(client::connectMax, client::silenceMax, client::answerMax)) {
                IllegalArgumentException error = assertThrows(IllegalArgumentException.class, () -> setting.accept(time));
                assertTrue(error.getMessage().contains("at most 24 days"), error.getMessage());
            }
        }
        for (Duration age : new Duration[] {huge, huge.negated(), Duration.ofNanos(-1)}) {
            assertThrows(IllegalArgumentException.class, () -> Client.connect("http://hub").now(age, "a.b"));
        }
    }
}
