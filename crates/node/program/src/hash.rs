//! The name of a module: the SHA-256 of its bytes. What runs on a node is what was pushed, and the
//! configuration of an agent can name the modules that may run.

use std::fmt;
use std::str::FromStr;

/// The SHA-256 of a module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramHash([u8; 32]);

impl ProgramHash {
    /// That of these bytes.
    pub fn of(module: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, module);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        ProgramHash(bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for ProgramHash {
    fn from(bytes: [u8; 32]) -> Self {
        ProgramHash(bytes)
    }
}

impl fmt::Display for ProgramHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ProgramHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProgramHash({self})")
    }
}

/// A text that is no hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hash of a program has 64 digits 0 to 9 and a to f, as `khz handler check FILE` prints them")]
pub struct NoHash;

impl FromStr for ProgramHash {
    type Err = NoHash;

    fn from_str(text: &str) -> Result<Self, NoHash> {
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(NoHash);
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| NoHash)?;
        }
        Ok(ProgramHash(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_what_sha256sum_prints_and_reads_as_it_was_written() {
        let hash = ProgramHash::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), text);
        assert_eq!(text.parse(), Ok(hash));
        for wrong in ["", "ba78", &text[1..], &format!("{text}0"), &text.replace('b', "x"), &"ä".repeat(32)]
        {
            assert_eq!(wrong.parse::<ProgramHash>(), Err(NoHash), "{wrong}");
        }
    }
}
