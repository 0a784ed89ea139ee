package dev.kilohertz;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Random;
import java.util.zip.CRC32;

/** Writes a snapshot as an agent does, for tests: docs/shm.md, "Writing". */
public final class PageFile implements AutoCloseable {
    private static final ValueLayout.OfLong WORD = ValueLayout.JAVA_LONG.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle WORDS = WORD.varHandle();
    private static final int FILE_BYTES = 20_983_808;

    private final Arena arena = Arena.ofShared();
    private final MemorySegment memory;
    private int slots;
    private int names;

    private PageFile(Path path, byte[] page) throws IOException {
        // Under another name first: a reader never finds half a file.
        Path made = path.resolveSibling("made");
        Files.deleteIfExists(made);
        try (FileChannel file = FileChannel.open(made, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            file.write(ByteBuffer.wrap(page), 0);
            memory = file.map(FileChannel.MapMode.READ_WRITE, 0, FILE_BYTES, arena);
        }
        Files.move(made, path, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
    }

    public static PageFile create(Path path) throws IOException {
        return create(path, "n1");
    }

    static PageFile create(Path path, String node) throws IOException {
        return new PageFile(path, firstPage(node));
    }

    static byte[] firstPage(String node) {
        ByteBuffer page = ByteBuffer.allocate(4096).order(ByteOrder.LITTLE_ENDIAN);
        page.put("khzM".getBytes(StandardCharsets.US_ASCII)).put((byte) 1);
        page.putLong(8, 8192).putLong(16, 12_288).putLong(24, 262_144).putLong(32, 4_206_592).putLong(40, 16 << 20);
        byte[] name = node.getBytes(StandardCharsets.UTF_8);
        page.putShort(96, (short) name.length).put(98, name);
        return sealed(page.array());
    }

    /** The page with a right checksum. */
    static byte[] sealed(byte[] page) {
        CRC32 checksum = new CRC32();
        checksum.update(page, 0, 4092);
        ByteBuffer.wrap(page).order(ByteOrder.LITTLE_ENDIAN).putInt(4092, (int) checksum.getValue());
        return page;
    }

    /** Adds a slot; {@code type} as in the file: 0 unsigned, 1 signed, 2 double, 3 labels. */
    public int add(String name, String unit, int group, int kind, int type, int places) {
        byte[] text = (unit + name).getBytes(StandardCharsets.UTF_8);
        int unitBytes = unit.getBytes(StandardCharsets.UTF_8).length;
        int length = (8 + text.length + 7) / 8 * 8;
        ByteBuffer entry = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
        entry.putShort((short) length).put((byte) group).put((byte) (kind | type << 4)).put((byte) places).put((byte) unitBytes);
        entry.putShort((short) (text.length - unitBytes)).put(text);
        MemorySegment.copy(entry.array(), 0, memory, ValueLayout.JAVA_BYTE, 4_206_592 + names, length);
        names += length;
        set(slots, 0, 1, group, places);
        WORDS.setRelease(memory, 4104L, (long) names);
        WORDS.setRelease(memory, 4096L, (long) ++slots);
        return slots - 1;
    }

    public void beginRow(int group) {
        long at = 8192L + 64L * group;
        WORDS.setOpaque(memory, at, (long) WORDS.getOpaque(memory, at) + 1);
        VarHandle.releaseFence();
    }

    public void set(int slot, long bits, int state, int group, int places) {
        WORDS.setOpaque(memory, 12_288L + 16L * slot, bits);
        WORDS.setOpaque(memory, 12_296L + 16L * slot, (long) state | (long) group << 8 | (long) places << 16);
    }

    public void endRow(int group, long boot, long offset) {
        long at = 8192L + 64L * group;
        WORDS.setOpaque(memory, at + 8, boot);
        WORDS.setOpaque(memory, at + 16, offset);
        WORDS.setOpaque(memory, at + 24, (long) WORDS.getOpaque(memory, at + 24) + 1);
        WORDS.setRelease(memory, at, (long) WORDS.getOpaque(memory, at) + 1);
    }

    /** Writes a row with one value. */
    public void row(int slot, long bits, int state, int group, int places) {
        beginRow(group);
        set(slot, bits, state, group, places);
        endRow(group, 5_000_000_000L, 1_000_000_000_000_000_000L);
    }

    /** Makes the entry of a name at this offset one that cannot be. */
    void damageName(int at) {
        memory.set(ValueLayout.JAVA_BYTE, 4_206_592L + at, (byte) 3);
    }

    /** Writes random bytes over some of the counts, slots and names. */
    void scribble(Random random, int times) {
        for (int i = 0; i < times; i++) {
            long at = switch (random.nextInt(4)) {
                case 0 -> 4096L + random.nextInt(16);
                case 1 -> 12_288L + random.nextInt(96);
                default -> 4_206_592L + random.nextInt(160);
            };
            memory.set(ValueLayout.JAVA_BYTE, at, (byte) random.nextInt());
        }
    }

    /** What an agent says when it ends in good order. */
    public void end() {
        WORDS.setRelease(memory, 4112L, 1L);
    }

    @Override
    public void close() {
        arena.close();
    }
}
