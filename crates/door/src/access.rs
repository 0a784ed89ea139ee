//! Who asks and what that lets him do: by a token, by what his connection showed, or by where he comes from. It
//! refuses to open files and to verify certificates: that has been done before.

use std::sync::Arc;

use khz_model::Rate;
use khz_trust::{ClusterKey, Identity, READER_RATE_MAX_HZ, Role, TokenError};

/// What a door lets whom do.
#[derive(Clone, Debug)]
pub struct Access {
    /// The role of who comes from this machine and shows nothing. A hub's are readers; the page of a cluster of
    /// one may choose any rate, so there they are operators.
    pub here: Role,
    /// The role of who comes from elsewhere and shows nothing; `None`: he must show something.
    pub elsewhere: Option<Role>,
    /// The key whose tokens count.
    pub key: Option<Arc<ClusterKey>>,
}

impl Default for Access {
    /// As strict as it can be: readers here, nobody from elsewhere, no tokens.
    fn default() -> Self {
        Access { here: Role::Reader, elsewhere: None, key: None }
    }
}

/// Why somebody may not ask, or not this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// He shows a token that is none of this cluster's.
    #[error("{0}")]
    Unknown(String),
    /// He comes from elsewhere and shows nothing.
    #[error("this door asks who you are: show {}a certificate", if *tokens { "a token (Authorization: Bearer) or " } else { "" })]
    Nameless {
        /// Whether tokens count here.
        tokens: bool,
    },
    /// A node.
    #[error("you are {0}: a node sends, over the link, and reads nothing here")]
    Sender(String),
    /// A rate that is not for his role.
    #[error(
        "{rate} is for operators: readers have at most {READER_RATE_MAX_HZ}Hz, and you are {caller}; ask on that \
         machine as root, or with an operator's token or certificate"
    )]
    TooFast {
        /// What he asked.
        rate: Rate,
        /// Who he is.
        caller: String,
    },
    /// He wants to change what only operators may.
    #[error(
        "{what} is for operators, and you are {caller}; ask on that machine as root, or with an operator's token or certificate"
    )]
    NoOperator {
        /// What he wants.
        what: &'static str,
        /// Who he is.
        caller: String,
    },
}

/// Where a connection comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Over the local socket, from root or the daemon's own user.
    Owner,
    /// From this machine.
    Here,
    /// From another machine, or from this one over an address that others have too.
    Elsewhere,
    /// From wherever, with a certificate.
    Certified(Identity),
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// What lets him do what he may.
    pub role: Role,
    /// As refusals name him: `reader bob`.
    pub shown: String,
}

impl Access {
    /// Who comes over such a connection and shows this token, if he may ask at all.
    pub fn caller(&self, origin: &Origin, token: Option<&str>) -> Result<Caller, AccessError> {
        let unknown = |error: TokenError| AccessError::Unknown(error.to_string());
        let caller = match (&self.key, token) {
            (Some(key), Some(token)) => Caller::of(&key.recognise(token).map_err(unknown)?),
            // Whoever needs no token may show one all the same: his settings are the same for all servers.
            (None, Some(_)) | (_, None) => self.by_origin(origin)?,
        };
        if !caller.role.may_read() {
            return Err(AccessError::Sender(caller.shown));
        }
        Ok(caller)
    }

    fn by_origin(&self, origin: &Origin) -> Result<Caller, AccessError> {
        let nameless = |role: Role, from: &str| Caller { role, shown: format!("a {role} {from}") };
        match origin {
            Origin::Owner => Ok(nameless(Role::Operator, "by the local socket")),
            Origin::Here => Ok(nameless(self.here, "because you come from this machine")),
            Origin::Certified(identity) => Ok(Caller::of(identity)),
            Origin::Elsewhere => match self.elsewhere {
                Some(role) => Ok(nameless(role, "as everybody here")),
                None => Err(AccessError::Nameless { tokens: self.key.is_some() }),
            },
        }
    }
}

impl Caller {
    fn of(identity: &Identity) -> Self {
        Caller { role: identity.role, shown: identity.to_string() }
    }

    /// The fastest rate that this role may ask of somebody whose ceiling is that.
    pub fn rate_max(&self, ceiling: Rate) -> Rate {
        match Rate::from_hz(READER_RATE_MAX_HZ) {
            Some(readers) if !self.role.may_read_at(ceiling) => ceiling.at_most(readers),
            _ => ceiling,
        }
    }

    /// Refuses what only operators may.
    pub fn check_operator(&self, what: &'static str) -> Result<(), AccessError> {
        if self.role == Role::Operator {
            return Ok(());
        }
        Err(AccessError::NoOperator { what, caller: self.shown.clone() })
    }

    /// Refuses a rate that is not for this role.
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
    fn every_origin_has_its_role() {
        let nameless = AccessError::Nameless { tokens: false };
        let strict = Access::default();
        let open = Access { here: Role::Operator, elsewhere: Some(Role::Reader), key: None };
        for (origin, by_strict, by_open) in [
            (Origin::Owner, Ok(Role::Operator), Ok(Role::Operator)),
            (Origin::Here, Ok(Role::Reader), Ok(Role::Operator)),
            (Origin::Elsewhere, Err(nameless), Ok(Role::Reader)),
            (Origin::Certified(identity(Role::Node)), Err(SENDER()), Err(SENDER())),
            (Origin::Certified(identity(Role::Reader)), Ok(Role::Reader), Ok(Role::Reader)),
            (Origin::Certified(identity(Role::Operator)), Ok(Role::Operator), Ok(Role::Operator)),
            (Origin::Certified(identity(Role::Hub)), Ok(Role::Hub), Ok(Role::Hub)),
        ] {
            assert_eq!(outcome(&strict, &origin, None), by_strict, "{origin:?}");
            assert_eq!(outcome(&open, &origin, None), by_open, "{origin:?}");
        }
    }

    #[test]
    fn a_token_says_more_than_where_somebody_comes_from() {
        let key = Arc::new(ClusterKey::generate().unwrap());
        let access = Access { key: Some(Arc::clone(&key)), ..Access::default() };
        for (role, expected) in [
            (Role::Node, Err(SENDER())),
            (Role::Reader, Ok(Role::Reader)),
            (Role::Operator, Ok(Role::Operator)),
            (Role::Hub, Ok(Role::Hub)),
        ] {
            let shown = key.token(role, &identity(role).name).to_string();
            assert_eq!(outcome(&access, &Origin::Elsewhere, Some(&shown)), expected.clone(), "{role}");
            assert_eq!(outcome(&access, &Origin::Here, Some(&shown)), expected, "{role}");
            let foreign = ClusterKey::generate().unwrap().token(role, &identity(role).name);
            let refused = outcome(&access, &Origin::Here, Some(&foreign.to_string()));
            assert!(matches!(refused, Err(AccessError::Unknown(_))), "{refused:?}");
        }
    }

    #[test]
    fn a_token_is_not_looked_at_where_none_counts() {
        assert_eq!(outcome(&Access::default(), &Origin::Here, Some("any")), Ok(Role::Reader));
    }

    #[test]
    fn what_changes_something_is_for_operators_alone() {
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
