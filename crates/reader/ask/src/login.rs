//! How a server of somebody else knows us: by a token, or by a name and a password. Secrets are in files of their own, and are
//! read each time: a secret may be changed while khz runs.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use khz_trust::read_private;

use crate::sentence;

/// Bytes of a secret: longer ones are something else.
const SECRET_BYTES_MAX: usize = 64 << 10;

/// How a server knows us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// It does not, or by our certificate.
    Nothing,
    /// By the token in this file.
    Bearer(PathBuf),
    /// By a name and the password in this file.
    Basic(String, PathBuf),
}

impl Login {
    /// The header `Authorization`, with the secret as it is in its file now.
    ///
    /// # Errors
    /// Returns why there is no secret in the file, as a sentence.
    pub fn authorization(&self) -> Result<Option<String>, String> {
        Ok(match self {
            Login::Nothing => None,
            Login::Bearer(file) => Some(format!("Bearer {}", secret("bearer", file)?)),
            Login::Basic(user, file) => {
                let pair = format!("{user}:{}", secret("password", file)?);
                Some(format!("Basic {}", BASE64_STANDARD.encode(pair)))
            }
        })
    }
}

/// True if a text that should be the name of a secret's file is one. Somebody may have written the secret itself: what is no
/// path from `/` in a directory that there is, is shown to nobody.
pub fn is_named(file: &Path) -> bool {
    let is_below_one = file.parent().is_some_and(|parent| parent != Path::new("/") && parent.is_dir());
    file.exists() || (file.is_absolute() && is_below_one)
}

/// The secret in the file that this setting names: one line.
///
/// # Errors
/// Returns why there is none, as a sentence: a file that others may read has none either. A value that is no file's name is
/// not in it.
pub fn secret(setting: &str, file: &Path) -> Result<String, String> {
    if !is_named(file) {
        return Err(format!(
            "{setting} names no file: it is the path of a file with the secret, and what stands there is not shown, since it \
             may be the secret"
        ));
    }
    let bytes = read_private(file).map_err(|error| sentence(&error))?;
    let text = std::str::from_utf8(&bytes).ok().map(str::trim);
    let is_secret = |text: &&str| {
        !text.is_empty()
            && text.len() <= SECRET_BYTES_MAX
            && text.bytes().all(|byte| (b' '..0x7f).contains(&byte))
    };
    let wrong = || format!("{} has no secret: one line of letters, digits and signs", file.display());
    text.filter(is_secret).map(str::to_owned).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_password_is_shown_as_servers_read_it_and_a_file_without_a_secret_is_refused() {
        let file = std::env::temp_dir().join(format!("khz-secret-{}", std::process::id()));
        let shown = |text: &str, login: &dyn Fn(std::path::PathBuf) -> Login| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            login(file.clone()).authorization()
        };
        let basic = |file| Login::Basic("Aladdin".into(), file);
        let bearer = |file| Login::Bearer(file);
        assert_eq!(
            shown("open sesame\n", &basic).unwrap().unwrap(),
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "the example of RFC 7617"
        );
        assert_eq!(shown("t0k\n", &bearer).unwrap().unwrap(), "Bearer t0k");
        for nothing in ["", "\n", "two\nlines", "t\u{f6}ken"] {
            assert!(shown(nothing, &bearer).unwrap_err().contains("has no secret"), "{nothing:?}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}
