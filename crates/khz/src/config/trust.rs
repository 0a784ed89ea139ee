//! The settings of certificates, keys and tokens: which files, checked against each other. It reads none of them;
//! that is done where they are needed.

use std::path::{Path, PathBuf};

use khz_trust::{ServerFiles, Token};

use super::plan::{bad, checked, file};
use super::{ConfigError, Layers, Origin};

/// Which files say who we are and whom we believe.
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
    /// Here.
    Here(Token),
}

impl Trust {
    pub(super) fn check(layers: &Layers) -> Result<Self, ConfigError> {
        let path = |key| checked(layers, key, |text| Ok(file(text)));
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

fn token(layers: &Layers) -> Result<Option<TokenPlace>, ConfigError> {
    let value = layers.value("token");
    let problem = match (is_token(&value.text), Token::parse(&value.text), &value.origin) {
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

/// True for what is meant as a token, not as the name of a file.
fn is_token(text: &str) -> bool {
    text.starts_with("khz-") && Path::new(text).parent() == Some(Path::new("")) && !Path::new(text).exists()
}

/// A token's text without its secret; any other text as it is.
pub(super) fn shown(text: &str) -> String {
    if !is_token(text) {
        return text.to_owned();
    }
    text.rsplit_once('-').map_or_else(|| "khz-...".to_owned(), |(open, _)| format!("{open}-..."))
}

#[cfg(test)]
mod tests {
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
        assert_eq!(shown(TOKEN), "khz-reader-bob-...");
    }

    #[test]
    fn certificate_and_key_come_together() {
        let error = Trust::check(&layers("", &[], &[("tls_cert", "a.pem")])).unwrap_err();
        assert_eq!(error.to_string(), "tls_cert (from --tls-cert): tls_key is missing beside it");
        assert!(Trust::check(&layers("", &[], &[("tls_key", "a.key")])).is_err());
    }
}
