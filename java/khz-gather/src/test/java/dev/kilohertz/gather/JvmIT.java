package dev.kilohertz.gather;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** The packaged jar in JVMs with several options. */
class JvmIT {
    private static final String ON_CLASS_PATH = "--enable-native-access=ALL-UNNAMED";
    private static final String AS_MODULE = "--enable-native-access=dev.kilohertz.gather";

    /** The memory of this machine, as the gatherer prints it. */
    private static String total() throws Exception {
        String line = Files.readAllLines(Path.of("/proc/meminfo")).get(0);
        return Long.toString(Long.parseLong(line.replaceAll("\\D", "")) * 1_024);
    }

    @Test
    void withItsFlagItReadsByPreadAndWarnsOfNothing() throws Exception {
        Jvm.Output expected = new Jvm.Output(0, "ForeignKernel " + total(), "");
        assertEquals(expected, Jvm.onClassPath(List.of(ON_CLASS_PATH, "--illegal-native-access=deny"), "1"));
        assertEquals(expected, Jvm.asModule(List.of(AS_MODULE, "--illegal-native-access=deny"), "1"));
    }

    @Test
    void withoutItsFlagTheReasonNamesTheFlag() throws Exception {
        for (List<String> options : List.of(List.<String>of(), List.of("--illegal-native-access=deny"))) {
            Jvm.Output onClassPath = Jvm.onClassPath(options, "1");
            assertTrue(onClassPath.out().startsWith("native access is not enabled: start java with " + ON_CLASS_PATH + " "),
                    onClassPath::toString);
            Jvm.Output asModule = Jvm.asModule(options, "1");
            assertTrue(asModule.out().startsWith("native access is not enabled: start java with " + AS_MODULE + " "),
                    asModule::toString);
            assertEquals("", onClassPath.err() + asModule.err());
        }
    }

    @Test
    void manyGathersFitIntoASmallHeapThatIsNeverCollected() throws Exception {
        // The Epsilon collector frees nothing: 20,000 gathers that made a kilobyte each would need 20 MB.
        Jvm.Output output = Jvm.onClassPath(List.of(ON_CLASS_PATH, "-XX:+UnlockExperimentalVMOptions",
                "-XX:+UseEpsilonGC", "-Xms16m", "-Xmx16m", "-XX:+AlwaysPreTouch", "-Xlog:disable"), "20000");
        assertEquals(new Jvm.Output(0, "ForeignKernel " + total(), ""), output);
    }

    @Test
    void jdk17ReadsThroughAChannel() throws Exception {
        Optional<Path> jdk17 = Jvm.jdk17();
        assumeTrue(jdk17.isPresent(), "no JDK 17 here: KHZ_JAVA_17 names one");
        assertEquals(new Jvm.Output(0, "ChannelKernel " + total(), ""), Jvm.on(jdk17.get(), "1000"));
    }
}
