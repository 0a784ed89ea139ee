package dev.kilohertz;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Where a running khz is found on this machine: the directories of its snapshots and sockets. It makes none of them. */
final class Places {
    /** The file with a node's latest values, in the directory of the node. */
    static final String SNAPSHOT = "snapshot";
    private static final Path SHARED = Path.of("/dev/shm/khz");
    private static final Path SYSTEM = Path.of("/run/khz");
    /** The bits of a directory's mode with which its group, or others, write to it. */
    private static final int OTHERS_WRITE = 0_022;

    private Places() {}

    /** The name of this machine, as agents take it for the name of their node. */
    static String host() {
        try {
            return Files.readString(Path.of("/proc/sys/kernel/hostname")).strip();
        } catch (IOException e) {
            throw new UncheckedIOException("this machine does not tell its name: khz runs on Linux", e);
        }
    }

    /** The snapshot of this machine's agent; if there is none, the place where it would be. */
    static Path snapshot() {
        List<Path> found = new ArrayList<>();
        for (Path directory : snapshotDirectories()) {
            found.addAll(snapshotsBelow(directory));
        }
        String host = host();
        // If agents with several names have run here, the one with the name of the machine.
        return found.stream().filter(path -> path.getParent().endsWith(host)).findFirst()
                .or(() -> found.stream().findFirst())
                .orElse(SHARED.resolve(host).resolve(SNAPSHOT));
    }

    private static List<Path> snapshotDirectories() {
        List<Path> directories = new ArrayList<>();
        int user = user();
        if (user != 0) {
            absolute("XDG_RUNTIME_DIR").map(path -> path.resolve("khz")).ifPresent(directories::add);
            directories.add(Path.of(SHARED + "-" + user));
        }
        directories.add(SHARED);
        return directories;
    }

    private static List<Path> snapshotsBelow(Path directory) {
        List<Path> found = new ArrayList<>();
        try (DirectoryStream<Path> nodes = Files.newDirectoryStream(directory)) {
            for (Path node : nodes) {
                if (Files.exists(node.resolve(SNAPSHOT))) {
                    found.add(node.resolve(SNAPSHOT));
                }
            }
        } catch (IOException e) {
            // No agent has made this directory, or it is another user's.
            return List.of();
        }
        found.sort(null);
        return found;
    }

    /** Directories that may hold local sockets, the user's own first. */
    static List<Path> runDirectories() {
        List<Path> directories = new ArrayList<>();
        // systemd sets it for a unit with RuntimeDirectory=.
        absolute("RUNTIME_DIRECTORY").ifPresent(directories::add);
        int user = user();
        if (user != 0) {
            Path own = absolute("XDG_RUNTIME_DIR").filter(path -> isSafe(path, user)).map(path -> path.resolve("khz"))
                    // Without a login session, as under su or in a container.
                    .orElse(Path.of(temporary()).resolve("khz-" + user));
            // In a directory that all users can write to, another user may have made this one.
            if (!Files.exists(own) || isSafe(own, user)) {
                directories.add(own);
            }
        }
        if (!directories.contains(SYSTEM)) {
            directories.add(SYSTEM);
        }
        return directories;
    }

    /** True for a directory in which only its owner can make files, where the owner is this user or root. */
    private static boolean isSafe(Path directory, int user) {
        try {
            int owner = (int) Files.getAttribute(directory, "unix:uid");
            int mode = (int) Files.getAttribute(directory, "unix:mode");
            return (owner == user || owner == 0) && Files.isDirectory(directory) && (mode & OTHERS_WRITE) == 0;
        } catch (IOException e) {
            return false;
        }
    }

    /** As other programs see it; Java's own property may have been set to something else. */
    private static String temporary() {
        String told = System.getenv("TMPDIR");
        return told == null || told.isEmpty() ? "/tmp" : told;
    }

    private static int user() {
        try {
            return (int) Files.getAttribute(Path.of("/proc/self"), "unix:uid");
        } catch (IOException e) {
            throw new UncheckedIOException("there is no /proc: khz runs on Linux", e);
        }
    }

    private static Optional<Path> absolute(String variable) {
        return Optional.ofNullable(System.getenv(variable)).map(Path::of).filter(Path::isAbsolute);
    }
}
