//! Which role a caller has at a door: by a token, by what its connection showed, or by the place it connects
//! from. The table of all doors says what each of these is worth ([`standing`]). This file opens no files and
//! verifies no certificates: that is already done.

use std::sync::Arc;

use khz_model::Rate;
use khz_trust::{
    ClusterKey, Door, Identity, Place, Proof, READER_RATE_MAX_HZ, Role, TokenError, Way, standing,
};

/// The rules of a door: which callers it lets in, with which role.
#[derive(Clone, Debug)]
pub struct Access {
    /// Which door it is.
    pub door: Door,
    /// Callers from elsewhere need to show nothing.
    pub insecure: bool,
    /// The key whose tokens count.
    pub key: Option<Arc<ClusterKey>>,
}

impl Default for Access {
    /// The strictest rules: readers on this machine, nobody from elsewhere, no tokens.
    fn default() -> Self {
        Access { door: Door::Http, insecure: false, key: None }
    }
}

/// Why a caller is refused, altogether or for this request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The token is not one of this cluster.
    #[error("{0}")]
    Unknown(String),
    /// The caller connects from elsewhere and shows nothing.
    #[error("this door asks who you are: show {}a certificate", if *tokens { "a token (Authorization: Bearer) or " } else { "" })]
    Nameless {
        /// Whether this door takes tokens.
        tokens: bool,
    },
    /// The caller is a node.
    #[error("you are {0}: a node sends, over the link, and reads nothing here")]
    Sender(String),
    /// The rate is above the limit of the caller's role.
    #[error(
        "{rate} is for operators: readers have at most {READER_RATE_MAX_HZ}Hz, and you are {caller}; ask on that \
         machine as root (without --server), or with an operator's token or certificate"
    )]
    TooFast {
        /// The rate that the caller asked for.
        rate: Rate,
        /// The caller's identity.
        caller: String,
    },
    /// Only operators may change this.
    #[error(
        "{what} is for operators, and you are {caller}; ask on that machine as root (without --server), or with an operator's token or certificate"
    )]
    NoOperator {
        /// What the caller wants to change.
        what: &'static str,
        /// The caller's identity.
        caller: String,
    },
}

/// Where a connection comes from, and what it showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The place.
    pub place: Place,
    /// The caller's identity, if it has shown a certificate.
    pub certified: Option<Identity>,
    /// The number of the caller's user, at a local socket.
    pub uid: Option<u32>,
}

impl From<Place> for Origin {
    fn from(place: Place) -> Self {
        Origin { place, certified: None, uid: None }
    }
}

/// The author of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The role that decides what the caller may do.
    pub role: Role,
    /// The caller's name in refusals: `reader bob`.
    pub shown: String,
    /// It has proved a name, by a token or a certificate.
    pub is_named: bool,
    /// The name that it has proved.
    pub name: Option<String>,
    /// The number of its user, if it has come by a local socket and shown no token.
    pub uid: Option<u32>,
}

impl Access {
    /// The caller with this connection and token; an error if it may not read here at all.
    pub fn caller(&self, origin: &Origin, token: Option<&str>) -> Result<Caller, AccessError> {
        let unknown = |error: TokenError| AccessError::Unknown(error.to_string());
        // A caller that needs no token may still show one: its settings are the same for all servers.
        let token = self.key.as_ref().zip(token).map(|(key, token)| key.recognise(token));
        let token = token.transpose().map_err(unknown)?;
        let (proof, identity) = match (token, &origin.certified) {
            (Some(identity), _) => (Proof::Token, Some(identity)),
            (None, Some(identity)) => (Proof::Certificate, Some(identity.clone())),
            (None, None) => (Proof::Nothing, None),
        };
        // A token wins over a local socket too: a caller that shows one asks for that role.
        let place = match (origin.place, &identity) {
            (Place::LocalRoot | Place::LocalOwn | Place::LocalOther, Some(_)) => Place::Loopback,
            (place, _) => place,
        };
        let way = Way::of(place, proof, self.insecure);
        let most = standing(self.door, way, identity.as_ref().map(|identity| identity.role)).most();
        match (most, identity) {
            (Some(role), Some(Identity { name, .. })) => Ok(Caller::of(&Identity { role, name })),
            (Some(role), None) => {
                let shown = format!("a {role} {}", because(way));
                Ok(Caller { role, shown, is_named: false, name: None, uid: origin.uid })
            }
            (None, Some(identity)) => Err(AccessError::Sender(identity.to_string())),
            (None, None) => Err(AccessError::Nameless { tokens: self.key.is_some() }),
        }
    }
}

/// Why a caller without a name has its role, for refusals.
fn because(way: Way) -> &'static str {
    match way {
        Way::LocalRoot | Way::LocalOwn => "by the local socket",
        Way::ElsewhereInsecure => "as everybody here",
        _ => "because you come from this machine",
    }
}

impl Caller {
    fn of(identity: &Identity) -> Self {
        Caller {
            role: identity.role,
            shown: identity.to_string(),
            is_named: true,
            name: Some(identity.name.to_string()),
            uid: None,
        }
    }

    /// The fastest rate for this role where the answering program has this ceiling.
    pub fn rate_max(&self, ceiling: Rate) -> Rate {
        match Rate::from_hz(READER_RATE_MAX_HZ) {
            Some(readers) if !self.role.may_read_at(ceiling) => ceiling.at_most(readers),
            _ => ceiling,
        }
    }

    /// An error unless the caller is an operator.
    pub fn check_operator(&self, what: &'static str) -> Result<(), AccessError> {
        if self.role == Role::Operator {
            return Ok(());
        }
        Err(AccessError::NoOperator { what, caller: self.shown.clone() })
    }

    /// An error if the rate is above the limit of the caller's role.
    pub fn check_rate(&self, rate: Rate) -> Result<(), AccessError> {
        if self.role.may_read_at(rate) {
            return Ok(());
        }
        Err(AccessError::TooFast { rate, caller: self.shown.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::NodeName;

    fn identity(role: Role) -> Identity {
        Identity { role, name: NodeName::new("bob").unwrap() }
    }

    /// The role, or the refusal.
    fn outcome(access: &Access, origin: &Origin, token: Option<&str>) -> Result<Role, AccessError> {
        access.caller(origin, token).map(|caller| caller.role)
    }

    const SENDER: fn() -> AccessError = || AccessError::Sender("node bob".to_owned());

    #[test]
    fn every_place_has_its_role() {
        use Place::*;
        let nameless = Err(AccessError::Nameless { tokens: false });
        let access = |door, insecure| Access { door, insecure, key: None };
        let doors = [
            access(Door::Http, false),
            access(Door::Text, false),
            access(Door::Http, true),
            access(Door::Alone, true),
        ];
        let (reader, operator) = (Ok(Role::Reader), Ok(Role::Operator));
        for (place, expected) in [
            (LocalRoot, [&operator, &operator, &operator, &operator]),
            (LocalOwn, [&operator, &operator, &operator, &operator]),
            (LocalOther, [&reader, &reader, &reader, &operator]),
            (Loopback, [&reader, &reader, &reader, &operator]),
            (Elsewhere, [&nameless, &nameless, &reader, &reader]),
        ] {
            for (access, expected) in doors.iter().zip(expected) {
                assert_eq!(outcome(access, &place.into(), None), *expected, "{place:?} at {:?}", access.door);
            }
        }
    }

    #[test]
    fn a_certificate_gives_the_same_role_from_any_place() {
        for door in [Door::Http, Door::Text, Door::Alone] {
            for place in [Place::Loopback, Place::Elsewhere] {
                let access = Access { door, ..Access::default() };
                for (role, expected) in [
                    (Role::Node, Err(SENDER())),
                    (Role::Reader, Ok(Role::Reader)),
                    (Role::Operator, Ok(Role::Operator)),
                    (Role::Hub, Ok(Role::Hub)),
                ] {
                    let origin = Origin { certified: Some(identity(role)), ..place.into() };
                    assert_eq!(
                        outcome(&access, &origin, None),
                        expected,
                        "{role} at {door:?} from {place:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_token_wins_over_the_place() {
        use Place::*;
        let key = Arc::new(ClusterKey::generate().unwrap());
        for door in [Door::Http, Door::Alone] {
            let access = Access { door, key: Some(Arc::clone(&key)), ..Access::default() };
            for (role, expected) in [
                (Role::Node, Err(SENDER())),
                (Role::Reader, Ok(Role::Reader)),
                (Role::Operator, Ok(Role::Operator)),
                (Role::Hub, Ok(Role::Hub)),
            ] {
                let shown = key.token(role, &identity(role).name).to_string();
                let foreign = ClusterKey::generate().unwrap().token(role, &identity(role).name).to_string();
                for place in [LocalRoot, LocalOwn, LocalOther, Loopback, Elsewhere] {
                    assert_eq!(
                        outcome(&access, &place.into(), Some(&shown)),
                        expected,
                        "{role} from {place:?}"
                    );
                    let refused = outcome(&access, &place.into(), Some(&foreign));
                    assert!(matches!(refused, Err(AccessError::Unknown(_))), "{refused:?}");
                }
            }
        }
    }

    #[test]
    fn a_token_is_ignored_where_tokens_do_not_count() {
        assert_eq!(outcome(&Access::default(), &Place::Loopback.into(), Some("any")), Ok(Role::Reader));
    }

    #[test]
    fn only_operators_may_change_something() {
        for role in Role::ALL {
            let caller = Caller::of(&identity(role));
            assert_eq!(caller.check_operator("forgetting nodes").is_ok(), role == Role::Operator, "{role}");
        }
        let refusal = Caller::of(&identity(Role::Reader)).check_operator("forgetting nodes").unwrap_err();
        assert!(refusal.to_string().starts_with("forgetting nodes is for operators, and you are reader bob"));
    }

    #[test]
    fn fast_rates_are_for_operators_and_the_refusal_says_so() {
        let caller = |role| Caller::of(&identity(role));
        let rate = |hz| Rate::from_hz(hz).unwrap();
        assert!(caller(Role::Reader).check_rate(rate(100)).is_ok());
        assert_eq!(caller(Role::Reader).rate_max(rate(1_000)), rate(100));
        assert_eq!(caller(Role::Reader).rate_max(rate(50)), rate(50));
        assert_eq!(caller(Role::Operator).rate_max(rate(1_000)), rate(1_000));
        assert!(caller(Role::Operator).check_rate(rate(1_000)).is_ok());
        let refusal = caller(Role::Reader).check_rate(rate(1_000)).unwrap_err();
        let shown = refusal.to_string();
        assert!(shown.starts_with("1000Hz is for operators: readers have at most 100Hz"));
        assert!(shown.contains("you are reader bob"), "{shown}");
    }
}
