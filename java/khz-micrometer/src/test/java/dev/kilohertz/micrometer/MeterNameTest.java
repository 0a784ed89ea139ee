package dev.kilohertz.micrometer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kilohertz.Kind;
import dev.kilohertz.Series;
import dev.kilohertz.ValueType;
import io.micrometer.core.instrument.Tag;
import java.util.stream.Collectors;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class MeterNameTest {
    @ParameterizedTest
    @CsvSource(delimiter = ' ', value = {
        "mem.free bytes GAUGE khz.mem.free '' bytes",
        "load.1m count GAUGE khz.load.1m '' ''",
        "cpu.all.user seconds COUNTER khz.cpu.all mode=user seconds",
        "cpu.guest_nice[3] seconds COUNTER khz.cpu cpu=3,mode=guest_nice seconds",
        "net.rx_bytes[eth0] bytes COUNTER khz.net.rx.bytes device=eth0 bytes",
        "disk.io_time[sda] seconds COUNTER khz.disk.io.time device=sda seconds",
        "fs.available[%2Fhome] bytes GAUGE khz.fs.available mountpoint=/home bytes",
        "infiniband.rx_bytes[mlx5_0,port=1] bytes COUNTER khz.infiniband.rx.bytes device=mlx5_0,port=1 bytes",
        "pressure.cpu.some.total seconds COUNTER khz.pressure.cpu.some '' seconds",
        "pressure.cpu.some.avg10 percent GAUGE khz.pressure.cpu.some.avg10 '' percent",
        "mem.total bytes GAUGE khz.mem.total '' bytes",
        "job.queue[w,rank=1] count GAUGE khz.job.queue name=w,rank=1 ''",
    })
    void aSeriesHasANameOfMicrometer(String series, String unit, Kind kind, String name, String tags, String baseUnit) {
        MeterName meter = MeterName.of(new Series(series, unit, kind, ValueType.UNSIGNED, 0)).orElseThrow();
        assertEquals(name, meter.name());
        assertEquals(tags, meter.tags().stream().map(MeterNameTest::text).collect(Collectors.joining(",")));
        assertEquals(baseUnit, meter.unit() == null ? "" : meter.unit());
    }

    @ParameterizedTest
    @ValueSource(strings = {"net.rx_bytes[eth0", "net.rx_bytes[a,b]", "net.rx_bytes[%zz]"})
    void aNameThatCannotBeReadHasNoMeter(String series) {
        assertTrue(MeterName.of(new Series(series, "bytes", Kind.COUNTER, ValueType.UNSIGNED, 0)).isEmpty());
    }

    private static String text(Tag tag) {
        return tag.getKey() + "=" + tag.getValue();
    }
}
