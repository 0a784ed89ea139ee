//! A small certificate authority in a folder: a CA that signs, and a cluster key that tokens are derived from. Overwrites
//! files only with `force`.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use khz_trust::{
    Certificate, ClusterKey, Identity, Moment, Role, Token, TrustError, read_private, read_public, write_new,
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};

use crate::show::outcome::{Failure, sentence};

/// Names of the files.
const CA: &str = "ca.pem";
const CA_KEY: &str = "ca.key";
const CLUSTER_KEY: &str = "cluster.key";

const DAY_SECONDS: i64 = 86_400;
/// The CA is valid for longer than the certificates that it signs. After its end all of them have to be made again.
const CA_DAYS: u32 = 3_650;
/// The clocks of machines differ: a new certificate must be valid on all of them at once.
const SKEW_SECONDS: i64 = 3_600;
/// Everybody may read certificates; only their owner may read keys.
const PUBLIC_MODE: u32 = 0o644;
const PRIVATE_MODE: u32 = 0o600;

/// The folder.
pub struct Authority {
    folder: PathBuf,
    force: bool,
}

/// A certificate and its key, as they were written.
pub struct Issued {
    /// The certificate's file.
    pub certificate: PathBuf,
    /// The key's file.
    pub key: PathBuf,
    /// When it ends.
    pub until: Moment,
}

impl Authority {
    /// The authority in this folder, which `init` makes.
    pub fn new(folder: PathBuf, force: bool) -> Self {
        Authority { folder, force }
    }

    /// The CA's certificate, which every machine needs.
    pub fn ca(&self) -> PathBuf {
        self.folder.join(CA)
    }

    /// The cluster key, which a door needs to accept tokens.
    pub fn cluster_key(&self) -> PathBuf {
        self.folder.join(CLUSTER_KEY)
    }

    /// Makes CA and cluster key.
    pub fn init(&self) -> Result<(Issued, PathBuf), Failure> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&self.folder)
            .map_err(|error| Failure::work(format!("cannot make {}: {error}", self.folder.display())))?;
        let (key, cluster_key) = (self.folder.join(CA_KEY), self.cluster_key());
        self.check_free(&[&self.ca(), &key, &cluster_key])?;
        let pair = KeyPair::generate().map_err(Failure::work)?;
        // Each CA has its own name: with equal names, errors would blame the signature.
        let mut params = ca_params(&format!("Kilohertz CA {}", random_word()?));
        let until = set_validity(&mut params, CA_DAYS, None);
        let certificate = params.self_signed(&pair).map_err(Failure::work)?;
        self.write_pair(&self.ca(), &certificate.pem(), &key, &pair)?;
        ClusterKey::generate().and_then(|new| new.write(&cluster_key, self.force)).map_err(failure)?;
        Ok((Issued { certificate: self.ca(), key, until }, cluster_key))
    }

    /// Makes a certificate for `identity`, valid for this many days, at most as long as the CA. Each can be used as a client;
    /// a hub's also as the server of `hosts`.
    pub fn issue(&self, identity: &Identity, hosts: &[String], days: u32) -> Result<Issued, Failure> {
        let stem = format!("{}-{}", identity.role, identity.name);
        let (path, key) = (self.folder.join(format!("{stem}.pem")), self.folder.join(format!("{stem}.key")));
        self.check_free(&[&path, &key])?;
        let (ca, issuer) = self.issuer()?;
        let pair = KeyPair::generate().map_err(Failure::work)?;
        let mut params = params(identity, hosts)?;
        let until = set_validity(&mut params, days, Some(ca.until));
        let certificate = params.signed_by(&pair, &issuer).map_err(Failure::work)?;
        let written = Certificate::read(certificate.der()).map_err(Failure::work)?;
        if written.issuer != ca.subject {
            let ca = self.ca();
            return Err(Failure::work(format!(
                "{} was not made by `khz certs init`: let its own tool make certificates with CN and OU, as \
                 CN=n1, OU=node",
                ca.display()
            )));
        }
        self.write_pair(&path, &certificate.pem(), &key, &pair)?;
        Ok(Issued { certificate: path, key, until })
    }

    /// The token of a role and name.
    pub fn token(&self, identity: &Identity) -> Result<Token, Failure> {
        let key = ClusterKey::read(&self.cluster_key()).map_err(failure)?;
        Ok(key.token(identity.role, &identity.name))
    }

    /// The CA's certificate, and the CA as one that can sign.
    fn issuer(&self) -> Result<(Certificate, Issuer<'static, KeyPair>), Failure> {
        let path = self.ca();
        let unusable =
            |problem: &dyn std::fmt::Display| Failure::work(format!("{}: {problem}", path.display()));
        let certificate =
            Certificate::read_pem(&read_public(&path).map_err(missing)?).map_err(|e| unusable(&e))?;
        let key = read_private(&self.folder.join(CA_KEY)).map_err(missing)?;
        let key = KeyPair::from_pem(&String::from_utf8_lossy(&key))
            .map_err(|error| Failure::work(format!("{}: {error}", self.folder.join(CA_KEY).display())))?;
        let [name] = &certificate.common_names[..] else {
            return Err(unusable(&"it was not made by `khz certs init`"));
        };
        let issuer = Issuer::new(ca_params(name), key);
        Ok((certificate, issuer))
    }

    fn check_free(&self, paths: &[&Path]) -> Result<(), Failure> {
        match paths.iter().find(|path| !self.force && path.exists()) {
            Some(path) => Err(failure(TrustError::Exists { path: path.to_path_buf() })),
            None => Ok(()),
        }
    }

    fn write_pair(&self, path: &Path, pem: &str, key_path: &Path, key: &KeyPair) -> Result<(), Failure> {
        write_new(key_path, key.serialize_pem().as_bytes(), PRIVATE_MODE, self.force).map_err(failure)?;
        write_new(path, pem.as_bytes(), PUBLIC_MODE, self.force).map_err(failure)
    }
}

fn failure(error: TrustError) -> Failure {
    Failure::work(sentence(&error))
}

/// An error about a file that `init` makes.
fn missing(error: TrustError) -> Failure {
    match &error {
        TrustError::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Failure::work(format!("{error}: `khz certs init` makes it"))
        }
        _ => failure(error),
    }
}

fn ca_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn params(identity: &Identity, hosts: &[String]) -> Result<CertificateParams, Failure> {
    let Identity { role, name } = identity;
    let bad_name = |error| Failure::usage(format!("a certificate cannot name {identity}: {error}"));
    let mut params = CertificateParams::new(hosts).map_err(bad_name)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationalUnitName, role.word());
    params.distinguished_name.push(DnType::CommonName, name.as_str());
    let uri = format!("khz:{role}/{name}").try_into().map_err(bad_name)?;
    params.subject_alt_names.push(SanType::URI(uri));
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if *role == Role::Hub {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    Ok(params)
}

/// Valid from an hour ago for this many days, at most until `end`. Returns the end.
fn set_validity(params: &mut CertificateParams, days: u32, end: Option<Moment>) -> Moment {
    let now = Moment::now().0;
    let until = now + i64::from(days) * DAY_SECONDS;
    let until = end.map_or(until, |end| until.min(end.0));
    let at = |seconds: i64| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds.max(0).unsigned_abs());
    params.not_before = at(now - SKEW_SECONDS);
    params.not_after = at(until);
    Moment(until)
}

/// Eight hexadecimal digits.
fn random_word() -> Result<String, Failure> {
    let mut bytes = [0; 4];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match filled {
        Ok(4) => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        _ => Err(Failure::work("the kernel gave no random bytes")),
    }
}
