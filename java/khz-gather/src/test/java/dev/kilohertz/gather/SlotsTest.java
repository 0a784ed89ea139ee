package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class SlotsTest {
    private static final String HEADER = "a|b|c\n face |bytes|bytes\n";
    private static final long SECOND = 1_000_000_000L;

    private static String interfaces(int first, int count) {
        StringBuilder text = new StringBuilder(HEADER);
        for (int number = first; number < first + count; number++) {
            text.append("veth").append(number).append(": ").append(number + 1_000).append(" 2\n");
        }
        return text.toString();
    }

    @Test
    void slotsOfInterfacesThatAreGoneForLongAreGivenBack() {
        Read read = Read.of(new NetDevFile(), interfaces(0, 100));
        read.parser().renewIfWorn(0);
        read.advance(interfaces(50, 100));
        read.parser().renewIfWorn(SECOND);
        assertEquals(150 * 16, read.parser().slots().count(), "they are not gone for long");
        read.parser().renewIfWorn(SECOND + Slots.GONE_FOR_NANOS);
        assertEquals(100 * 16, read.parser().slots().count());
        for (int number = 50; number < 150; number++) {
            assertEquals(Integer.toString(number + 1_000), read.get("net.rx_bytes[veth" + number + "]"));
        }
        read.advance(interfaces(50, 100).replace("1099", "1234"));
        assertEquals("1234", read.get("net.rx_bytes[veth99]"));
        assertEquals(List.of(), read.faults());
        read.advance(interfaces(0, 60));
        assertEquals("1000", read.get("net.rx_bytes[veth0]"));
        assertEquals("1055", read.get("net.rx_bytes[veth55]"));
        assertEquals("INSTANCE_GONE", read.get("net.rx_bytes[veth99]"));
    }

    @Test
    void aFewThatAreGoneAmongManyKeepTheirSlots() {
        Read read = Read.of(new NetDevFile(), interfaces(0, 500));
        for (long time = 0; time <= 2 * Slots.GONE_FOR_NANOS; time += Slots.GONE_FOR_NANOS) {
            read.advance(interfaces(10, 490));
            read.parser().renewIfWorn(time);
        }
        assertEquals(500 * 16, read.parser().slots().count());
    }

    @Test
    void interfacesThatComeAndGoForeverNeedABoundedNumberOfSlots() {
        Read read = new Read(new NetDevFile());
        int most = 0;
        for (int hour = 0; hour < 100; hour++) {
            read.advance(interfaces(hour * 10, 20));
            read.parser().renewIfWorn(hour * 3_600 * SECOND);
            most = Math.max(most, read.parser().slots().count());
            assertEquals("INSTANCE_GONE", read.readings().getOrDefault("net.rx_bytes[veth" + (hour * 10 - 1) + "]",
                    "INSTANCE_GONE"));
            assertEquals(Integer.toString(hour * 10 + 1_019), read.get("net.rx_bytes[veth" + (hour * 10 + 19) + "]"));
        }
        assertTrue(most <= 50 * 16, most + " slots");
    }

    @Test
    void beyondTheLastSlotAnInterfaceIsRefusedAndTheOthersStay() {
        int fit = Slots.SLOTS_MAX / 16;
        Read read = Read.of(new NetDevFile(), interfaces(0, fit + 2));
        assertEquals(Slots.SLOTS_MAX, read.parser().slots().count());
        assertEquals(List.of(new FaultNote(fit + 3, "veth" + fit, "no slot left for this instance"),
                new FaultNote(fit + 4, "veth" + (fit + 1), "no slot left for this instance")), read.faults());
        assertEquals(fit - 1 + 1_000, read.parser().readings().value((fit - 1) * 16));
    }

    @Test
    void whenAllSlotsAreTakenThoseOfInterfacesThatAreGoneAreGivenBackAtOnce() {
        int fit = Slots.SLOTS_MAX / 16;
        int many = fit - 100;
        OneText kernel = new OneText(interfaces(0, many).getBytes(java.nio.charset.StandardCharsets.US_ASCII), Integer.MAX_VALUE);
        Source source = new Source(new NetDevFile(), new KernelText(kernel, "known", NetDevFile.WHOLE), 0);
        Room room = new Room();
        source.gather(room, 0, 1);
        // Each time other interfaces, within less than the time after which slots are given back otherwise.
        for (int round = 1; round <= 5; round++) {
            kernel.text = interfaces(round * many, many).getBytes(java.nio.charset.StandardCharsets.US_ASCII);
            source.gather(room, round * SECOND, 1);
            assertEquals("", source.status().problem());
            assertEquals(many * 16, source.slots().count());
            assertEquals(many * 16, source.living().size());
            int last = source.slots().find("veth" + ((round + 1) * many - 1), 0);
            assertEquals((round + 1) * many - 1 + 1_000, source.readings().value(last));
        }
    }

    @Test
    void anInterfaceThatIsThereAndHasNoSlotIsNotGone() {
        int fit = Slots.SLOTS_MAX / 16;
        Read read = Read.of(new NetDevFile(), interfaces(0, fit + 1));
        assertEquals(false, read.parser().renewIfWorn(0), "none of them is gone");
        assertEquals(State.UNREADABLE, read.parser().readings().unknown());
        read.advance(interfaces(0, fit));
        assertEquals(State.INSTANCE_GONE, read.parser().readings().unknown());
    }

    @Test
    void slotsAreGivenBackAlsoWhileNothingElseMoves() {
        OneText kernel = new OneText(interfaces(0, 100).getBytes(java.nio.charset.StandardCharsets.US_ASCII), Integer.MAX_VALUE);
        Source source = new Source(new NetDevFile(), new KernelText(kernel, "known", NetDevFile.WHOLE), 0);
        Room room = new Room();
        source.gather(room, 0, 1);
        kernel.text = interfaces(0, 10).getBytes(java.nio.charset.StandardCharsets.US_ASCII);
        source.gather(room, SECOND, 1);
        assertEquals(100 * 16, source.slots().count());
        assertEquals(10 * 16, source.living().size());
        long parses = source.status().fullParses();
        source.gather(room, 2 * SECOND + Slots.GONE_FOR_NANOS, 1);
        assertEquals(10 * 16, source.slots().count());
        assertEquals(parses, source.status().fullParses());
        source.gather(room, 3 * SECOND + Slots.GONE_FOR_NANOS, 1);
        assertEquals(1_009, source.readings().value(source.slots().find("veth9", 0)));
    }

    @Test
    void namesThatAreNotTextStayDifferent() {
        byte[] text = (HEADER + "e0: 1 2\ne1: 3 4\n").getBytes(java.nio.charset.StandardCharsets.ISO_8859_1);
        text[HEADER.length() + 1] = (byte) 0xFF;
        text[HEADER.length() + 9] = (byte) 0xFE;
        Read read = Read.of(new NetDevFile(), text);
        assertEquals("1", read.get("net.rx_bytes[e%5CxFF]"));
        assertEquals("3", read.get("net.rx_bytes[e%5CxFE]"));
    }
}
