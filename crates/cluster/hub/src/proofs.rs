//! The proofs of an identity at the link door, and the answer to a peer that proves too little. What a role may do
//! is decided elsewhere (`khz_trust::standing`).

use khz_trust::{ClusterKey, Identity, NONCE_BYTES, PROOF_BYTES, Place, Proof, Role, RunKey, Way};

/// What a door accepts.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    /// The key whose tokens are accepted.
    pub key: Option<ClusterKey>,
    /// The key of this run, for this machine.
    pub run: Option<RunKey>,
    /// Certificates are accepted.
    pub certificates: bool,
    /// `--insecure` is set.
    pub insecure: bool,
}

impl Proofs {
    /// True if names of nodes are believed: nothing can prove them, and the administrator accepts that.
    pub fn believes_names(&self) -> bool {
        self.insecure && self.key.is_none() && !self.certificates
    }

    /// The proof that the peer has shown, if it is valid.
    ///
    /// # Errors
    /// The proof is for another identity, or of another cluster.
    pub fn judge(
        &self,
        said: &Identity,
        certified: Option<Result<&Identity, &String>>,
        proof: Option<(&[u8; NONCE_BYTES], &[u8; PROOF_BYTES])>,
        place: Place,
    ) -> Result<Proof, String> {
        let shown = match proof {
            Some((nonce, proof)) => self.judge_token(said, nonce, proof, place),
            None => Ok(Proof::Nothing),
        };
        match certified {
            // A peer with a certificate may show a token too. A token of another cluster means that its settings are
            // not for this hub.
            Some(Ok(certified)) if certified == said => shown.map(|_| Proof::Certificate),
            Some(Ok(certified)) => Err(format!("it says it is {said}, its certificate says {certified}")),
            Some(Err(problem)) => Err(problem.clone()),
            None => shown,
        }
    }

    fn judge_token(
        &self,
        said: &Identity,
        nonce: &[u8; NONCE_BYTES],
        proof: &[u8; PROOF_BYTES],
        place: Place,
    ) -> Result<Proof, String> {
        let holds = |key: &ClusterKey| key.verify(said, nonce, proof);
        // The run key is for this machine.
        if place == Place::Loopback && self.run.as_ref().is_some_and(|run| holds(run.key())) {
            return Ok(Proof::RunKey);
        }
        match &self.key {
            Some(key) if holds(key) => Ok(Proof::Token),
            // At the local socket the kernel's word is better than a token.
            Some(_) if matches!(place, Place::Loopback | Place::Elsewhere) => Err(format!(
                "the token of {said} is not from this cluster: show a token that `khz certs token {said}` prints here, or no token"
            )),
            // All hubs of a cluster have the same settings for peers: a token at a hub without a key proves nothing,
            // and is ignored.
            _ => Ok(Proof::Nothing),
        }
    }

    /// Why a peer may not have the identity that it claims, and what its administrator can do.
    pub fn ways_out(&self, said: &Identity, way: Way, had_token: bool) -> String {
        let Identity { role, name } = said;
        let counts = match (&self.key, self.certificates) {
            (None, false) => {
                format!("start this hub with --cluster-key and show it `khz certs token {role} {name}`")
            }
            (Some(_), _) => format!("show it `khz certs token {role} {name}` (--token FILE)"),
            (None, true) => format!("show it `khz certs {role} {name}`"),
        };
        let no_token = match (&self.key, had_token) {
            (None, true) => "; its token counts for nothing here: this hub has no --cluster-key",
            _ => "",
        };
        let insecure = match role {
            Role::Node if self.key.is_none() && !self.certificates && !self.insecure => {
                ", or start this hub with --insecure, which believes names of nodes"
            }
            _ => "",
        };
        match way {
            Way::LocalOther => {
                format!("{said} comes by the local socket as another user; {}, or {counts}", self.as_whom())
            }
            Way::Loopback | Way::LoopbackInsecure => {
                let whom = self.as_whom();
                format!(
                    "{said} comes from this machine and shows nothing that counts{no_token}; {whom}, or {counts}{insecure}"
                )
            }
            _ => format!(
                "{said} shows neither a certificate nor a token that counts{no_token}; {counts}{insecure}"
            ),
        }
    }

    /// Which users of this machine may have any role.
    fn as_whom(&self) -> String {
        let user = match rustix::process::geteuid().as_raw() {
            0 => "root, as this hub is".to_owned(),
            uid => format!("this hub's user (uid {uid}) or root"),
        };
        match &self.run {
            Some(run) if run.is_shown() => {
                format!("run it as {user}, with --run-dir {}", run.folder().display())
            }
            _ => format!("run it as {user}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::NodeName;

    const NONCE: [u8; NONCE_BYTES] = [5; NONCE_BYTES];

    fn identity(name: &str) -> Identity {
        Identity { role: Role::Node, name: NodeName::new(name).unwrap() }
    }

    fn key(byte: u8) -> ClusterKey {
        ClusterKey::from_bytes([byte; 32])
    }

    /// The answer to a peer that has a certificate, a token of this key, or both.
    fn judged(proofs: &Proofs, certified: bool, token: Option<u8>) -> Result<Proof, String> {
        let said = identity("n1");
        let token = token.map(|byte| key(byte).token(said.role, &said.name).proof(&NONCE));
        let certified = certified.then_some(Ok(&said));
        proofs.judge(&said, certified, token.as_ref().map(|proof| (&NONCE, proof)), Place::Elsewhere)
    }

    #[test]
    fn a_token_of_another_cluster_is_refused_wherever_tokens_count_and_whatever_else_is_shown() {
        let counts = Proofs { key: Some(key(7)), certificates: true, ..Proofs::default() };
        for (certified, token, expected) in [
            (true, None, Some(Proof::Certificate)),
            (true, Some(7), Some(Proof::Certificate)),
            (true, Some(8), None),
            (false, Some(7), Some(Proof::Token)),
            (false, Some(8), None),
            (false, None, Some(Proof::Nothing)),
        ] {
            let judged = judged(&counts, certified, token);
            assert_eq!(judged.as_ref().ok(), expected.as_ref(), "{certified} {token:?}: {judged:?}");
        }
        let refused = judged(&counts, true, Some(8)).unwrap_err();
        assert!(refused.contains("the token of node n1 is not from this cluster"), "{refused}");
    }

    #[test]
    fn without_a_key_a_token_proves_nothing_and_is_ignored() {
        let without = Proofs { certificates: true, ..Proofs::default() };
        assert_eq!(judged(&without, true, Some(8)), Ok(Proof::Certificate));
        let believing = Proofs { insecure: true, ..Proofs::default() };
        assert_eq!(judged(&believing, false, Some(8)), Ok(Proof::Nothing));
    }

    #[test]
    fn a_token_does_not_make_up_for_another_ones_certificate() {
        let counts = Proofs { key: Some(key(7)), certificates: true, ..Proofs::default() };
        let (said, other) = (identity("n1"), identity("n2"));
        let proof = key(7).token(said.role, &said.name).proof(&NONCE);
        let judged = counts.judge(&said, Some(Ok(&other)), Some((&NONCE, &proof)), Place::Elsewhere);
        assert!(judged.unwrap_err().contains("its certificate says node n2"));
    }
}
