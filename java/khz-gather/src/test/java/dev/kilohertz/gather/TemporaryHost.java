package dev.kilohertz.gather;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** A host that a test makes: a copy of a captured one, whose files the test changes. */
final class TemporaryHost {
    private final Path root;

    TemporaryHost(Path root) {
        this.root = root;
        for (KernelFile file : Catalogue.FILES) {
            write(file.name(), Fixtures.text(Fixtures.root("linux-6.18-vm2"), file));
        }
    }

    Path root() {
        return root;
    }

    Path path(String file) {
        return root.resolve("proc").resolve(file);
    }

    void write(String file, String text) {
        write(file, text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }

    private void write(String file, byte[] text) {
        try {
            Files.createDirectories(path(file).getParent());
            // Into the same file, which the gatherer keeps open.
            Files.write(path(file), text);
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    void replace(String file, String old, String replacement) {
        try {
            String text = Files.readString(path(file));
            if (!text.contains(old)) {
                throw new IllegalArgumentException(file + " does not have '" + old + "'");
            }
            write(file, text.replace(old, replacement));
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    void remove(String file) {
        try {
            Files.delete(path(file));
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }
}
