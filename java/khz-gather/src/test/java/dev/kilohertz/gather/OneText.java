package dev.kilohertz.gather;

import java.util.ArrayList;
import java.util.List;

/** A kernel that has one text and hands it out in pieces of at most this many bytes. */
final class OneText implements Kernel {
    byte[] text;
    private final int piece;
    final List<Integer> asked = new ArrayList<>();
    boolean isMissing;
    int interruptions;
    int opens;

    OneText(byte[] text, int piece) {
        this.text = text;
        this.piece = piece;
    }

    @Override
    public int open(String path) {
        opens++;
        return path.equals("known") && !isMissing ? 0 : -Errno.NOENT;
    }

    @Override
    public int read(int file, byte[] bytes, int at, int count, int offset) {
        if (interruptions > 0) {
            interruptions--;
            return -Errno.INTR;
        }
        asked.add(count);
        int got = Math.min(Math.min(count, piece), text.length - offset);
        System.arraycopy(text, offset, bytes, at, got);
        return got;
    }

    @Override
    public void close(int file) {
        opens--;
    }

    @Override
    public long realTime() {
        return 1;
    }

    @Override
    public void closeAll() {
        opens = 0;
    }
}
