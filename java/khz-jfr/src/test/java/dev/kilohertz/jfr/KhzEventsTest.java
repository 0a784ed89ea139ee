package dev.kilohertz.jfr;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kilohertz.KhzProgram;
import dev.kilohertz.Patience;
import dev.kilohertz.Snapshot;
import dev.kilohertz.SnapshotException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import jdk.jfr.Configuration;
import jdk.jfr.Event;
import jdk.jfr.FlightRecorder;
import jdk.jfr.Name;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Recordings of this JVM over a real khz. */
class KhzEventsTest {
    private static final List<String> TYPES = List.of("khz.Cpu", "khz.Pressure", "khz.RunQueue", "khz.Network");
    private static final Duration PERIOD = Duration.ofMillis(200);

    @TempDir
    Path folder;
    private KhzProgram khz;
    private KhzEvents events;

    @AfterEach
    void end() {
        if (events != null) {
            events.close();
        }
        if (khz != null) {
            khz.close();
        }
    }

    /** Starts a khz, and waits until its snapshot has everything that events need. */
    private void startKhz() throws Exception {
        khz = KhzProgram.alone(folder);
        Set<String> needed = Set.of("cpu.all.steal", "pressure.io.full.total", "kernel.procs_blocked", "net.tx_packets[lo]", "load.1m");
        Patience.until("everything was gathered", () -> {
            try (Snapshot node = Snapshot.open(khz.snapshot())) {
                return needed.stream().noneMatch(name -> Double.isNaN(node.doubleValue(node.handle(name))));
            } catch (SnapshotException e) {
                return false;
            }
        });
    }

    private static Recording recording() {
        Recording recording = new Recording();
        TYPES.forEach(type -> recording.enable(type).withPeriod(PERIOD));
        return recording;
    }

    /** The events until now. */
    private Recorded dumped(Recording recording) throws Exception {
        Path file = Files.createTempFile(folder, "recording", ".jfr");
        recording.dump(file);
        return new Recorded(file);
    }

    private void awaitEvents(Recording recording, int count) throws Exception {
        Patience.until("there are events of each type", () -> {
            Recorded recorded = dumped(recording);
            for (String type : TYPES) {
                if (recorded.events(type).size() < count) {
                    return false;
                }
            }
            return true;
        });
    }

    @Test
    void theJdksToolPrintsEventsWithTheValuesOfKhz() throws Exception {
        startKhz();
        double before = now("pressure.cpu.some.total");
        events = KhzEvents.start(khz.snapshot());
        assertEquals("", events.problem());
        try (Recording recording = recording()) {
            recording.start();
            awaitEvents(recording, 3);
            recording.stop();
            Recorded recorded = dumped(recording);
            checkCpu(recorded);
            checkPressure(recorded, get("pressure.cpu.some.total") - before);
            checkRunQueue(recorded);
        }
    }

    /** What {@code khz get} shows. */
    private double get(String series) throws Exception {
        String line = khz.run("get", series, "--format", "properties").lines().filter(l -> !l.startsWith("#")).findFirst().orElseThrow();
        return Double.parseDouble(line.substring(line.lastIndexOf('=') + 1).strip());
    }

    /** What the snapshot has: it is never newer than what events have that come later. */
    private double now(String series) {
        try (Snapshot node = Snapshot.open(khz.snapshot())) {
            return node.doubleValue(node.handle(series));
        }
    }

    private static void checkCpu(Recorded recorded) throws Exception {
        List<String> user = recorded.json("khz.Cpu", "user");
        assertEquals(recorded.events("khz.Cpu").size(), user.size());
        for (RecordedEvent event : recorded.events("khz.Cpu")) {
            double sum = 0;
            for (String mode : List.of("user", "nice", "system", "idle", "iowait", "interrupts", "steal")) {
                float share = event.getFloat(mode);
                // Unknown, because the kernel's count stepped back.
                sum += Float.isNaN(share) ? 0 : share;
                assertTrue(Float.isNaN(share) || share >= 0 && share < 1.5, mode + " " + share);
            }
            assertTrue(sum > 0.5 && sum < 1.5, "the shares add up to " + sum);
            assertTrue(event.getDuration("period").toNanos() > 0);
        }
        assertTrue(recorded.printed("--events", "khz.Cpu").contains("%"));
    }

    private static void checkPressure(Recorded recorded, double most) throws Exception {
        assertEquals(Set.of("cpu", "memory", "io"), Set.copyOf(recorded.json("khz.Pressure", "resource")));
        double stalled = 0;
        for (RecordedEvent event : recorded.events("khz.Pressure")) {
            assertTrue(event.getFloat("someAverage") >= 0 && event.getFloat("someAverage") <= 1, event.toString());
            assertTrue(event.getDuration("fullStalled").compareTo(event.getDuration("someStalled").plusMillis(1)) <= 0, event.toString());
            stalled += event.getString("resource").equals("cpu") ? event.getDuration("someStalled").toNanos() / 1e9 : 0;
        }
        assertTrue(stalled >= 0 && stalled <= most + 1e-6, "stalled for " + stalled + " s of at most " + most);
    }

    private static void checkRunQueue(Recorded recorded) throws Exception {
        for (RecordedEvent event : recorded.events("khz.RunQueue")) {
            assertTrue(event.getDouble("load1m") >= 0);
            // At least the one that reads this number.
            assertTrue(event.getLong("running") >= 1, event.toString());
            assertTrue(event.getLong("blocked") >= 0);
        }
        assertTrue(Double.parseDouble(recorded.json("khz.RunQueue", "load1m").getFirst()) >= 0);
    }

    @Test
    void theBytesOfAllEventsOfAnInterfaceAreThoseThatItHasCounted() throws Exception {
        startKhz();
        double first = now("net.rx_bytes[lo]");
        events = KhzEvents.start(khz.snapshot());
        try (Recording recording = recording()) {
            recording.start();
            double before = get("net.rx_bytes[lo]");
            sendToMyself(5_000_000);
            double after = get("net.rx_bytes[lo]");
            assertTrue(after - before >= 5_000_000);
            Patience.until("the bytes are recorded", () -> bytes(dumped(recording)) >= 5_000_000);
            recording.stop();
            Recorded recorded = dumped(recording);
            assertTrue(bytes(recorded) <= get("net.rx_bytes[lo]") - first + 1);
            assertTrue(recorded.json("khz.Network", "device").contains("lo"));
            assertTrue(recorded.printed("--events", "khz.Network").contains("B/s"), recorded.printed("--events", "khz.Network"));
        }
    }

    private static double bytes(Recorded recorded) throws Exception {
        return recorded.events("khz.Network").stream().filter(event -> event.getString("device").equals("lo"))
                .mapToDouble(event -> event.getDouble("received") * event.getDuration("period").toNanos() / 1e9).sum();
    }

    private static void sendToMyself(int count) throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
                Socket sender = new Socket(server.getInetAddress(), server.getLocalPort());
                Socket receiver = server.accept()) {
            Thread writer = Thread.ofVirtual().start(() -> {
                try {
                    sender.getOutputStream().write(new byte[count]);
                    sender.shutdownOutput();
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            });
            assertEquals(count, receiver.getInputStream().transferTo(new ByteArrayOutputStream()));
            writer.join();
        }
    }

    @Test
    void withoutAnAgentThereAreNoEventsAndAfterItsStartThereAre() throws Exception {
        KhzProgram.program();
        events = KhzEvents.start(folder.resolve("ring/n1/snapshot"));
        assertTrue(events.problem().contains("there is no snapshot"), events.problem());
        try (Recording recording = recording()) {
            recording.enable(Beat.class).withPeriod(PERIOD);
            recording.start();
            awaitBeats(recording);
            for (String type : TYPES) {
                assertTrue(dumped(recording).events(type).isEmpty(), type);
            }
            Patience.until("an event says why", () -> dumped(recording).events("khz.Problem").stream()
                    .anyMatch(event -> event.getString("problem").contains("there is no snapshot")));
            startKhz();
            awaitEvents(recording, 2);
            khz.end();
            awaitBeats(recording);
            int ended = dumped(recording).events("khz.RunQueue").size();
            awaitBeats(recording);
            assertEquals(ended, dumped(recording).events("khz.RunQueue").size());
            startKhz();
            awaitEvents(recording, ended + 2);
        }
    }

    /** Waits until each periodic event has had three chances to be made. */
    private void awaitBeats(Recording recording) throws Exception {
        int before = dumped(recording).events("test.Beat").size();
        Runnable beat = () -> new Beat().commit();
        FlightRecorder.addPeriodicEvent(Beat.class, beat);
        try {
            Patience.until("JFR has asked for events", () -> dumped(recording).events("test.Beat").size() >= before + 3);
        } finally {
            FlightRecorder.removePeriodicEvent(beat);
        }
    }

    /** An event that is always made. */
    @Name("test.Beat")
    static final class Beat extends Event {}

    @Test
    void startedTwiceTheyAreRecordedOnce() throws Exception {
        KhzProgram.program();
        Path snapshot = folder.resolve("ring/n1/snapshot");
        events = KhzEvents.start(snapshot);
        assertSame(events, KhzEvents.start(snapshot));
        IllegalStateException error = assertThrows(IllegalStateException.class, KhzEvents::start);
        assertTrue(error.getMessage().contains("close them"), error.getMessage());
        events.close();
        events.close();
        KhzEvents again = KhzEvents.start(folder);
        assertFalse(again == events);
        events = again;
    }

    @Test
    void aRecordingCountsFromItsBeginning() throws Exception {
        startKhz();
        events = KhzEvents.start(khz.snapshot());
        sendToMyself(3_000_000);
        double sent = get("net.rx_bytes[lo]");
        Patience.until("the snapshot has the bytes", () -> now("net.rx_bytes[lo]") >= sent);
        try (Recording recording = recording()) {
            recording.start();
            awaitEvents(recording, 1);
            recording.stop();
            assertTrue(bytes(dumped(recording)) <= get("net.rx_bytes[lo]") - sent + 1, "bytes of before the recording are in it");
        }
    }

    @Test
    void khzJfcHasEveryEvent() throws Exception {
        Configuration settings;
        try (InputStreamReader reader = new InputStreamReader(KhzEvents.class.getResourceAsStream("/khz.jfc"), StandardCharsets.UTF_8)) {
            settings = Configuration.create(reader);
        }
        assertEquals("Kilohertz", settings.getLabel());
        assertEquals(Stream.concat(TYPES.stream(), Stream.of("khz.Problem")).sorted().toList(),
                settings.getSettings().keySet().stream().map(key -> key.substring(0, key.indexOf('#'))).distinct().sorted().collect(Collectors.toList()));
        for (String type : TYPES) {
            assertEquals("true", settings.getSettings().get(type + "#enabled"));
            assertEquals("1 s", settings.getSettings().get(type + "#period"));
        }
    }
}
