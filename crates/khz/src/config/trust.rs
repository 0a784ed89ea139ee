//! The settings of certificates, keys and tokens: their files, checked against each other. The files are read later, where
//! they are needed.

use std::path::PathBuf;

use khz_trust::{ServerFiles, Token};

use super::secrets::{is_secret, is_token};
use super::values::{bad, checked, file};
use super::{ConfigError, Layers, Origin};

/// The files that prove who we are, and those that say whom we believe.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Our certificate and its key.
    pub pair: Option<(PathBuf, PathBuf)>,
    /// The CA whose certificates we accept.
    pub ca: Option<PathBuf>,
    /// The cluster key.
    pub cluster_key: Option<PathBuf>,
    /// Our own token.
    pub token: Option<TokenPlace>,
}

/// Where our token is.
#[derive(Clone, Debug)]
pub enum TokenPlace {
    /// In this file.
    File(PathBuf),
    /// In the environment or the configuration file itself.
    Here(Token),
}

impl Trust {
    pub(super) fn check(layers: &Layers) -> Result<Self, ConfigError> {
        let path = |key| checked(layers, key, file_name);
        let pair = match (path("tls_cert")?, path("tls_key")?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err(alone(layers, "tls_cert", "tls_key")),
            (None, Some(_)) => return Err(alone(layers, "tls_key", "tls_cert")),
        };
        Ok(Trust { pair, ca: path("tls_ca")?, cluster_key: path("cluster_key")?, token: token(layers)? })
    }

    /// The files of a door that speaks TLS.
    pub fn server_files(&self) -> Option<ServerFiles> {
        let (certificate, key) = self.pair.as_ref()?;
        let files = ServerFiles::new(certificate, key);
        Some(match &self.ca {
            Some(ca) => files.with_ca(ca),
            None => files,
        })
    }
}

impl TokenPlace {
    /// The token itself.
    pub fn read(&self) -> Result<Token, khz_trust::TrustError> {
        match self {
            TokenPlace::File(path) => Token::read(path),
            TokenPlace::Here(token) => Ok(token.clone()),
        }
    }
}

fn alone(layers: &Layers, given: &str, missing: &str) -> ConfigError {
    bad(given, layers.value(given), format!("{missing} is missing beside it"))
}

/// The name of a file. Where the key itself was put there, the error does not repeat it.
fn file_name(text: &str) -> Result<Option<PathBuf>, String> {
    match is_secret(text) && !is_token(text) {
        true => Err("it takes the name of a file of mode 0600, not what is in it".to_owned()),
        false => Ok(file(text)),
    }
}

fn token(layers: &Layers) -> Result<Option<TokenPlace>, ConfigError> {
    let value = layers.value("token");
    let problem = match (is_secret(&value.text), Token::parse(&value.text), &value.origin) {
        (false, ..) => return Ok(file(&value.text).map(TokenPlace::File)),
        (true, Ok(_), Origin::Flag(_)) => {
            "everybody on this machine can read the command line; put the token into a file of mode 0600, or into \
             KHZ_TOKEN"
                .to_owned()
        }
        (true, Ok(token), _) => return Ok(Some(TokenPlace::Here(token))),
        (true, Err(error), _) => error.to_string(),
    };
    Err(bad("token", value, problem))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::layers::tests::layers;
    use super::*;

    const TOKEN: &str = "khz-reader-bob-00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    #[test]
    fn a_token_is_a_file_or_in_the_environment_itself_but_not_on_the_command_line() {
        let file = Trust::check(&layers("", &[], &[("token", "/etc/khz/token")])).unwrap().token;
        assert!(matches!(file, Some(TokenPlace::File(path)) if path == Path::new("/etc/khz/token")));
        let here = Trust::check(&layers("", &[("KHZ_TOKEN", TOKEN)], &[])).unwrap().token;
        assert!(matches!(here, Some(TokenPlace::Here(token)) if token.to_string() == TOKEN));
        let error = Trust::check(&layers("", &[], &[("token", TOKEN)])).unwrap_err().to_string();
        assert!(error.contains("KHZ_TOKEN") && !error.contains("00112233"), "{error}");
        let error = Trust::check(&layers("", &[("KHZ_TOKEN", "khz-root-x-1")], &[])).unwrap_err();
        assert!(error.to_string().contains("a token names a role"), "{error}");
        for part in [&TOKEN[4..], &TOKEN[40..], &TOKEN[..50]] {
            for layer in [layers("", &[("KHZ_TOKEN", part)], &[]), layers("", &[], &[("token", part)])] {
                let error = Trust::check(&layer).unwrap_err().to_string();
                assert!(!error.contains(&part[part.len() - 8..]) && !error.contains("bob"), "{error}");
            }
        }
    }

    #[test]
    fn a_key_in_place_of_its_file_is_refused_and_not_repeated() {
        for (key, text) in
            [("cluster_key", &TOKEN[15..]), ("tls_key", "-----BEGIN PRIVATE KEY-----\nMIIEabc")]
        {
            let error = Trust::check(&layers("", &[], &[(key, text)])).unwrap_err().to_string();
            assert!(error.contains("the name of a file") && !error.contains("MIIE"), "{error}");
            assert!(!error.contains("00112233"), "{error}");
        }
    }

    #[test]
    fn certificate_and_key_come_together() {
        let error = Trust::check(&layers("", &[], &[("tls_cert", "a.pem")])).unwrap_err();
        assert_eq!(error.to_string(), "tls_cert (from --tls-cert): tls_key is missing beside it");
        assert!(Trust::check(&layers("", &[], &[("tls_key", "a.key")])).is_err());
    }
}
