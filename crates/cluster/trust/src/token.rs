//! A token: an identity and the secret that proves it, as one word that can be pasted. Debug output never
//! shows the secret.

use std::fmt;
use std::path::Path;

use khz_model::NodeName;
use ring::hmac;

use crate::cluster_key::{NONCE_BYTES, PROOF_BYTES, SECRET_BYTES, from_hex, to_hex};
use crate::error::TrustError;
use crate::files::read_private;
use crate::role::{Identity, Role};

/// The proof of the link's first version begins with this.
const LINK_LABEL: &[u8] = b"khz link 1";
/// Every token begins with this.
const MARK: &str = "khz-";
/// Bytes of the longest token: mark, role, name, secret.
pub const TOKEN_BYTES_MAX: usize = MARK.len() + 9 + khz_model::name::NODE_NAME_MAX + 1 + 2 * SECRET_BYTES;

/// `khz-node-NAME-` and 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    identity: Identity,
    secret: [u8; SECRET_BYTES],
}

/// Why a text is no token, or no token of this cluster. No variant repeats the secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It does not begin with `khz-`.
    #[error("a token begins with 'khz-': khz-node-NAME-, then 64 hexadecimal digits")]
    NoMark,
    /// It names no role.
    #[error("a token names a role after 'khz-': node, reader, operator or hub")]
    NoRole,
    /// It does not end in a secret.
    #[error("a token ends in '-' and 64 hexadecimal digits; part of this one is missing")]
    NoSecret,
    /// Its name is not valid.
    #[error("the name in this token is not valid: {0}")]
    Name(String),
    /// It is longer than any token.
    #[error("a token has at most {TOKEN_BYTES_MAX} bytes")]
    TooLong,
    /// It is complete, but made with another key.
    #[error("the token of {0} was not made with this cluster's key")]
    OtherCluster(Identity),
}

impl Token {
    pub(crate) fn new(identity: Identity, secret: [u8; SECRET_BYTES]) -> Self {
        Token { identity, secret }
    }

    /// Reads `khz-ROLE-NAME-SECRET`; ignores blanks around it.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong);
        }
        let rest = text.strip_prefix(MARK).ok_or(TokenError::NoMark)?;
        let (word, rest) = rest.split_once('-').ok_or(TokenError::NoRole)?;
        let role: Role = word.parse().map_err(|_| TokenError::NoRole)?;
        // A name may have dashes; a secret has none.
        let (name, secret) = rest.rsplit_once('-').ok_or(TokenError::NoSecret)?;
        let secret = from_hex(secret.as_bytes()).ok_or(TokenError::NoSecret)?;
        let name = NodeName::new(name).map_err(|error| TokenError::Name(error.problem))?;
        Ok(Token { identity: Identity { role, name }, secret })
    }

    /// Reads a file that holds only a token and must be unreadable to others.
    pub fn read(path: &Path) -> Result<Self, TrustError> {
        let text = read_private(path)?;
        Token::parse(&String::from_utf8_lossy(&text))
            .map_err(|problem| TrustError::Token { path: path.into(), problem })
    }

    /// Its owner.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn secret(&self) -> &[u8; SECRET_BYTES] {
        &self.secret
    }

    /// The proof for a hub that greeted with this nonce: HMAC-SHA256 of the token's secret over "khz link 1",
    /// the nonce, the role's byte and the name. A listener on the wire learns nothing about the token.
    pub fn proof(&self, nonce: &[u8; NONCE_BYTES]) -> [u8; PROOF_BYTES] {
        let tag = hmac::sign(&self.hmac(), &self.proved(nonce));
        tag.as_ref().try_into().expect("BUG: HMAC-SHA256 has 32 bytes")
    }

    /// True where `proof` equals [`Token::proof`]; takes constant time.
    pub(crate) fn proves(&self, nonce: &[u8; NONCE_BYTES], proof: &[u8; PROOF_BYTES]) -> bool {
        hmac::verify(&self.hmac(), &self.proved(nonce), proof).is_ok()
    }

    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.secret)
    }

    fn proved(&self, nonce: &[u8; NONCE_BYTES]) -> Vec<u8> {
        [LINK_LABEL, nonce, &[self.identity.role.byte()], self.identity.name.as_str().as_bytes()].concat()
    }
}

/// The token itself, for pasting: print it only where the user asked for it.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { role, name } = &self.identity;
        write!(f, "{MARK}{role}-{name}-{}", to_hex(&self.secret))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}, ..)", self.identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn errors_about_a_token_name_the_problem() {
        let secret = "0f".repeat(32);
        for (text, expected) in [
            ("", TokenError::NoMark),
            ("khz", TokenError::NoMark),
            ("khz-", TokenError::NoRole),
            ("khz-root-n1-00", TokenError::NoRole),
            ("khz-node-n1", TokenError::NoSecret),
            ("khz-node-n1-00", TokenError::NoSecret),
            (&format!("khz-node-n1-{}", "0g".repeat(32)), TokenError::NoSecret),
            (&format!("khz-node--{secret}"), TokenError::Name("a node name cannot be empty".into())),
            (&"khz-node-".repeat(100), TokenError::TooLong),
        ] {
            assert_eq!(Token::parse(text).unwrap_err(), expected, "{text}");
        }
        assert!(Token::parse(&format!(" khz-node-a-b.c-{secret}\n")).is_ok());
        // The longest token has the longest word for a role, and the longest name.
        let long = |letters: usize| format!("khz-operator-{}-{secret}", "n".repeat(letters));
        assert_eq!(long(khz_model::name::NODE_NAME_MAX).len(), TOKEN_BYTES_MAX);
        assert!(Token::parse(&long(khz_model::name::NODE_NAME_MAX)).is_ok());
        assert_eq!(Token::parse(&long(khz_model::name::NODE_NAME_MAX + 1)), Err(TokenError::TooLong));
    }

    proptest! {
        #[test]
        fn every_token_is_read_back(role in 0usize..4, name in "[a-zA-Z0-9][a-zA-Z0-9._-]{0,252}", secret: [u8; 32]) {
            let name = NodeName::new(&name).unwrap();
            let token = Token::new(Identity { role: Role::ALL[role], name }, secret);
            prop_assert!(token.to_string().len() <= TOKEN_BYTES_MAX);
            prop_assert_eq!(Token::parse(&token.to_string()).unwrap(), token);
        }

        #[test]
        fn foreign_text_never_panics(text in "(khz-)?(node|hub)?-?\\PC{0,400}") {
            let _ = Token::parse(&text);
        }
    }
}
