package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.junit.jupiter.api.Test;

class TickLengthTest {
    @Test
    void theVectorTellsTheTicksOfASecond() {
        ByteBuffer vector = ByteBuffer.allocate(64).order(ByteOrder.nativeOrder());
        vector.putLong(6).putLong(4_096).putLong(17).putLong(1_024).putLong(0).putLong(0);
        assertEquals(1_024, TickLength.in(vector.array()));
        assertEquals(TickLength.USUAL, TickLength.in(new byte[7]));
    }
}
