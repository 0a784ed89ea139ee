//! Decides who a peer is: compares its Hello with its proofs, and gives a node its place in the
//! cluster.

use khz_link::{Hello, Reason, Reject};
use khz_model::NodeName;
use khz_trust::{Door, Identity, Proof, Way, standing};

use super::{Peer, Talk};
use crate::node::{self, Arrival, Link};

impl Talk<'_> {
    /// The identity that the Hello names, if the peer may use it: this depends on where the peer connects from and what it
    /// has proved.
    pub(super) fn identified(&self, hello: &Hello<'_>, nonce: &[u8; 32]) -> Result<(Identity, Way), Reject> {
        let reject = |reason, text: String| Err(Reject { reason, text });
        let name = match NodeName::new(hello.name) {
            Ok(name) => name,
            Err(error) => {
                return reject(Reason::Protocol, format!("the name is not valid: {}", error.problem));
            }
        };
        let role = match khz_trust::Role::from_byte(hello.role.byte()) {
            Ok(role) => role,
            Err(error) => return reject(Reason::NotAllowed, error.to_string()),
        };
        let said = Identity { role, name };
        let certified = self.certified.as_ref().map(|certified| certified.as_ref());
        let (proof, place) = (hello.proof.as_ref(), self.caller.place());
        let shown = self.proofs.judge(&said, certified, proof.map(|proof| (nonce, proof)), place);
        let shown = shown.map_err(|text| Reject { reason: Reason::Proof, text })?;
        let way = Way::of(place, shown, self.proofs.believes_names());
        let proved = matches!(shown, Proof::Token | Proof::Certificate).then_some(said.role);
        if standing(Door::Link, way, proved).may_be(said.role) {
            return Ok((said, way));
        }
        reject(Reason::Proof, self.proofs.ways_out(&said, way, proof.is_some()))
    }

    /// The peer is a node: it speaks for its name from now on.
    pub(super) fn welcome_node(
        &mut self,
        hello: &Hello<'_>,
        name: &NodeName,
        way: Way,
    ) -> Result<(), Reject> {
        let full = || Reject { reason: Reason::Full, text: "this hub has no room for another node".into() };
        let shared = self.cluster.node_or_new(name, self.now).ok_or_else(full)?;
        let identity = node::Identity { machine: hello.machine, boot: hello.boot, start: hello.started };
        let link = {
            let mut node = shared.lock();
            if let Err((reason, text)) = node.admits(&identity) {
                node.link_mut().refused(format!("refused {}: {text}", self.caller.from()), self.now);
                return Err(Reject { reason, text });
            }
            let link =
                Link::new(self.mailbox.clone(), self.connection).of_peer(hello.version, hello.abilities);
            let (version, is_unproved) = (hello.program, way.is_unproved());
            let arrival = Arrival { identity, version, caller: Some(self.caller), is_unproved };
            node.connect(&arrival, link.clone(), self.now);
            node.send_subscriptions();
            link
        };
        self.cluster.keep(&shared);
        shared.connected();
        self.cluster.freezes.connected(&shared.name, &link);
        *self.peer = Peer::Node(shared);
        Ok(())
    }
}
