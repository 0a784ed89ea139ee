package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.math.BigDecimal;
import java.util.Random;
import org.junit.jupiter.api.Test;

class DecimalTest {
    private static final long[] EDGES = {0, 1, 9, 10, (1L << 53) - 1, 1L << 53, (1L << 53) + 1, (1L << 54) + 2, (1L << 62) + 255,
        Long.MAX_VALUE - 1, Long.MAX_VALUE, Long.MIN_VALUE, Long.MIN_VALUE + 1, Long.MIN_VALUE + 1024, Long.MIN_VALUE + 1025, -1, -2, -1025};

    @Test
    void everyDoubleIsTheNearestToTheExactValue() {
        Random random = new Random(20261128);
        for (int places = 0; places <= 20; places++) {
            for (long edge : EDGES) {
                check(edge, places);
            }
            for (int i = 0; i < 20_000; i++) {
                check(random.nextLong() >>> random.nextInt(64), places);
                check(random.nextLong() >> random.nextInt(64), places);
            }
        }
    }

    private static void check(long bits, int places) {
        BigDecimal unsigned = new BigDecimal(Long.toUnsignedString(bits)).scaleByPowerOfTen(-places);
        assertEquals(unsigned.doubleValue(), Decimal.unsigned(bits, places), () -> unsigned + " without a sign");
        BigDecimal signed = BigDecimal.valueOf(bits, places);
        assertEquals(signed.doubleValue() + 0.0, Decimal.signed(bits, places) + 0.0, () -> signed + " with a sign");
        assertEquals(0, unsigned.compareTo(Decimal.exact(bits, false, places)));
        assertEquals(0, signed.compareTo(Decimal.exact(bits, true, places)));
    }

    @Test
    void aValueKeepsItsPlaces() {
        assertEquals("0.52", Decimal.exact(52, false, 2).toPlainString());
        assertEquals("-5.00", Decimal.exact(-500, true, 2).toPlainString());
        assertEquals("18446744073709551615", Decimal.exact(-1, false, 0).toPlainString());
    }
}
