//! What servers of somebody else are shown, so that they know us: receivers of remote write, and another engine.

use std::path::Path;

use khz_trust::read_private;

use crate::config::foreign::Login;
use crate::show::outcome::sentence;

/// Bytes of a secret: longer ones are something else.
const SECRET_BYTES_MAX: usize = 64 << 10;

/// The header of this name, with the secret as it is in its file now.
pub fn authorization(login: &Login) -> Result<Option<String>, String> {
    let secret = |file: &Path| {
        let bytes = read_private(file).map_err(|error| sentence(&error))?;
        let text = std::str::from_utf8(&bytes).ok().map(str::trim);
        let is_secret = |text: &&str| {
            !text.is_empty()
                && text.len() <= SECRET_BYTES_MAX
                && text.bytes().all(|byte| (b' '..0x7f).contains(&byte))
        };
        let wrong = || format!("{} has no secret: one line of letters, digits and signs", file.display());
        text.filter(is_secret).map(str::to_owned).ok_or_else(wrong)
    };
    Ok(match login {
        Login::Nothing => None,
        Login::Bearer(file) => Some(format!("Bearer {}", secret(file)?)),
        Login::Basic(user, file) => {
            Some(format!("Basic {}", base64(format!("{user}:{}", secret(file)?).as_bytes())))
        }
    })
}

/// Base64 with its usual letters.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (text, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("Aladdin:open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ] {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }
}
