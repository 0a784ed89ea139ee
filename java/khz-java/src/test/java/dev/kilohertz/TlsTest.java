package dev.kilohertz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A client and a hub that show each other who they are. */
class TlsTest {
    @TempDir
    Path folder;

    @Test
    void aHubIsTrustedByItsAuthorityAndAReaderByItsToken() throws Exception {
        Path certificates = Files.createDirectories(folder.resolve("tls"));
        Path place = Files.createDirectories(folder.resolve("hub"));
        String token;
        try (KhzProgram maker = KhzProgram.alone(Files.createDirectories(folder.resolve("maker")))) {
            maker.run("certs", "init", "--dir", certificates.toString());
            maker.run("certs", "hub", "hub1", "localhost", "--dir", certificates.toString());
            token = maker.run("certs", "token", "reader", "alice", "--dir", certificates.toString());
        }
        String[] settings = {"--listen", "127.0.0.1:0", "--tls-cert", certificates.resolve("hub-hub1.pem").toString(), "--tls-key",
            certificates.resolve("hub-hub1.key").toString(), "--tls-ca", certificates.resolve("ca.pem").toString(), "--cluster-key",
            certificates.resolve("cluster.key").toString()};
        try (KhzProgram hub = KhzProgram.hub(place, settings)) {
            String port = hub.door().substring(hub.door().lastIndexOf(':'));
            Client client = Client.builder("https://localhost" + port).authority(certificates.resolve("ca.pem")).token(token).build();
            assertTrue(client.nodes().isEmpty());
            Client stranger = Client.connect("https://localhost" + port);
            assertTrue(assertThrows(UnreachableException.class, stranger::nodes).getMessage().contains("authority()"));
            Client misnamed = Client.builder("https://127.0.0.1" + port).authority(certificates.resolve("ca.pem")).build();
            assertThrows(UnreachableException.class, misnamed::nodes, "its certificate does not name 127.0.0.1");
            Client forger = Client.builder("https://localhost" + port).authority(certificates.resolve("ca.pem"))
                    .token("khz-reader-alice-" + "0".repeat(64)).build();
            assertEquals(401, assertThrows(RefusedException.class, forger::nodes).status());
        }
        try (KhzProgram alone = KhzProgram.alone(Files.createDirectories(folder.resolve("alone")), Arrays.copyOfRange(settings, 2, settings.length))) {
            String port = alone.door().substring(alone.door().lastIndexOf(':'));
            Client client = Client.builder("https://localhost" + port).authority(certificates.resolve("ca.pem")).token(token).build();
            Subscription rare = Subscription.of("mem.total").rate("1Hz").when("{\"mem.total\"} < 0");
            InterruptTest.assertEndsTheWaitOfAStream(false, client, rare);
            InterruptTest.assertEndsTheWaitOfAStream(true, client, rare);
        }
    }

    @Test
    void aTokenIsNotSentWhereOthersCouldReadIt() {
        IllegalArgumentException error = assertThrows(IllegalArgumentException.class, () -> Client.builder("http://hub:7070").token("khz-reader-a-0").build());
        assertTrue(error.getMessage().contains("https://"), error.getMessage());
        assertEquals("http://localhost:7070", Client.builder("http://localhost:7070").token("khz-reader-a-0").build().toString());
    }

    @Test
    void aFileWithoutACertificateIsNoAuthority() throws IOException {
        Path file = Files.writeString(folder.resolve("empty.pem"), "");
        assertThrows(IllegalArgumentException.class, () -> Client.builder("https://hub").authority(file));
        assertThrows(IllegalArgumentException.class, () -> Client.builder("https://hub").authority(folder.resolve("none")));
    }
}
