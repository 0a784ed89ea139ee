package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Files that are no snapshot that this library can read. */
class PageTest {
    @TempDir
    Path folder;

    private String refusal(byte[] page, long length) throws IOException {
        Path path = folder.resolve("snapshot");
        Files.write(path, page);
        try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw")) {
            file.setLength(length);
        }
        return assertThrows(SnapshotException.class, () -> Snapshot.open(path)).getMessage();
    }

    private static byte[] page(int at, long value, int bytes) {
        byte[] page = PageFile.firstPage("n1");
        ByteBuffer buffer = ByteBuffer.wrap(page).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < bytes; i++) {
            buffer.put(at + i, (byte) (value >>> 8 * i));
        }
        return page;
    }

    @Test
    void eachWrongFileHasItsOwnSentence() throws IOException {
        long whole = 20_983_808;
        assertTrue(refusal(PageFile.firstPage("n1"), 100).contains("shorter than a snapshot's first page"));
        assertTrue(refusal(PageFile.firstPage("n1"), 0).contains("shorter than a snapshot's first page"));
        assertTrue(refusal(PageFile.firstPage("n1"), 8192).contains("cut it short"));
        assertTrue(refusal(PageFile.firstPage("n1"), whole - 1).contains("cut it short"));
        assertTrue(refusal(page(0, 'x', 1), whole).contains("does not begin with \"khzM\""));
        assertTrue(refusal(page(4, 2, 1), whole).contains("version 2"));
        assertTrue(refusal(PageFile.sealed(page(8, Long.reverseBytes(8192), 8)), whole).contains("byte order"));
        assertTrue(refusal(PageFile.sealed(page(32, 4096, 8)), whole).contains("offsets of version 1"));
        assertTrue(refusal(PageFile.sealed(page(96, 254, 2)), whole).contains("too long"));
        assertTrue(refusal(PageFile.sealed(page(98, 0xff, 1)), whole).contains("UTF-8"));
    }

    @Test
    void everyDamagedByteOfTheFirstPageIsFound() {
        for (int at = 0; at < 4096; at++) {
            byte[] page = PageFile.firstPage("n1");
            page[at] ^= 1;
            assertThrows(SnapshotException.class, () -> PageLayout.node(page, "f"), "byte " + at);
        }
        assertEquals("n1", PageLayout.node(PageFile.firstPage("n1"), "f"));
    }

    @Test
    void aMissingFileNamesTheAgent() {
        String message = assertThrows(SnapshotException.class, () -> Snapshot.open(folder.resolve("none"))).getMessage();
        assertTrue(message.contains("khz agent"), message);
    }

    @Test
    void aFileThatThisUserMayNotReadSaysWhoMay() throws IOException {
        Path file = Files.createFile(folder.resolve("snapshot"), PosixFilePermissions.asFileAttribute(Set.of()));
        // Root reads everything.
        String expected = Files.isReadable(file) ? "shorter than" : "this user may not read the snapshot " + file + ": the agent's user and group may";
        String message = assertThrows(SnapshotException.class, () -> Snapshot.open(folder)).getMessage();
        assertTrue(message.contains(expected), message);
    }

    @Test
    void aPipeDoesNotMakeTheReaderWait() throws Exception {
        Path pipe = folder.resolve("snapshot");
        assertEquals(0, new ProcessBuilder(List.of("mkfifo", pipe.toString())).start().waitFor());
        String message = assertThrows(SnapshotException.class, () -> Snapshot.open(pipe)).getMessage();
        assertTrue(message.contains("is not a file"), message);
    }
}
