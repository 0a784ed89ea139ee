package dev.kilohertz;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.Collection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** The certificates of a PEM file as the only ones that are trusted. */
final class Authority {
    private Authority() {}

    static SSLContext trusted(Path file) {
        try (InputStream in = Files.newInputStream(file)) {
            Collection<? extends Certificate> certificates = CertificateFactory.getInstance("X.509").generateCertificates(in);
            if (certificates.isEmpty()) {
                throw unusable(file, "it has no certificate", null);
            }
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            for (Certificate certificate : certificates) {
                store.setCertificateEntry("authority" + store.size(), certificate);
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            return context;
        } catch (IOException | GeneralSecurityException e) {
            throw unusable(file, e.toString(), e);
        }
    }

    private static IllegalArgumentException unusable(Path file, String why, Exception cause) {
        return new IllegalArgumentException(file + " is no authority (" + why + "): name the ca.pem that 'khz certs init' has made", cause);
    }
}
