package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class KernelTextTest {
    private static byte[] text(int length) {
        byte[] text = new byte[length];
        new Random(length).nextBytes(text);
        return text;
    }

    private static void isReadWhole(OneText kernel, int longestRecord) {
        KernelText source = new KernelText(kernel, "known", longestRecord);
        Room room = new Room();
        for (int round = 0; round < 3; round++) {
            assertEquals(kernel.text.length, source.read(room));
            assertTrue(Arrays.equals(kernel.text, 0, kernel.text.length, room.bytes(), Room.LEAD,
                    Room.LEAD + kernel.text.length));
        }
    }

    @Test
    void aTextIsReadWholeHoweverLongItIs() {
        for (int length : new int[] {0, 1, 4_095, 8_191, 8_192, 8_193, 16_384, 100_000, 3 << 20}) {
            isReadWhole(new OneText(text(length), Integer.MAX_VALUE), KernelFile.WHOLE);
            isReadWhole(new OneText(text(length), 4_000), 354);
        }
    }

    @Test
    void onceTheRoomHasGrownOneReadIsEnough() {
        OneText kernel = new OneText(text(20_000), Integer.MAX_VALUE);
        isReadWhole(kernel, KernelFile.WHOLE);
        assertEquals(List.of(8_192, 8_192, 16_384, 32_768, 32_768), kernel.asked);
    }

    @Test
    void recordsThatLeaveRoomForAnotherNeedNoSecondRead() {
        OneText kernel = new OneText(text(700), 4_000);
        isReadWhole(kernel, 354);
        assertEquals(3, kernel.asked.size());
        OneText nearlyFull = new OneText(text(4_000), 4_000);
        isReadWhole(nearlyFull, 354);
        assertEquals(6, nearlyFull.asked.size(), "the second read of each says that nothing follows");
    }

    @Test
    void anInterruptedReadIsRepeated() {
        OneText kernel = new OneText(text(100), Integer.MAX_VALUE);
        kernel.interruptions = 3;
        isReadWhole(kernel, KernelFile.WHOLE);
    }

    @Test
    void aTextWithoutAnEndIsRefused() {
        KernelText source = new KernelText(new OneText(text(KernelText.BYTES_MAX + 1), Integer.MAX_VALUE), "known", 0);
        assertEquals(-Errno.FBIG, source.read(new Room()));
    }

    @Test
    void aFileThatIsMissingIsOpenedAgainAndOneThatIsOpenIsNot() {
        OneText kernel = new OneText(text(10), 10);
        KernelText missing = new KernelText(kernel, "unknown", 0);
        assertEquals(-Errno.NOENT, missing.read(new Room()));
        assertEquals(-Errno.NOENT, missing.read(new Room()));
        assertEquals(2, kernel.opens);
        KernelText known = new KernelText(kernel, "known", 0);
        known.read(new Room());
        known.read(new Room());
        assertEquals(3, kernel.opens);
        known.close();
        known.close();
        assertEquals(2, kernel.opens);
    }
}
