package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where the khz of this machine is looked for: as khz itself looks, with the same variables of the environment. */
class PlacesTest {
    @TempDir
    Path folder;
    private final Map<String, String> environment = new HashMap<>();
    private final Places places = new Places(environment::get);

    private Path snapshot(String directory, String node) throws IOException {
        Path file = Files.createDirectories(folder.resolve(directory).resolve(node)).resolve("snapshot");
        return Files.writeString(file, "");
    }

    @Test
    void theRunDirectoryOfTheEnvironmentIsTheOnlyOne() {
        environment.put("RUNTIME_DIRECTORY", "/run/other");
        List<Path> usual = places.runDirectories();
        assertEquals(Path.of("/run/other"), usual.getFirst());
        environment.put("KHZ_RUN_DIR", "/srv/khz");
        assertEquals(List.of(Path.of("/srv/khz")), places.runDirectories());
        environment.put("KHZ_RUN_DIR", "");
        assertEquals(usual, places.runDirectories());
    }

    @Test
    void theRingDirectoryOfTheEnvironmentIsTheOnlyOne() throws IOException {
        environment.put("XDG_RUNTIME_DIR", folder.resolve("user").toString());
        environment.put("KHZ_RING_DIR", folder.resolve("rings").toString());
        assertSays("there is no snapshot of any node in " + folder.resolve("rings") + ": is 'khz agent'");
        Path other = snapshot("rings", "a-first-one");
        assertEquals(other, places.snapshot(), "the only one");
        Path own = snapshot("rings", Places.host());
        assertEquals(own, places.snapshot(), "the machine's own");
        for (String none : List.of("", "none")) {
            environment.put("KHZ_RING_DIR", none);
            assertTrue(!found().startsWith(folder.resolve("rings").toString()), none);
        }
    }

    @Test
    void theNodeOfTheEnvironmentIsTheOneThatIsRead() throws IOException {
        environment.put("KHZ_RING_DIR", folder.resolve("rings").toString());
        snapshot("rings", Places.host());
        environment.put("KHZ_NODE", "n7");
        assertSays("there is no snapshot of the node n7 in " + folder.resolve("rings"));
        Path own = snapshot("rings", "n7");
        assertEquals(own, places.snapshot());
        environment.put("KHZ_NODE", "");
        assertEquals(folder.resolve("rings").resolve(Places.host()).resolve("snapshot"), places.snapshot());
        environment.put("KHZ_NODE", "../n7");
        assertSays("KHZ_NODE is '../n7'");
    }

    private void assertSays(String what) {
        String message = assertThrows(SnapshotException.class, places::snapshot).getMessage();
        assertTrue(message.contains(what), message);
    }

    /** What is found, or why nothing is. */
    private String found() {
        try {
            return places.snapshot().toString();
        } catch (SnapshotException e) {
            return e.getMessage();
        }
    }

    /** The snapshot of a node whose newest row is this old. */
    private PageFile written(String node, Duration age) throws IOException {
        PageFile file = PageFile.create(Files.createDirectories(folder.resolve("rings").resolve(node)).resolve("snapshot"), node);
        int slot = file.add("mem.free", "bytes", 1, 1, 0, 0);
        file.beginRow(1);
        file.set(slot, age.abs().toSeconds(), 0, 1, 0);
        file.endRow(1, 1_000_000_000L, (System.currentTimeMillis() - age.toMillis()) * 1_000_000 - 1_000_000_000L);
        return file;
    }

    private Path of(String node) {
        return folder.resolve("rings").resolve(node).resolve("snapshot");
    }

    @Test
    void anAgentThatLivesComesBeforeADeadOne() throws IOException {
        environment.put("KHZ_RING_DIR", folder.resolve("rings").toString());
        try (PageFile _ = written("a-dead-one", Duration.ofDays(2)); PageFile _ = written(Places.host(), Duration.ofMinutes(5))) {
            assertEquals(of(Places.host()), places.snapshot(), "its last values may be read");
            try (PageFile living = written("n7", Duration.ofSeconds(-60))) {
                assertEquals(of("n7"), places.snapshot());
                living.end();
                assertEquals(of(Places.host()), places.snapshot());
            }
            try (PageFile _ = written("n7", Duration.ofSeconds(-60)); PageFile _ = written("n8", Duration.ofSeconds(-60))) {
                assertSays("several agents live here, none with the name of this machine: " + of("n7") + " (its agent lives), " + of("n8")
                        + " (its agent lives). Say which one is meant with KHZ_NODE");
                environment.put("KHZ_NODE", "n8");
                assertEquals(of("n8"), places.snapshot());
                environment.remove("KHZ_NODE");
                try (PageFile _ = written(Places.host(), Duration.ofSeconds(-60))) {
                    assertEquals(of(Places.host()), places.snapshot());
                }
            }
        }
    }

    @Test
    void ofSeveralDeadOnesNoneIsTakenByChance() throws IOException {
        environment.put("KHZ_RING_DIR", folder.resolve("rings").toString());
        try (PageFile _ = written("n1", Duration.ofMinutes(5))) {
            assertEquals(of("n1"), places.snapshot(), "the only one");
            try (PageFile ended = written("n2", Duration.ofMinutes(5))) {
                ended.end();
                assertSays("no agent lives here, and several have left files, none with the name of this machine: " + of("n1")
                        + " (its agent has gathered nothing for ");
                assertSays(", " + of("n2") + " (its agent has ended). Say which");
            }
        }
    }

    @Test
    void aLiveSnapshotLeavesADeadAgentForALivingOne() throws Exception {
        environment.put("KHZ_RING_DIR", folder.resolve("rings").toString());
        try (PageFile _ = written(Places.host(), Duration.ofMinutes(5)); LiveSnapshot node = LiveSnapshot.local(places, LiveSnapshot.STALE_AFTER)) {
            assertTrue(node.now().isEmpty());
            Snapshot.Handle handle;
            try (Snapshot dead = Snapshot.local(places)) {
                assertEquals(300, dead.doubleValue(dead.handle("mem.free")));
            }
            try (PageFile _ = written("n7", Duration.ofSeconds(-60))) {
                Patience.until("the other agent is found", () -> node.now().isPresent());
                Snapshot living = node.now().orElseThrow();
                handle = living.handle("mem.free");
                assertEquals(60, node.doubleValue(handle));
                assertEquals("n7", living.node());
            }
        }
        try (PageFile _ = written(Places.host(), Duration.ofMinutes(5)); PageFile _ = written("n7", Duration.ofMinutes(6));
                LiveSnapshot node = LiveSnapshot.local(places, LiveSnapshot.STALE_AFTER)) {
            assertTrue(node.problem().contains("start 'khz agent' again (beside it: " + of("n7") + " (its agent has gathered nothing for "), node.problem());
        }
    }

    @Test
    void aDirectoryThatThisUserMaySeeNothingOfIsNamed() throws IOException {
        Path rings = Files.createDirectories(folder.resolve("rings"));
        environment.put("KHZ_RING_DIR", rings.toString());
        Files.setPosixFilePermissions(rings, Set.of());
        try {
            // Root sees everything.
            assertSays(Files.isExecutable(rings) ? "there is no snapshot of any node in" : "it may not look into " + rings + ". Add it to the agent's group");
        } finally {
            Files.setPosixFilePermissions(rings, PosixFilePermissions.fromString("rwx------"));
        }
    }
}
