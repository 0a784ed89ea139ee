package dev.kilohertz.gather;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;

/**
 * The file {@code twins.crc}: checksums of what khz's own parser, in Rust, reads of {@link Twins}. To make it again, in
 * {@code java/khz-gather} after {@code mvn test-compile}:
 *
 * <pre>
 *   java -cp target/classes:target/test-classes:JUNIT dev.kilohertz.gather.TwinsFile texts FILE
 *   cargo run -p khz-parse --example twins &lt; FILE &gt; LINES
 *   java -cp target/classes:target/test-classes:JUNIT dev.kilohertz.gather.TwinsFile checksums LINES src/test/resources/twins.crc
 * </pre>
 */
final class TwinsFile {
    /** So many lines have one checksum. */
    static final int LINES = 50;

    private TwinsFile() {
    }

    public static void main(String[] arguments) throws IOException {
        if (arguments[0].equals("texts")) {
            writeTexts(Path.of(arguments[1]));
        } else {
            // A line may have a carriage return in the name of a field.
            List<String> lines = List.of(Files.readString(Path.of(arguments[1])).split("\n"));
            Files.write(Path.of(arguments[2]), checksums(lines));
        }
    }

    private static void writeTexts(Path path) throws IOException {
        try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(path))) {
            Twins.forEach((file, isFresh, text) -> {
                ByteBuffer head = ByteBuffer.allocate(6).order(ByteOrder.LITTLE_ENDIAN);
                head.put((byte) file).put((byte) (isFresh ? 1 : 0)).putInt(text.length);
                try {
                    out.write(head.array());
                    out.write(text);
                } catch (IOException failed) {
                    throw new UncheckedIOException(failed);
                }
            });
        }
    }

    /** A checksum for each few lines. */
    static List<String> checksums(List<String> lines) {
        List<String> checksums = new ArrayList<>();
        for (int from = 0; from < lines.size(); from += LINES) {
            CRC32 checksum = new CRC32();
            for (String line : lines.subList(from, Math.min(from + LINES, lines.size()))) {
                checksum.update((line + "\n").getBytes(StandardCharsets.UTF_8));
            }
            checksums.add(String.format("%08x", checksum.getValue()));
        }
        return checksums;
    }
}
