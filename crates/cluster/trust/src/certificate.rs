//! What a certificate says: names, role, validity. This file believes everything it reads: TLS decides first
//! whether a certificate is genuine.

use std::net::IpAddr;

use khz_model::NodeName;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::{DirectoryString, GeneralName};
use x509_cert::name::Name;
use x509_cert::time::Time;

use crate::moment::Moment;
use crate::role::{Identity, Role};

/// CN and OU.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const UNIT: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.11");

/// Every certificate is smaller: as rustls is set, TLS carries a whole chain in 64 KiB, and ours have less
/// than one.
const CERTIFICATE_BYTES_MAX: usize = 64 << 10;

/// A subject alternative name that holds an identity begins with this: `khz:node/n1`.
const IDENTITY_SCHEME: &str = "khz:";

/// The fields of a certificate that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Every CN of the subject.
    pub common_names: Vec<String>,
    /// Every OU of the subject.
    pub units: Vec<String>,
    /// DNS names and IP addresses that it is valid for.
    pub hosts: Vec<String>,
    /// URIs that it is valid for.
    pub uris: Vec<String>,
    /// When it begins.
    pub from: Moment,
    /// When it ends.
    pub until: Moment,
    /// The subject, in DER.
    pub subject: Vec<u8>,
    /// The issuer, in DER.
    pub issuer: Vec<u8>,
}

/// Why a certificate names no identity of Kilohertz.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// It cannot be read.
    #[error("the certificate cannot be read")]
    Malformed,
    /// It has no CN, or several.
    #[error("the certificate has {0} common names (CN) where one is the name")]
    Names(usize),
    /// Its name cannot be a node's name.
    #[error("the certificate's name (CN) is not valid: {0}")]
    Name(String),
    /// It names no role, or several.
    #[error(
        "the certificate says {0} roles where one is needed: OU node, reader, operator or hub, or a URI khz:ROLE/NAME"
    )]
    Roles(usize),
}

impl Certificate {
    /// Reads DER.
    pub fn read(der: &[u8]) -> Result<Self, PeerError> {
        read(der).ok_or(PeerError::Malformed)
    }

    /// Reads the first certificate in PEM.
    pub fn read_pem(pem: &[u8]) -> Result<Self, PeerError> {
        let der = CertificateDer::from_pem_slice(pem).map_err(|_| PeerError::Malformed)?;
        Certificate::read(&der)
    }

    /// The owner: from the URI `khz:ROLE/NAME`, else from CN and OU.
    pub fn identity(&self) -> Result<Identity, PeerError> {
        let mut said = self.uris.iter().filter_map(|uri| uri.strip_prefix(IDENTITY_SCHEME));
        match (said.next(), said.count()) {
            (Some(said), 0) => {
                let (role, name) = said.split_once('/').ok_or(PeerError::Roles(0))?;
                Ok(Identity { role: role.parse().map_err(|_| PeerError::Roles(0))?, name: valid(name)? })
            }
            (Some(_), more) => Err(PeerError::Roles(1 + more)),
            (None, _) => self.subject(),
        }
    }

    fn subject(&self) -> Result<Identity, PeerError> {
        let roles: Vec<Role> = self.units.iter().filter_map(|unit| unit.parse().ok()).collect();
        match (&self.common_names[..], &roles[..]) {
            ([name], [role]) => Ok(Identity { role: *role, name: valid(name)? }),
            ([_], roles) => Err(PeerError::Roles(roles.len())),
            (names, _) => Err(PeerError::Names(names.len())),
        }
    }
}

impl Identity {
    /// The owner of a certificate; of a peer's, only after TLS has verified it.
    pub fn of_certificate(der: &[u8]) -> Result<Self, PeerError> {
        Certificate::read(der)?.identity()
    }
}

fn valid(name: &str) -> Result<NodeName, PeerError> {
    NodeName::new(name).map_err(|error| PeerError::Name(error.problem))
}

/// The fields that we use; `None` where the certificate, or a name that we would use, is malformed.
fn read(der: &[u8]) -> Option<Certificate> {
    if der.len() > CERTIFICATE_BYTES_MAX {
        return None;
    }
    let certificate = x509_cert::Certificate::from_der(der).ok()?;
    let signed = certificate.tbs_certificate();
    let (hosts, uris) = match signed.get_extension::<SubjectAltName>().ok()? {
        Some((_, names)) => alternative_names(&names),
        None => Default::default(),
    };
    Some(Certificate {
        common_names: attributes(signed.subject(), COMMON_NAME)?,
        units: attributes(signed.subject(), UNIT)?,
        hosts,
        uris,
        from: moment(signed.validity().not_before)?,
        until: moment(signed.validity().not_after)?,
        subject: signed.subject().to_der().ok()?,
        issuer: signed.issuer().to_der().ok()?,
    })
}

fn moment(time: Time) -> Option<Moment> {
    i64::try_from(time.to_unix_duration().as_secs()).ok().map(Moment)
}

/// Every value of one attribute; `None` where one is no text.
fn attributes(name: &Name, wanted: ObjectIdentifier) -> Option<Vec<String>> {
    let values = name.iter().filter(|attribute| attribute.oid == wanted);
    values.map(|attribute| attribute.value.decode_as::<DirectoryString>().ok().map(String::from)).collect()
}

/// Hosts and URIs among the alternative names.
fn alternative_names(names: &SubjectAltName) -> (Vec<String>, Vec<String>) {
    let (mut hosts, mut uris) = (Vec::new(), Vec::new());
    for name in &names.0 {
        match name {
            GeneralName::DnsName(host) => hosts.push(host.to_string()),
            GeneralName::UniformResourceIdentifier(uri) => uris.push(uri.to_string()),
            GeneralName::IpAddress(ip) => hosts.extend(address(ip.as_bytes()).map(|ip| ip.to_string())),
            _ => {}
        }
    }
    (hosts, uris)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    fn der(names: &[(DnType, &str)], hosts: &[&str], uris: &[&str]) -> Vec<u8> {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, text) in names {
            params.distinguished_name.push(kind.clone(), *text);
        }
        for uri in uris {
            params.subject_alt_names.push(SanType::URI((*uri).try_into().unwrap()));
        }
        params.not_before = rcgen::date_time_ymd(2026, 1, 2);
        params.not_after = rcgen::date_time_ymd(2051, 3, 4);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn every_field_that_we_use_is_found() {
        let names = [(DnType::CommonName, "hub1"), (DnType::OrganizationalUnitName, "hub")];
        let der = der(&names, &["hub1.example", "10.0.0.1", "::1"], &["https://example"]);
        let certificate = Certificate::read(&der).unwrap();
        assert_eq!(certificate.common_names, ["hub1"]);
        assert_eq!(certificate.hosts, ["hub1.example", "10.0.0.1", "::1"]);
        assert_eq!(certificate.uris, ["https://example"]);
        assert_eq!(certificate.from.to_string(), "2026-01-02 00:00:00 UTC");
        assert_eq!(certificate.until.to_string(), "2051-03-04 00:00:00 UTC");
        assert_eq!(certificate.identity().unwrap().to_string(), "hub hub1");
    }

    #[test]
    fn the_role_comes_once_from_unit_or_uri() {
        let cn = |name| (DnType::CommonName, name);
        let ou = |unit| (DnType::OrganizationalUnitName, unit);
        for (names, uris, expected) in [
            (&[cn("n1"), ou("node")][..], &[][..], Ok("node n1")),
            (&[cn("n1"), ou("reader")], &["khz:operator/alice"], Ok("operator alice")),
            (&[cn("n1")], &["khz:node/n1"], Ok("node n1")),
            (&[cn("n1"), ou("Research")], &[], Err(PeerError::Roles(0))),
            (&[cn("n1"), ou("node")], &["khz:node/n1", "khz:hub/n1"], Err(PeerError::Roles(2))),
            (&[cn("n1"), ou("node")], &["khz:root/n1"], Err(PeerError::Roles(0))),
            (&[ou("node")], &[], Err(PeerError::Names(0))),
        ] {
            let said = Identity::of_certificate(&der(names, &[], uris));
            assert_eq!(said.map(|identity| identity.to_string()), expected.map(str::to_owned));
        }
        let name = Identity::of_certificate(&der(&[cn("../n1"), ou("node")], &[], &[]));
        assert!(matches!(name, Err(PeerError::Name(_))), "{name:?}");
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_panic(bytes: Vec<u8>) {
            let _ = Certificate::read(&bytes);
        }

        #[test]
        fn bent_certificates_never_panic(at: prop::sample::Index, byte: u8) {
            let mut bytes = der(&[(DnType::CommonName, "n1")], &["a", "10.0.0.1"], &["khz:node/n1"]);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = Certificate::read(&bytes).map(|certificate| certificate.identity());
        }
    }
}
