//! Both sides of TLS against each other, in memory: which peers are let in, as which identity, and what the
//! other side learns.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use khz_trust::{
    ClientCertificates, ClientFiles, Identity, Protocol, Role, ServerFiles, TlsClient, TlsServer, TrustError,
    explain, explain_io, write_new,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// A directory that is removed with the test, and a CA in it.
struct Site {
    folder: PathBuf,
    ca: CertifiedIssuer<'static, KeyPair>,
}

impl Site {
    fn new() -> Site {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("khz-trust-site-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let site = Site { folder, ca: Site::authority(number) };
        site.write("ca.pem", &site.ca.pem());
        site
    }

    fn authority(number: u32) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, format!("CA {number}"));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        write_new(&self.path(name), text.as_bytes(), 0o600, true).unwrap();
    }

    /// `NAME.pem` and `NAME.key` for a role; hubs serve and call, others call.
    fn pair(&self, name: &str, role: Role, change: impl FnOnce(&mut CertificateParams)) {
        let hosts =
            if role == Role::Hub { vec![format!("{name}.example"), "10.0.0.1".into()] } else { vec![] };
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationalUnitName, role.word());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if role == Role::Hub {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        self.write(&format!("{name}.pem"), &params.signed_by(&key, &self.ca).unwrap().pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    fn server_files(&self) -> ServerFiles {
        ServerFiles::new(self.path("hub1.pem"), self.path("hub1.key")).with_ca(self.path("ca.pem"))
    }

    fn server(&self, clients: ClientCertificates) -> TlsServer {
        TlsServer::load(self.server_files(), clients, Protocol::Link).unwrap()
    }

    fn client(&self, name: &str) -> TlsClient {
        let files = ClientFiles::new(self.path("ca.pem"));
        let files = files.with_pair(self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        TlsClient::load(files, Protocol::Link).unwrap()
    }

    fn stranger(&self) -> TlsClient {
        TlsClient::load(ClientFiles::new(self.path("ca.pem")), Protocol::Link).unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The result of a handshake: the identity that the server saw, or what each side says about the failure.
type Met = Result<Option<Identity>, (String, String)>;

fn meet(server: &TlsServer, client: &TlsClient, host: &str) -> Met {
    let name = TlsClient::server_name(host).unwrap();
    let mut server = rustls::ServerConnection::new(server.config()).unwrap();
    let mut client = rustls::ClientConnection::new(client.config(), name).unwrap();
    let (mut server_says, mut client_says) = (None, None);
    for _ in 0..8 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut bytes = bytes.as_slice();
        while !bytes.is_empty() && server_says.is_none() {
            server.read_tls(&mut bytes).unwrap();
            server_says = server.process_new_packets().err();
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut bytes = bytes.as_slice();
        while !bytes.is_empty() && client_says.is_none() {
            client.read_tls(&mut bytes).unwrap();
            client_says = client.process_new_packets().err();
        }
    }
    if server_says.is_some() || client_says.is_some() {
        let said = |error: Option<rustls::Error>| error.map_or(String::new(), |error| explain(&error));
        return Err((said(server_says), said(client_says)));
    }
    assert!(!server.is_handshaking() && !client.is_handshaking());
    let certificate = server.peer_certificates().and_then(|chain| chain.first());
    Ok(certificate.map(|certificate| Identity::of_certificate(certificate).unwrap()))
}

#[test]
fn a_certificate_identifies_the_peer() {
    let site = Site::new();
    site.pair("hub1", Role::Hub, |_| {});
    let server = site.server(ClientCertificates::Optional);
    for role in Role::ALL {
        site.pair("someone", role, |_| {});
        let met = meet(&server, &site.client("someone"), "hub1.example").unwrap().unwrap();
        assert_eq!((met.role, met.name.as_str()), (role, "someone"));
    }
    assert_eq!(meet(&server, &site.stranger(), "10.0.0.1"), Ok(None));
}

#[test]
fn without_a_required_certificate_nobody_comes_in() {
    let site = Site::new();
    site.pair("hub1", Role::Hub, |_| {});
    let (server_says, client_says) =
        meet(&site.server(ClientCertificates::Required), &site.stranger(), "hub1.example").unwrap_err();
    assert_eq!(server_says, "the other side showed no certificate");
    assert_eq!(client_says, "the other side wants a certificate, and we showed none");
}

#[test]
fn an_error_about_a_wrong_host_lists_the_hosts_of_the_certificate() {
    let site = Site::new();
    site.pair("hub1", Role::Hub, |_| {});
    let (_, client_says) =
        meet(&site.server(ClientCertificates::Optional), &site.stranger(), "hub2.example").unwrap_err();
    assert_eq!(
        client_says,
        "the other side's certificate is for hub1.example, 10.0.0.1, not for hub2.example"
    );
}

#[test]
fn certificates_of_another_authority_are_refused_on_both_sides() {
    let (ours, theirs) = (Site::new(), Site::new());
    ours.pair("hub1", Role::Hub, |_| {});
    theirs.pair("hub1", Role::Hub, |_| {});
    theirs.pair("n1", Role::Node, |_| {});
    let server = ours.server(ClientCertificates::Optional);
    let (_, client_says) = meet(&server, &theirs.stranger(), "hub1.example").unwrap_err();
    assert_eq!(client_says, "the other side's certificate was not signed by our CA");
    let files = ClientFiles::new(ours.path("ca.pem")).with_pair(theirs.path("n1.pem"), theirs.path("n1.key"));
    let client = TlsClient::load(files, Protocol::Link).unwrap();
    let (server_says, client_says) = meet(&server, &client, "hub1.example").unwrap_err();
    assert_eq!(server_says, "the other side's certificate was not signed by our CA");
    assert_eq!(client_says, "the other side says that our certificate was not signed by its CA");
}

#[test]
fn a_node_cannot_pose_as_a_hub() {
    let site = Site::new();
    site.pair("n1", Role::Node, |params| {
        params.subject_alt_names =
            CertificateParams::new(vec!["hub1.example".to_owned()]).unwrap().subject_alt_names;
    });
    let files = ServerFiles::new(site.path("n1.pem"), site.path("n1.key"));
    let server = TlsServer::load(files, ClientCertificates::Optional, Protocol::Link).unwrap();
    let (_, client_says) = meet(&server, &site.stranger(), "hub1.example").unwrap_err();
    assert!(client_says.contains("a hub's serves, a node's calls"), "{client_says}");
}

#[test]
fn the_wrong_door_is_noticed() {
    let site = Site::new();
    site.pair("hub1", Role::Hub, |_| {});
    let http = TlsServer::load(site.server_files(), ClientCertificates::Optional, Protocol::Http).unwrap();
    let (server_says, client_says) = meet(&http, &site.stranger(), "hub1.example").unwrap_err();
    assert_eq!(server_says, "the other side came for another door");
    assert_eq!(client_says, "this is another door: the port is wrong");
}

#[test]
fn errors_about_our_own_files_name_the_file() {
    let site = Site::new();
    let load = || TlsServer::load(site.server_files(), ClientCertificates::Optional, Protocol::Link);
    let says = |name: &str, expected: &str| {
        let error = load().err().unwrap().to_string();
        let path = site.path(name).display().to_string();
        assert!(error.contains(&path) && error.contains(expected), "{error}");
    };
    says("hub1.pem", "cannot read");
    site.pair("hub1", Role::Hub, |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 2, 3);
    });
    says("hub1.pem", "expired on 2021-02-03 00:00:00 UTC");
    site.pair("hub1", Role::Hub, |params| {
        params.not_before = date_time_ymd(3000, 1, 1);
        params.not_after = date_time_ymd(3001, 1, 1);
    });
    says("hub1.pem", "valid from 3000-01-01 00:00:00 UTC on");
    site.pair("hub1", Role::Hub, |_| {});
    site.pair("hub2", Role::Hub, |_| {});
    std::fs::copy(site.path("hub2.key"), site.path("hub1.key")).unwrap();
    says("hub1.key", "they were not made together");
    site.write("hub1.key", "nothing");
    says("hub1.key", "no private key");
    site.write("hub1.pem", "nothing");
    says("hub1.pem", "no certificate");
    site.write("ca.pem", "");
    site.pair("hub1", Role::Hub, |_| {});
    says("ca.pem", "no certificate");
}

#[test]
fn new_files_are_taken_without_a_restart_and_broken_ones_left() {
    let site = Site::new();
    site.pair("hub1", Role::Hub, |_| {});
    let server = site.server(ClientCertificates::Optional);
    assert!(!server.refresh().unwrap());
    site.write("hub1.key", "half written");
    assert!(matches!(server.refresh(), Err(TrustError::Content { .. })));
    assert!(!server.refresh().unwrap(), "told once");
    assert_eq!(meet(&server, &site.stranger(), "hub1.example"), Ok(None), "the old pair serves on");
    site.pair("hub1", Role::Hub, |params| {
        params.subject_alt_names =
            CertificateParams::new(vec!["new.example".to_owned()]).unwrap().subject_alt_names;
    });
    assert!(server.refresh().unwrap());
    assert_eq!(meet(&server, &site.stranger(), "new.example"), Ok(None));
    assert!(meet(&server, &site.stranger(), "hub1.example").is_err());
}

#[test]
fn an_expired_caller_learns_when_its_certificate_expired() {
    let site = Site::new();
    site.pair("hub1", Role::Hub, |_| {});
    site.pair("n1", Role::Node, |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 2, 3);
    });
    let server = site.server(ClientCertificates::Optional);
    // Our own client refuses to load it, so this one is less careful.
    let client = careless(&site.path("ca.pem"), &site.path("n1.pem"), &site.path("n1.key"));
    let name = TlsClient::server_name("hub1.example").unwrap();
    let mut client = rustls::ClientConnection::new(client, name).unwrap();
    let mut session = rustls::ServerConnection::new(server.config()).unwrap();
    let error = rounds(&mut client, &mut session).unwrap_err();
    assert_eq!(explain(&error), "the other side's certificate expired on 2021-02-03 00:00:00 UTC");
}

#[test]
fn an_error_about_a_cut_connection_names_no_address_of_a_library() {
    let site = Site::new();
    site.pair("hub1", Role::Hub, |_| {});
    let server = site.server(ClientCertificates::Optional);
    let name = TlsClient::server_name("hub1.example").unwrap();
    let mut client = rustls::ClientConnection::new(site.stranger().config(), name).unwrap();
    let mut session = rustls::ServerConnection::new(server.config()).unwrap();
    rounds(&mut client, &mut session).unwrap();
    // The other side is gone, without the close message of TLS.
    client.read_tls(&mut std::io::empty()).unwrap();
    let error = std::io::Read::read(&mut client.reader(), &mut [0; 16]).unwrap_err();
    assert!(error.to_string().contains("https://"), "else this test proves nothing: {error}");
    let said = explain_io(&error);
    assert!(said.starts_with("the other side ended the connection without a word"), "{said}");
    let other = std::io::Error::other("frame too large: see https://docs.example/frames#large");
    assert_eq!(explain_io(&other), "frame too large: see");
    assert_eq!(explain_io(&std::io::Error::other(error)), said);
}

fn careless(ca: &Path, certificate: &Path, key: &Path) -> Arc<rustls::ClientConfig> {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    Arc::new(builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap())
}

/// Moves bytes until the server refuses.
fn rounds(
    client: &mut rustls::ClientConnection,
    server: &mut rustls::ServerConnection,
) -> Result<(), rustls::Error> {
    for _ in 0..8 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut bytes = bytes.as_slice();
        while !bytes.is_empty() {
            server.read_tls(&mut bytes).unwrap();
            server.process_new_packets()?;
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut bytes = bytes.as_slice();
        while !bytes.is_empty() {
            client.read_tls(&mut bytes).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok(())
}
