package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class NetDevFileTest {
    private static final String TEXT = """
            Inter-|   Receive                                                |  Transmit
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
                lo:    3245      30    0    0    0     0          0         0     3245      30    0    0    0     0       0          0
              eth0: 31520478     886    1    2    3     4          5         6    46218     509    7    8    9    10      11         12
            """;

    private static Read read(String text) {
        return Read.of(new NetDevFile(), text);
    }

    @Test
    void allSixteenCounters() {
        Read read = read(TEXT);
        assertEquals(List.of(), read.faults());
        List<String> values =
                List.of("31520478", "886", "1", "2", "3", "4", "5", "6", "46218", "509", "7", "8", "9", "10", "11", "12");
        List<Entry> entries = read.file().grouped();
        for (int entry = 0; entry < entries.size(); entry++) {
            assertEquals(values.get(entry), read.get(entries.get(entry).metric().name() + "[eth0]"));
        }
    }

    @Test
    void aNumberMayGrowIntoItsPadding() {
        Read read = read(TEXT);
        assertTrue(read.advance(TEXT.replace("   3245      30", "  13245     131")));
        assertEquals("13245", read.get("net.rx_bytes[lo]"));
        assertEquals("131", read.get("net.rx_packets[lo]"));
        assertEquals("13245", read.get("net.tx_bytes[lo]"));
    }

    @Test
    void noBlankAfterTheColonIsFine() {
        assertEquals("931520478", read(TEXT.replace("eth0: 31520478", "eth0:931520478")).get("net.rx_bytes[eth0]"));
    }

    @Test
    void columnsGoByName() {
        Read read = read("Inter-|   Receive                  |  Transmit\n"
                + " face |packets errs drop fifo frame|packets bytes errs drop fifo colls carrier\n"
                + "  eth0: 1 2 3 4 5 6 7 8 9 10 11 12\n");
        assertEquals(List.of(), read.faults());
        assertEquals("NO_FIELD", read.get("net.rx_bytes[eth0]"));
        assertEquals("1", read.get("net.rx_packets[eth0]"));
        assertEquals("7", read.get("net.tx_bytes[eth0]"));
        assertEquals("12", read.get("net.tx_carrier[eth0]"));
    }

    @Test
    void aHeaderWithTooManyColumnsIsNone() {
        String columns = "bytes packets " + "novel ".repeat(Sink.SCRATCH);
        Read read = read(" face |" + columns + "|" + columns + "\neth0: 1 2\n");
        assertEquals(List.of(new FaultNote(2, "header", "no line names the columns")), read.faults());
    }

    @Test
    void anInterfaceThatTakesAnothersPlaceIsNotTakenForIt() {
        Read read = read(TEXT);
        read.advance(TEXT.replace("  eth0:", "  eth1:"));
        assertEquals("INSTANCE_GONE", read.get("net.rx_bytes[eth0]"));
        assertEquals("31520478", read.get("net.rx_bytes[eth1]"));
    }

    @Test
    void anInterfaceThatStandsThereTwiceIsFailed() {
        Read read = read(TEXT + "  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
        assertEquals("MALFORMED", read.get("net.rx_bytes[eth0]"));
    }

    @Test
    void aLineThatDoesNotFitTheHeaderIsFailedAndNoOther() {
        for (String line : List.of("      11         12\n", "      11\n", "\n")) {
            Read read = read(TEXT.replace("  10      11         12\n", line));
            assertEquals("MALFORMED", read.get("net.rx_bytes[eth0]"));
            assertEquals("3245", read.get("net.tx_bytes[lo]"));
            assertEquals("line 4: net.rx_bytes[eth0]: the line does not have as many numbers as the header has columns",
                    read.faults().get(0).toString());
        }
    }

    @Test
    void aTextCutOffInALineFailsTheInterfaceRatherThanLosingIt() {
        Read read = read(TEXT);
        read.advance(TEXT.substring(0, TEXT.length() - 30));
        assertEquals("3245", read.get("net.rx_bytes[lo]"));
        assertEquals("MALFORMED", read.get("net.rx_bytes[eth0]"));
    }
}
