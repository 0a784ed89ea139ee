package dev.kilohertz.gather;

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;

/**
 * The ladder: ways to gather /proc/meminfo, each better than the one before, as the paper climbed it. The first three allocate a name
 * and a number for each line; the next ones only note where each value is; the last is the gatherer's own way, with every value a
 * number. A mapped file is no way: the kernel refuses to map files of /proc.
 */
final class LadderWays implements AutoCloseable {
    private static final String PATH = "/proc/meminfo";
    private static final int SIZE = 8_192;
    private static final int LINES_MAX = 256;

    private final byte[] bytes = new byte[SIZE];
    private final int[] starts = new int[LINES_MAX];
    private final int[] lengths = new int[LINES_MAX];
    private final ByteBuffer direct = ByteBuffer.allocateDirect(SIZE);
    private final Room room = new Room();
    private final RandomAccessFile random;
    private final FileChannel channel;
    private final Kernel kernel = Kernels.fastest();
    private final int file;
    private final Source source;
    private int lines;

    LadderWays() throws IOException {
        random = new RandomAccessFile(PATH, "r");
        channel = FileChannel.open(Path.of(PATH), StandardOpenOption.READ);
        file = kernel.open(PATH);
        source = new Source(new MeminfoFile(), new KernelText(kernel, PATH, KernelFile.WHOLE), 0);
    }

    /** Opened each time, read a character at a time. */
    Map<String, Long> character() throws IOException {
        Map<String, Long> values = new HashMap<>();
        StringBuilder line = new StringBuilder();
        try (InputStream in = new FileInputStream(PATH)) {
            for (int c = in.read(); c >= 0; c = in.read()) {
                if (c == '\n') {
                    keep(line.toString(), values);
                    line.setLength(0);
                } else {
                    line.append((char) c);
                }
            }
        }
        return values;
    }

    /** Opened each time, read line by line, as Java programs usually do. */
    Map<String, Long> stream() throws IOException {
        Map<String, Long> values = new HashMap<>();
        try (BufferedReader in = Files.newBufferedReader(Path.of(PATH))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                keep(line, values);
            }
        }
        return values;
    }

    /** Opened each time, read in one block, then split. */
    Map<String, Long> block() throws IOException {
        Map<String, Long> values = new HashMap<>();
        try (InputStream in = new FileInputStream(PATH)) {
            int length = in.read(bytes);
            for (String line : new String(bytes, 0, length, StandardCharsets.ISO_8859_1).split("\n")) {
                keep(line, values);
            }
        }
        return values;
    }

    private static void keep(String line, Map<String, Long> values) {
        int colon = line.indexOf(':');
        if (colon < 0) {
            return;
        }
        int start = colon + 1;
        while (start < line.length() && line.charAt(start) == ' ') {
            start++;
        }
        int end = start;
        while (end < line.length() && Character.isDigit(line.charAt(end))) {
            end++;
        }
        values.put(line.substring(0, colon), Long.parseLong(line, start, end, 10));
    }

    /** Opened each time, read in one block; no allocation for the values, no conversion. */
    int plain() throws IOException {
        try (InputStream in = new FileInputStream(PATH)) {
            return locate(in.read(bytes));
        }
    }

    /** Kept open: RandomAccessFile. */
    int keptRandom() throws IOException {
        random.seek(0);
        return locate(random.read(bytes));
    }

    /** Kept open: FileChannel. */
    int keptChannel() throws IOException {
        int got = channel.read(direct.clear(), 0);
        direct.get(0, bytes, 0, got);
        return locate(got);
    }

    /** Kept open: pread through the Foreign Function and Memory API. */
    int keptForeign() {
        return locate(kernel.read(file, bytes, 0, SIZE, 0));
    }

    /** The gatherer's own way. */
    long ours() {
        source.gather(room, 0, 0);
        return source.readings().changes();
    }

    /** Notes where the value of each line is. */
    private int locate(int length) {
        lines = 0;
        int at = 0;
        while (at < length && lines < LINES_MAX) {
            int start = Words.indexOf(bytes, at, length, ':') + 1;
            if (start == 0) {
                break;
            }
            while (start < length && bytes[start] == ' ') {
                start++;
            }
            int end = start;
            while (end < length && bytes[end] >= '0' && bytes[end] <= '9') {
                end++;
            }
            starts[lines] = start;
            lengths[lines++] = end - start;
            int newline = Words.indexOf(bytes, end, length, '\n');
            at = newline < 0 ? length : newline + 1;
        }
        return lines;
    }

    @Override
    public void close() throws IOException {
        random.close();
        channel.close();
        kernel.closeAll();
    }
}
