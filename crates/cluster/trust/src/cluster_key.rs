//! The cluster key: the one secret from which every token is derived, so that a hub needs no list of tokens.
//! Nothing prints the key.

use std::fmt;
use std::path::Path;

use khz_model::NodeName;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::error::TrustError;
use crate::files::{read_private, write_new};
use crate::role::{Identity, Role};
use crate::token::{Token, TokenError};

/// Bytes of the cluster key and of a token's secret.
pub(crate) const SECRET_BYTES: usize = 32;
/// Bytes of the nonce in a hub's Greeting.
pub const NONCE_BYTES: usize = 32;
/// Bytes of a proof.
pub const PROOF_BYTES: usize = 32;

/// The secret of a cluster: 32 random bytes, in its file as 64 hexadecimal digits and a newline.
pub struct ClusterKey(hmac::Key, [u8; SECRET_BYTES]);

impl ClusterKey {
    /// A new random key.
    pub fn generate() -> Result<Self, TrustError> {
        let mut bytes = [0; SECRET_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| TrustError::Random)?;
        Ok(ClusterKey::from_bytes(bytes))
    }

    /// The key with these bytes.
    pub fn from_bytes(bytes: [u8; SECRET_BYTES]) -> Self {
        ClusterKey(hmac::Key::new(hmac::HMAC_SHA256, &bytes), bytes)
    }

    /// Reads the key's file, which must be unreadable to others.
    pub fn read(path: &Path) -> Result<Self, TrustError> {
        let text = read_private(path)?;
        let bytes = from_hex(text.trim_ascii()).ok_or_else(|| TrustError::Content {
            path: path.into(),
            problem: format!("a cluster key is {} hexadecimal digits", 2 * SECRET_BYTES),
        })?;
        Ok(ClusterKey::from_bytes(bytes))
    }

    /// Its digits, for a file.
    pub(crate) fn to_hex(&self) -> String {
        to_hex(&self.1)
    }

    /// Writes the key's file with mode 0600; keeps an existing file, unless `force`.
    pub fn write(&self, path: &Path, force: bool) -> Result<(), TrustError> {
        write_new(path, format!("{}\n", to_hex(&self.1)).as_bytes(), 0o600, force)
    }

    /// The token of a role and name.
    pub fn token(&self, role: Role, name: &NodeName) -> Token {
        let identity = Identity { role, name: name.clone() };
        let secret = hmac::sign(&self.0, &Self::subject(&identity));
        Token::new(identity, secret.as_ref().try_into().expect("BUG: HMAC-SHA256 has 32 bytes"))
    }

    /// The owner of this token, if it is a token of this cluster. Takes the same time wherever the secret is
    /// wrong.
    pub fn recognise(&self, text: &str) -> Result<Identity, TokenError> {
        let token = Token::parse(text)?;
        match hmac::verify(&self.0, &Self::subject(token.identity()), token.secret()) {
            Ok(()) => Ok(token.identity().clone()),
            Err(_) => Err(TokenError::OtherCluster(token.identity().clone())),
        }
    }

    /// True where `proof` was made with the token of `identity` and this nonce. Takes the same time wherever
    /// the proof is wrong.
    #[must_use]
    pub fn verify(&self, identity: &Identity, nonce: &[u8; NONCE_BYTES], proof: &[u8; PROOF_BYTES]) -> bool {
        self.token(identity.role, &identity.name).proves(nonce, proof)
    }

    /// What a token signs: the role's word, a colon, the name.
    fn subject(identity: &Identity) -> Vec<u8> {
        format!("{}:{}", identity.role.word(), identity.name).into_bytes()
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(..)")
    }
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_hex(text: &[u8]) -> Option<[u8; SECRET_BYTES]> {
    let mut bytes = [0; SECRET_BYTES];
    if text.len() != 2 * SECRET_BYTES {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NodeName {
        NodeName::new(text).unwrap()
    }

    fn key() -> ClusterKey {
        ClusterKey::from_bytes(std::array::from_fn(|i| i as u8))
    }

    /// Computed with `printf 'node:n1' | openssl dgst -sha256 -mac HMAC -macopt hexkey:000102..1f`, and the
    /// proof in the same way over "khz link 1", 32 bytes of 7, the byte 1 and "n1".
    #[test]
    fn token_and_proof_are_those_that_openssl_computes() {
        let token = key().token(Role::Node, &name("n1"));
        assert_eq!(token.to_string(), format!("khz-node-n1-{TOKEN_HEX}"));
        assert_eq!(to_hex(&token.proof(&[7; 32])), PROOF_HEX);
    }
    const TOKEN_HEX: &str = "13d0432a9f839a2d66f55aa07fb28026cb7df5ebd105d2f2669a957027e02e40";
    const PROOF_HEX: &str = "f293292645fd2f0bc0913102a101cc24276abc562f51efb29b080279ac81ae24";

    #[test]
    fn a_proof_holds_for_its_role_name_nonce_and_cluster_alone() {
        let nonce = [1; NONCE_BYTES];
        let n1 = Identity { role: Role::Node, name: name("n1") };
        let proof = key().token(Role::Node, &n1.name).proof(&nonce);
        assert!(key().verify(&n1, &nonce, &proof));
        assert!(!key().verify(&Identity { name: name("n2"), ..n1.clone() }, &nonce, &proof));
        assert!(!key().verify(&Identity { role: Role::Hub, ..n1.clone() }, &nonce, &proof));
        assert!(!key().verify(&n1, &[2; NONCE_BYTES], &proof));
        assert!(!ClusterKey::generate().unwrap().verify(&n1, &nonce, &proof));
        for byte in 0..PROOF_BYTES {
            let mut bent = proof;
            bent[byte] ^= 1;
            assert!(!key().verify(&n1, &nonce, &bent));
        }
    }

    #[test]
    fn only_tokens_of_this_cluster_are_recognised() {
        let token = key().token(Role::Operator, &name("alice")).to_string();
        assert_eq!(key().recognise(&token).unwrap().to_string(), "operator alice");
        let raised = key().token(Role::Reader, &name("bob")).to_string().replace("reader", "operator");
        assert_eq!(
            key().recognise(&raised).unwrap_err().to_string(),
            "the token of operator bob was not made with this cluster's key"
        );
        assert!(ClusterKey::generate().unwrap().recognise(&token).is_err());
    }

    #[test]
    fn the_file_holds_hexadecimal_digits_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("khz-trust-{}-cluster.key", std::process::id()));
        let key = ClusterKey::generate().unwrap();
        key.write(&path, true).unwrap();
        let read = ClusterKey::read(&path).unwrap();
        assert_eq!(read.token(Role::Hub, &name("h")), key.token(Role::Hub, &name("h")));
        assert!(matches!(key.write(&path, false), Err(TrustError::Exists { .. })));
        write_new(&path, b"secret", 0o600, true).unwrap();
        let error = ClusterKey::read(&path).unwrap_err().to_string();
        assert!(error.ends_with("a cluster key is 64 hexadecimal digits"), "{error}");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn nothing_secret_is_printed() {
        let debug = format!("{:?} {:?}", key(), key().token(Role::Node, &name("n1")));
        assert!(!debug.contains("0001020304") && !debug.contains(&TOKEN_HEX[..8]), "{debug}");
    }
}
