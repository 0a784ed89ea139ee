package dev.kilohertz;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32;

/** Where everything is in a snapshot, version 1 of its format. It reads no memory. docs/shm.md describes every byte. */
final class PageLayout {
    static final int PAGE_BYTES = 4096;
    static final long SLOTS_WORD = 4096;
    static final long NAMES_WORD = SLOTS_WORD + 8;
    static final long ENDED_WORD = SLOTS_WORD + 16;
    static final long GROUPS_AT = 8192;
    static final int GROUPS_MAX = 64;
    static final int GROUP_BYTES = 64;
    static final long BOOT_WORD = 8;
    static final long OFFSET_WORD = 16;
    static final long ROWS_WORD = 24;
    static final long SLOTS_AT = 12_288;
    static final int SLOT_BYTES = 16;
    static final int SLOTS_MAX = 262_144;
    static final long NAMES_AT = SLOTS_AT + (long) SLOTS_MAX * SLOT_BYTES;
    static final int NAMES_BYTES = 16 << 20;
    static final long FILE_BYTES = NAMES_AT + NAMES_BYTES;

    private static final int MAGIC = 0x4d7a686b; // "khzM"
    private static final int VERSION = 1;
    private static final int NODE_AT = 96;
    private static final int NODE_BYTES_MAX = 253;
    private static final int CHECKSUM_AT = PAGE_BYTES - 4;

    private PageLayout() {}

    /**
     * Checks a file's first page.
     *
     * @return the name of its node
     * @throws SnapshotException what is wrong; {@code file} names it
     */
    static String node(byte[] bytes, String file) {
        ByteBuffer page = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        if (page.getInt(0) != MAGIC) {
            throw new SnapshotException(file + " is not a snapshot: it does not begin with \"khzM\". Name the file 'snapshot' of a node");
        }
        if (page.get(4) != VERSION) {
            int version = page.get(4) & 255;
            throw new SnapshotException(file + " has version " + version + " of the format, and this library reads version 1: "
                    + "use the library of the same release as the agent");
        }
        long groups = page.getLong(8);
        if (groups == Long.reverseBytes(GROUPS_AT)) {
            throw new SnapshotException(file + " has the byte order of another machine: read it where it was written");
        }
        CRC32 checksum = new CRC32();
        checksum.update(bytes, 0, CHECKSUM_AT);
        if ((int) checksum.getValue() != page.getInt(CHECKSUM_AT)) {
            throw damaged(file, "its checksum is wrong");
        }
        boolean isUsual = groups == GROUPS_AT && page.getLong(16) == SLOTS_AT && page.getLong(24) == SLOTS_MAX
                && page.getLong(32) == NAMES_AT && page.getLong(40) == NAMES_BYTES;
        if (!isUsual) {
            throw damaged(file, "its areas are not at the offsets of version 1");
        }
        int length = page.getShort(NODE_AT) & 0xffff;
        if (length > NODE_BYTES_MAX) {
            throw damaged(file, "the name of its node is too long");
        }
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(page.slice(NODE_AT + 2, length)).toString();
        } catch (CharacterCodingException e) {
            throw damaged(file, "the name of its node is not UTF-8");
        }
    }

    private static SnapshotException damaged(String file, String what) {
        return new SnapshotException("the first page of " + file + " is damaged: " + what + ". The agent makes another file when it is started again");
    }
}
