package dev.kilohertz.gather;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** The kernel files of captured hosts. */
final class Fixtures {
    /** Hosts with kernels of several ages. */
    static final List<String> HOSTS = List.of("linux-6.18-vm2", "linux-6.12-qemu4", "linux-6.1-qemu8", "linux-6.1-qemu64",
            "linux-2.4-documented");

    private static final Path REPOSITORY = repository();

    private Fixtures() {
    }

    private static Path repository() {
        Path folder = Path.of("").toAbsolutePath();
        while (!Files.isDirectory(folder.resolve("fixtures/linux-6.18-vm2"))) {
            folder = folder.getParent();
            if (folder == null) {
                throw new IllegalStateException("no folder above this one has fixtures/: run the tests in the repository");
            }
        }
        return folder;
    }

    static Path root(String host) {
        return REPOSITORY.resolve("fixtures").resolve(host);
    }

    /** A folder of the host where it has files of a later time. */
    static Path later(String host) {
        return root(host).resolve("later");
    }

    static boolean has(Path root, KernelFile file) {
        return Files.exists(path(root, file));
    }

    static byte[] text(Path root, KernelFile file) {
        try {
            return Files.readAllBytes(path(root, file));
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    private static Path path(Path root, KernelFile file) {
        return root.resolve("proc").resolve(file.name());
    }

    /** What khz prints of the host, one object a line. */
    static List<String> expected(String host) throws IOException {
        return Files.readAllLines(REPOSITORY.resolve("crates/khz/tests/captured_host").resolve(host + ".get.jsonl"));
    }
}
