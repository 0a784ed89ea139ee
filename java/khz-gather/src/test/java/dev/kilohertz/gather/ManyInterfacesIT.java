package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;

/**
 * Five hundred interfaces in a network namespace of their own: there the kernel hands /proc/net/dev out in many pieces. Needs unshare,
 * iproute2, and the right to make a namespace.
 */
class ManyInterfacesIT {
    private static final int INTERFACES = 500;

    /** Makes the interfaces in a new namespace, and then runs what follows. /sys is mounted again, so that it shows the namespace. */
    private static final List<String> INSIDE = List.of("unshare", "-rnm", "sh", "-c",
            "mount -t sysfs sysfs /sys && i=0; while [ $i -lt " + INTERFACES
                    + " ]; do echo \"link add name bridge$i type bridge\"; i=$((i + 1)); done | ip -batch - && exec \"$@\"",
            "sh");

    @Test
    void everyInterfaceIsFoundAndItsPiecesAreReadToTheEnd() throws Exception {
        assumeTrue(isPossible(), "no namespace with bridges can be made here: it needs unshare, ip and the right to");
        Jvm.Output output = Jvm.inside(INSIDE, InterfacesProgram.class);
        assertEquals(new Jvm.Output(0, INTERFACES + 1 + " interfaces, 0 differ, 0 full parses", ""), output);
    }

    private static boolean isPossible() throws InterruptedException {
        try {
            return new ProcessBuilder("unshare", "-rnm", "sh", "-c",
                    "mount -t sysfs sysfs /sys && ip link add name bridge0 type bridge")
                    .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start().waitFor() == 0;
        } catch (IOException missing) {
            return false;
        }
    }
}
