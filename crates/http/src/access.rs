//! Who asks and what that lets him do: by a token, by what his connection showed, or by where he comes from. It
//! refuses to open files and to verify certificates: that has been done before.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap};
use khz_model::Rate;
use khz_trust::{ClusterKey, Identity, READER_RATE_MAX_HZ, Role};

use crate::refusal::Refusal;

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

/// Where a connection comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
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
pub(crate) struct Caller {
    pub role: Role,
    /// As refusals name him: `reader bob`.
    pub shown: String,
}

impl Access {
    /// Who sends a request with these headers over such a connection, if he may ask at all.
    pub(crate) fn caller(&self, origin: &Origin, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let caller = match (&self.key, bearer(headers)?) {
            (Some(key), Some(token)) => Caller::of(&key.recognise(token).map_err(unauthorized)?),
            // Whoever needs no token may show one all the same: his settings are the same for all servers.
            (None, Some(_)) | (_, None) => self.by_origin(origin)?,
        };
        if !caller.role.may_read() {
            let error =
                format!("you are {}: a node sends, over the link, and reads nothing here", caller.shown);
            return Err(Refusal::new(StatusCode::FORBIDDEN, error));
        }
        Ok(caller)
    }

    fn by_origin(&self, origin: &Origin) -> Result<Caller, Refusal> {
        let nameless = |role: Role, from: &str| Caller { role, shown: format!("a {role} {from}") };
        match origin {
            Origin::Owner => Ok(nameless(Role::Operator, "by the local socket")),
            Origin::Here => Ok(nameless(self.here, "because you come from this machine")),
            Origin::Certified(identity) => Ok(Caller::of(identity)),
            Origin::Elsewhere => match self.elsewhere {
                Some(role) => Ok(nameless(role, "as everybody here")),
                None => Err(unauthorized(match &self.key {
                    Some(_) => {
                        "this door asks who you are: show a token (Authorization: Bearer) or a certificate"
                    }
                    None => "this door asks who you are: show a certificate",
                })),
            },
        }
    }
}

impl Caller {
    fn of(identity: &Identity) -> Self {
        Caller { role: identity.role, shown: identity.to_string() }
    }

    /// The fastest rate that this role may ask of somebody whose ceiling is that.
    pub(crate) fn rate_max(&self, ceiling: Rate) -> Rate {
        match Rate::from_hz(READER_RATE_MAX_HZ) {
            Some(readers) if !self.role.may_read_at(ceiling) => ceiling.at_most(readers),
            _ => ceiling,
        }
    }

    /// Refuses a rate that is not for this role.
    pub(crate) fn check_rate(&self, rate: Rate) -> Result<(), Refusal> {
        if self.role.may_read_at(rate) {
            return Ok(());
        }
        let error = format!(
            "{rate} is for operators: readers have at most {READER_RATE_MAX_HZ}Hz, and you are {}; ask on that \
             machine as root, or with an operator's token or certificate",
            self.shown
        );
        Err(Refusal::new(StatusCode::FORBIDDEN, error))
    }
}

/// The token in `Authorization: Bearer TOKEN`, if there is one.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut fields = headers.get_all(header::AUTHORIZATION).iter();
    let Some(field) = fields.next() else { return Ok(None) };
    let token = field.to_str().ok().and_then(|field| field.split_once(' '));
    match token {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && fields.next().is_none() => {
            Ok(Some(token))
        }
        _ => Err(unauthorized("the Authorization header is not one 'Bearer TOKEN'")),
    }
}

fn unauthorized(problem: impl std::fmt::Display) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, problem.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use khz_model::NodeName;

    fn identity(role: Role) -> Identity {
        Identity { role, name: NodeName::new("bob").unwrap() }
    }

    fn headers(token: &str) -> HeaderMap {
        let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        HeaderMap::from_iter([(header::AUTHORIZATION, value)])
    }

    /// The role, or the status of the refusal.
    fn outcome(access: &Access, origin: &Origin, headers: &HeaderMap) -> Result<Role, u16> {
        let caller = access.caller(origin, headers);
        caller.map(|caller| caller.role).map_err(|refusal| refusal.status.as_u16())
    }

    #[test]
    fn every_origin_has_its_role() {
        let none = HeaderMap::new();
        let strict = Access::default();
        let open = Access { here: Role::Operator, elsewhere: Some(Role::Reader), key: None };
        for (origin, by_strict, by_open) in [
            (Origin::Owner, Ok(Role::Operator), Ok(Role::Operator)),
            (Origin::Here, Ok(Role::Reader), Ok(Role::Operator)),
            (Origin::Elsewhere, Err(401), Ok(Role::Reader)),
            (Origin::Certified(identity(Role::Node)), Err(403), Err(403)),
            (Origin::Certified(identity(Role::Reader)), Ok(Role::Reader), Ok(Role::Reader)),
            (Origin::Certified(identity(Role::Operator)), Ok(Role::Operator), Ok(Role::Operator)),
            (Origin::Certified(identity(Role::Hub)), Ok(Role::Hub), Ok(Role::Hub)),
        ] {
            assert_eq!(outcome(&strict, &origin, &none), by_strict, "{origin:?}");
            assert_eq!(outcome(&open, &origin, &none), by_open, "{origin:?}");
        }
    }

    #[test]
    fn a_token_says_more_than_where_somebody_comes_from() {
        let key = Arc::new(ClusterKey::generate().unwrap());
        let access = Access { key: Some(Arc::clone(&key)), ..Access::default() };
        for (role, expected) in [
            (Role::Node, Err(403)),
            (Role::Reader, Ok(Role::Reader)),
            (Role::Operator, Ok(Role::Operator)),
            (Role::Hub, Ok(Role::Hub)),
        ] {
            let shown = headers(&key.token(role, &identity(role).name).to_string());
            assert_eq!(outcome(&access, &Origin::Elsewhere, &shown), expected, "{role}");
            assert_eq!(outcome(&access, &Origin::Here, &shown), expected, "{role}");
            let foreign = ClusterKey::generate().unwrap().token(role, &identity(role).name);
            assert_eq!(outcome(&access, &Origin::Here, &headers(&foreign.to_string())), Err(401));
        }
    }

    #[test]
    fn what_is_no_bearer_token_is_refused_wherever_it_comes_from() {
        let access = Access::default();
        for text in ["Basic YTpi", "Bearer", ""] {
            let value = HeaderValue::from_str(text).unwrap();
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
            assert_eq!(outcome(&access, &Origin::Owner, &headers), Err(401), "{text}");
        }
        let mut twice = headers("a");
        twice.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer b"));
        assert_eq!(outcome(&access, &Origin::Owner, &twice), Err(401));
        assert_eq!(
            outcome(&access, &Origin::Here, &headers("any")),
            Ok(Role::Reader),
            "no key: not looked at"
        );
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
        assert_eq!(refusal.status, StatusCode::FORBIDDEN);
        assert!(refusal.error.starts_with("1000Hz is for operators: readers have at most 100Hz"));
        assert!(refusal.error.contains("you are reader bob"), "{}", refusal.error);
    }
}
