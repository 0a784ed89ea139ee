package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The jars beside the library's own have nothing of the machine that made them: neither its umask nor its time zone. */
class JarsIT {
    /** As project.build.outputTimestamp of the parent has it. */
    private static final LocalDateTime MADE = LocalDateTime.of(2026, 11, 28, 0, 0);

    @ParameterizedTest
    @ValueSource(strings = {"-sources.jar", "-javadoc.jar"})
    void everyEntryHasTheSameTimeAndTheUsualMode(String end) throws IOException {
        Path library = Path.of(System.getProperty("khz.gather.jar"));
        Path jar = library.resolveSibling(library.getFileName().toString().replace(".jar", end));
        try (FileSystem entries = FileSystems.newFileSystem(jar); Stream<Path> all = Files.walk(entries.getPath("/"))) {
            List<Path> found = all.filter(path -> path.getNameCount() > 0).toList();
            assertTrue(found.size() > 10, found::toString);
            for (Path path : found) {
                assertEquals(MADE.atZone(ZoneId.systemDefault()).toInstant(), Files.getLastModifiedTime(path).toInstant(), path::toString);
                Set<PosixFilePermission> usual = PosixFilePermissions.fromString(Files.isDirectory(path) ? "rwxr-xr-x" : "rw-r--r--");
                assertEquals(usual, Files.getAttribute(path, "zip:permissions"), path::toString);
            }
        }
    }
}
