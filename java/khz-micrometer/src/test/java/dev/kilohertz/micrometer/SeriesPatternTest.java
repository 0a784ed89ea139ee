package dev.kilohertz.micrometer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class SeriesPatternTest {
    @ParameterizedTest
    @CsvSource(delimiter = ' ', value = {
        "mem.free mem.free true",
        "mem.free mem.freed false",
        "mem.free memxfree false",
        "mem.* mem.free true",
        "net.?x_bytes net.rx_bytes[eth0] true",
        "net.?x_bytes net.rrx_bytes[eth0] false",
        "net.rx_bytes[eth*] net.rx_bytes[eth0] true",
        "net.rx_bytes[eth*] net.rx_bytes[lo] false",
        "net.rx_bytes[eth*] net.rx_bytes false",
        "fs.available[%2Fhome] fs.available[%2Fhome] true",
        "fs.available[%2F*] fs.available[%2Fhome] true",
        "infiniband.rx_bytes[port=1] infiniband.rx_bytes[mlx5_0,port=1] true",
        "infiniband.rx_bytes[port=2] infiniband.rx_bytes[mlx5_0,port=1] false",
        "infiniband.rx_bytes[mlx5_0] infiniband.rx_bytes[mlx5_0,port=1] true",
        "infiniband.rx_bytes[mlx5_0,port=?] infiniband.rx_bytes[mlx5_0,port=1] true",
        "job.queue[rank=1] job.queue[rank=1] true",
        "job.queue[rank=1] job.queue[worker] false",
    })
    void aPatternMeansWhatTheOneOfACommandMeans(String pattern, String name, boolean isMatch) {
        assertEquals(isMatch, SeriesPattern.parse(pattern).isMatch(name));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "n1:mem.free", "[eth0]", "mem.free[", "mem.free]", "net.rx_bytes[eth0,eth1]", "net.rx_bytes[eth0,=1]"})
    void whatIsNoPatternIsRefusedWithAnExplanation(String pattern) {
        String message = assertThrows(IllegalArgumentException.class, () -> SeriesPattern.parse(pattern)).getMessage();
        assertTrue(message.contains("write "), message);
    }

    @Test
    void everyDefaultIsAPattern() {
        assertTrue(DefaultSeries.PATTERNS.size() > 20);
        DefaultSeries.PATTERNS.forEach(SeriesPattern::parse);
    }
}
