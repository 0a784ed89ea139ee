//! Damaged certificates, and certificates that openssl makes. A damaged one is refused or says the same as
//! before; openssl's are read like ours.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use khz_trust::{Certificate, Identity, PeerError};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair, SanType};

/// The fields of a certificate that decide the identity, and how long it is valid.
fn known(der: &[u8]) -> Result<Certificate, PeerError> {
    let certificate = Certificate::read(der)?;
    certificate.identity()?;
    Ok(certificate)
}

fn params(names: &[(DnType, &str)]) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["a.example".to_owned(), "10.0.0.1".to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    for (kind, text) in names {
        params.distinguished_name.push(kind.clone(), *text);
    }
    params
}

fn signed(params: CertificateParams) -> Vec<u8> {
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

/// A second OU: rcgen writes each kind of attribute once, and takes this for another kind.
fn second_unit() -> DnType {
    DnType::CustomDnType(vec![2, 5, 4, 11])
}

fn node() -> Vec<u8> {
    let names = [(DnType::CommonName, "node-one"), (DnType::OrganizationalUnitName, "node")];
    let mut params = params(&names);
    params.subject_alt_names.push(SanType::URI("https://example".try_into().unwrap()));
    signed(params)
}

/// Finds where each element begins that contains elements, and where each element in it begins, down to the
/// leaves.
fn elements(der: &[u8], from: usize, to: usize, found: &mut Vec<usize>) {
    let mut at = from;
    while at + 2 <= to {
        let (length, header) = match der[at + 1] {
            short @ 0..0x80 => (usize::from(short), 2),
            long => {
                let bytes = usize::from(long & 0x7f);
                let length =
                    der[at + 2..at + 2 + bytes].iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
                (length, 2 + bytes)
            }
        };
        found.push(at);
        if der[at] & 0x20 != 0 {
            elements(der, at + header, at + header + length, found);
        }
        at += header + length;
    }
}

fn each_element(der: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    elements(der, 0, der.len(), &mut found);
    assert!(found.len() > 40, "{found:?}");
    found
}

/// True where a damaged certificate is refused, or says the same as the whole one.
fn refused_or_the_same(bent: &[u8], whole: &Certificate, what: &str) -> bool {
    match known(bent) {
        Err(_) => true,
        Ok(read) => {
            let told = |c: &Certificate| (c.identity(), c.hosts.clone(), c.uris.clone(), c.from, c.until);
            assert_eq!(told(&read), told(whole), "{what}");
            false
        }
    }
}

#[test]
fn a_certificate_cut_at_any_byte_or_with_bytes_after_it_is_malformed() {
    let whole = node();
    for length in 0..whole.len() {
        assert_eq!(Certificate::read(&whole[..length]), Err(PeerError::Malformed), "{length}");
    }
    assert_eq!(Certificate::read(&[&whole[..], &[0]].concat()), Err(PeerError::Malformed));
    assert!(Certificate::read(&whole).is_ok());
}

#[test]
fn a_wrong_tag_is_refused_or_changes_nothing_that_we_go_by() {
    let der = node();
    let whole = known(&der).unwrap();
    for at in each_element(&der) {
        for tag in [0x00, 0x04, 0x05, 0x1e, 0x1f, 0x30, 0x31, 0xa0, 0xff] {
            let mut bent = der.clone();
            bent[at] = tag;
            if tag != der[at] {
                // A name or value with the same letters under another string tag is the same text.
                refused_or_the_same(&bent, &whole, &format!("tag {tag:#x} at {at}"));
            }
        }
    }
    // The certificate itself, its signed part, and the sequences of names and times.
    for at in each_element(&der).into_iter().take(2) {
        let mut bent = der.clone();
        bent[at] = 0x31;
        assert_eq!(Certificate::read(&bent), Err(PeerError::Malformed), "{at}");
    }
}

#[test]
fn a_huge_or_indefinite_length_is_refused_wherever_it_stands() {
    let der = node();
    let whole = known(&der).unwrap();
    for at in each_element(&der) {
        for length in
            [&[0x80][..], &[0x84, 0xff, 0xff, 0xff, 0xff], &[0x88; 9], &[0xff], &[0x83, 0xff, 0xff, 0xff]]
        {
            let bent = [&der[..=at], length, &der[at + 2..]].concat();
            assert!(refused_or_the_same(&bent, &whole, "bytes were added"), "{length:x?} at {at}");
        }
    }
    let large = vec![0x30; 1 << 20];
    assert_eq!(Certificate::read(&large), Err(PeerError::Malformed));
}

#[test]
fn damaged_utf_8_in_a_name_that_we_go_by_is_refused() {
    let der = node();
    for name in ["node-one", "node"] {
        // The subject's come last; in a self-signed certificate the issuer's are the same.
        let at = der.windows(name.len()).rposition(|bytes| bytes == name.as_bytes()).unwrap();
        for bad in [0xff, 0xc3, 0x80, 0xf8] {
            let mut bent = der.clone();
            bent[at + name.len() - 1] = bad;
            assert_eq!(known(&bent).unwrap_err(), PeerError::Malformed, "{name} with {bad:#x}");
        }
        let mut nul = der.clone();
        nul[at + 1] = 0;
        assert!(known(&nul).is_err(), "{name} with a NUL");
    }
}

#[test]
fn attributes_and_extensions_that_are_there_twice_are_refused() {
    let cn = (DnType::CommonName, "n1");
    let two_roles = [cn.clone(), (DnType::OrganizationalUnitName, "node"), (second_unit(), "operator")];
    assert_eq!(Identity::of_certificate(&signed(params(&two_roles))), Err(PeerError::Roles(2)));
    let twice = [cn.clone(), (DnType::OrganizationalUnitName, "node"), (second_unit(), "node")];
    assert_eq!(Identity::of_certificate(&signed(params(&twice))), Err(PeerError::Roles(2)));
    let one = [cn.clone(), (DnType::OrganizationalUnitName, "Research"), (second_unit(), "node")];
    assert_eq!(Identity::of_certificate(&signed(params(&one))).unwrap().to_string(), "node n1");
    let two_names =
        [cn, (DnType::CustomDnType(vec![2, 5, 4, 3]), "n2"), (DnType::OrganizationalUnitName, "node")];
    assert_eq!(Identity::of_certificate(&signed(params(&two_names))), Err(PeerError::Names(2)));

    let mut with_two_lists = params(&[(DnType::CommonName, "n1"), (DnType::OrganizationalUnitName, "node")]);
    // A second list of alternative names: one URI.
    let list = [&[0x30, 19, 0x86, 17][..], b"khz:operator/root"].concat();
    with_two_lists.custom_extensions.push(CustomExtension::from_oid_content(&[2, 5, 29, 17], list));
    assert_eq!(Identity::of_certificate(&signed(with_two_lists)), Err(PeerError::Malformed));
}

/// A self-signed certificate by openssl in DER; `None` where there is no openssl, which `cargo xtask test`
/// reports.
fn openssl(name: &str, subject: &str, settings: &str, words: &[&str]) -> Option<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = |suffix: &str| folder.join(format!("{name}.{suffix}"));
    let config =
        format!("[req]\ndistinguished_name = subject\nprompt = no\n{settings}\n[subject]\n{subject}\n");
    std::fs::write(file("conf"), config).unwrap();
    let mut command = Command::new("openssl");
    command
        .args(["req", "-x509", "-outform", "DER", "-days", "30000", "-nodes", "-config"])
        .arg(file("conf"));
    command.arg("-keyout").arg(file("key")).arg("-out").arg(file("der")).args(words);
    match command.stdin(Stdio::null()).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(std::fs::read(file("der")).unwrap())
        }
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
            khz_skip::skip("needs openssl");
            None
        }
    }
}

const EC: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];

#[test]
fn certificates_that_openssl_makes_are_read_in_every_kind_of_string() {
    let subject = "CN = n1\nOU = node";
    // Bits of openssl's mask: PrintableString, T61String, BMPString, UTF8String.
    for (mask, tag) in [("0x2", 0x13), ("0x4", 0x14), ("0x800", 0x1e), ("0x2000", 0x0c)] {
        let settings = format!("string_mask = MASK:{mask}");
        let Some(der) = openssl(&format!("string-{mask}"), subject, &settings, &EC) else { return };
        assert!(der.contains(&tag));
        assert_eq!(Identity::of_certificate(&der).unwrap().to_string(), "node n1", "{mask}");
    }
}

#[test]
fn an_openssl_certificate_says_hosts_uris_and_times_as_openssl_prints_them() {
    let subject = "C = DE\nO = Ünïversität\n0.OU = Physics\n1.OU = reader\nCN = alice";
    let names =
        "subjectAltName=DNS:a.example,IP:10.0.0.1,IP:::1,URI:khz:operator/bob,email:a@example,RID:1.2.3.4";
    let words =
        [&["-newkey", "rsa:2048", "-utf8", "-addext", names, "-addext", "nsComment=hello"][..]].concat();
    let Some(der) = openssl("names", subject, "", &words) else { return };
    let read = Certificate::read(&der).unwrap();
    assert_eq!(read.units, ["Physics", "reader"]);
    assert_eq!(read.common_names, ["alice"]);
    assert_eq!(read.hosts, ["a.example", "10.0.0.1", "::1"]);
    assert_eq!(read.identity().unwrap().to_string(), "operator bob");
    assert_eq!(read.subject, read.issuer);
    assert!(
        read.until.days_since(read.from) == 30_000,
        "beyond 2049, where times are written in another form"
    );

    let Some(twice) = openssl("twice", "0.OU = node\n1.OU = operator\nCN = n1", "", &EC) else { return };
    assert_eq!(Identity::of_certificate(&twice), Err(PeerError::Roles(2)));
}
