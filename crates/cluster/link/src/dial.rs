//! The beginning of a connection on the side that connects: it receives the Greeting, sends Hello and waits for the Welcome.
//! It refuses a hub that speaks none of its versions. Agents and readers do the same.

use std::fmt;
use std::sync::Arc;

use khz_model::Nanos;

use crate::error::LinkError;
use crate::frame::Frame;
use crate::limits::{SILENCE, VERSION, VERSION_LOWEST, WELCOME_LATE};
use crate::message::{
    ABILITIES, Greeting, Hello, KNOWS_CHANNELS, KNOWS_DEFINITIONS, KNOWS_FREEZE, KNOWS_TEXT_NOW, KNOWS_TEXTS,
    Role,
};

/// Makes a proof for a greeting's nonce, with a token.
pub type Prove = Box<dyn Fn(&[u8; 32]) -> [u8; 32] + Send + Sync>;

/// A proof for one hub only, with a key of that hub on the same machine.
pub struct Vouch {
    /// Makes the proof.
    pub prove: Prove,
    /// Our role there, if it is higher than elsewhere.
    pub role: Option<Role>,
}

impl fmt::Debug for Vouch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vouch").field("role", &self.role).finish_non_exhaustive()
    }
}

/// Our identity, on every connection.
pub struct Identity {
    /// Our role.
    pub role: Role,
    /// Our name.
    pub name: String,
    /// Different for each machine.
    pub machine: [u8; 16],
    /// Different for each boot.
    pub boot: [u8; 16],
    /// CLOCK_BOOTTIME of our start, ns.
    pub started: i64,
    /// Random at our start.
    pub start_nonce: u64,
    /// Version of the program.
    pub program: String,
    /// With a token: makes the proof that we have it.
    pub prove: Option<Prove>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("role", &self.role).field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a hub's Greeting contains about it. All zeros: an identity that is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubName {
    /// Random at its start.
    pub identity: [u8; 16],
    /// Its name, for people.
    pub name: String,
    /// The hubs that it gets nodes from, and theirs.
    pub sources: Vec<[u8; 16]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connected,
    SaidHello,
    Welcome,
}

/// A connection until its Welcome.
#[derive(Debug)]
pub(crate) struct Dial {
    identity: Arc<Identity>,
    /// If present, it replaces the identity's proof.
    vouch: Option<Vouch>,
    phase: Phase,
    hub: HubName,
    /// The hub's abilities.
    abilities: u8,
    /// The version that we have chosen.
    version: u8,
    /// After this time the hub's next frame is late.
    deadline: Nanos,
    began: Nanos,
}

impl Dial {
    pub fn new(identity: Arc<Identity>, now: Nanos) -> Self {
        let deadline = Nanos(now.0 + WELCOME_LATE.0);
        Dial {
            identity,
            vouch: None,
            phase: Phase::Connected,
            hub: HubName::default(),
            abilities: 0,
            version: VERSION,
            deadline,
            began: now,
        }
    }

    /// Uses this proof for this hub.
    pub fn vouched(&mut self, vouch: Vouch) {
        self.vouch = Some(vouch);
    }

    pub fn is_welcome(&self) -> bool {
        self.phase == Phase::Welcome
    }

    /// The version of the protocol that both speak.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// True where the hub passes kernel texts on.
    pub fn knows_texts(&self) -> bool {
        self.abilities & KNOWS_TEXTS != 0
    }

    /// True where it passes on requests to read them now.
    pub fn knows_text_now(&self) -> bool {
        self.abilities & KNOWS_TEXT_NOW != 0
    }

    /// True where it takes channels.
    pub fn knows_channels(&self) -> bool {
        self.abilities & KNOWS_CHANNELS != 0
    }

    /// True where it lists its channels.
    pub fn knows_definitions(&self) -> bool {
        self.abilities & KNOWS_DEFINITIONS != 0
    }

    /// True where it fetches frozen rows.
    pub fn knows_freeze(&self) -> bool {
        self.abilities & KNOWS_FREEZE != 0
    }

    pub fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// How long we have waited for the hub.
    pub fn waited(&self, now: Nanos) -> Nanos {
        now.since(self.began)
    }

    pub fn hub(&self) -> &HubName {
        &self.hub
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Takes a frame before the Welcome, and answers it.
    pub fn take(&mut self, frame: &Frame<'_>, now: Nanos, out: &mut Vec<u8>) -> Result<(), LinkError> {
        match (self.phase, frame) {
            (_, Frame::Refuse { reason, text }) => {
                return Err(LinkError::Refused { reason: *reason, text: (*text).to_owned() });
            }
            (Phase::Connected, Frame::Greeting(greeting)) => {
                self.hello(greeting, out)?;
                self.phase = Phase::SaidHello;
            }
            (Phase::SaidHello, Frame::Welcome(welcome)) if welcome.version == self.version => {
                self.phase = Phase::Welcome;
                self.abilities = welcome.abilities;
            }
            (_, Frame::Newer { .. } | Frame::Goodbye(_) | Frame::Standing(_)) => {}
            _ => return Err(LinkError::OutOfPlace { frame: frame.name() }),
        }
        self.deadline = Nanos(now.0 + SILENCE.0);
        Ok(())
    }

    fn hello(&mut self, greeting: &Greeting<'_>, out: &mut Vec<u8>) -> Result<(), LinkError> {
        let Greeting { lowest, highest, .. } = *greeting;
        self.version = VERSION.min(highest);
        if self.version < VERSION_LOWEST.max(lowest) {
            return Err(LinkError::Version { lowest, highest });
        }
        let sources = greeting.sources.as_chunks().0.to_vec();
        self.hub = HubName { identity: greeting.identity, name: greeting.name.to_owned(), sources };
        let Identity { role, name, machine, boot, started, start_nonce, program, prove } = &*self.identity;
        let vouch = self.vouch.as_ref();
        let prove = vouch.map(|vouch| &vouch.prove).or(prove.as_ref());
        Hello {
            version: self.version,
            role: vouch.and_then(|vouch| vouch.role).unwrap_or(*role),
            name,
            machine: *machine,
            boot: *boot,
            started: *started,
            start_nonce: *start_nonce,
            program,
            proof: prove.map(|prove| prove(&greeting.nonce)),
            abilities: ABILITIES,
        }
        .put(out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::split;
    use crate::goodbye::{Goodbye, Leaving};
    use crate::limits::FRAME_MAX;
    use crate::message::{Reason, Welcome};

    fn dial(prove: Option<Prove>) -> Dial {
        let identity = Identity {
            role: Role::Reader,
            name: "r1".into(),
            machine: [1; 16],
            boot: [2; 16],
            started: 3,
            start_nonce: 4,
            program: "0.1".into(),
            prove,
        };
        Dial::new(Arc::new(identity), NOW)
    }

    const NOW: Nanos = Nanos::from_secs(100);

    fn greeting(lowest: u8, highest: u8) -> Frame<'static> {
        let sources = &[[7; 16], [8; 16]].as_flattened();
        let sources: &'static [u8] = Box::leak(sources.to_vec().into_boxed_slice());
        Frame::Greeting(Greeting {
            lowest,
            highest,
            nonce: [9; 32],
            identity: [6; 16],
            name: "hub1",
            sources,
        })
    }

    fn welcome(version: u8, abilities: u8) -> Frame<'static> {
        Frame::Welcome(Welcome { version, silence: Nanos::SECOND, abilities })
    }

    /// Takes a frame, and returns version, role and proof of the Hello that follows.
    fn hello(dial: &mut Dial, frame: &Frame<'_>) -> Result<Option<(u8, Role, Option<u8>)>, LinkError> {
        let mut out = Vec::new();
        dial.take(frame, NOW, &mut out)?;
        let Some(found) = split(&out, FRAME_MAX)? else { return Ok(None) };
        match Frame::decode(found.kind, found.body)? {
            Frame::Hello(said) => Ok(Some((said.version, said.role, said.proof.map(|proof| proof[0])))),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_highest_version_of_both_is_chosen_and_none_in_common_is_an_error() {
        for (lowest, highest, chosen) in [
            (1, 1, Some(1)),
            (1, VERSION, Some(VERSION)),
            (VERSION, 200, Some(VERSION)),
            (0, 0, None),
            (VERSION + 1, 200, None),
        ] {
            let mut dial = dial(None);
            match (hello(&mut dial, &greeting(lowest, highest)), chosen) {
                (Ok(Some((version, role, proof))), Some(chosen)) => {
                    assert_eq!((version, role, proof), (chosen, Role::Reader, None));
                    let hub =
                        HubName { identity: [6; 16], name: "hub1".into(), sources: vec![[7; 16], [8; 16]] };
                    assert_eq!(dial.hub(), &hub);
                }
                (Err(LinkError::Version { lowest: l, highest: h }), None) => {
                    assert_eq!((l, h), (lowest, highest))
                }
                other => panic!("{lowest} to {highest}: {other:?}"),
            }
        }
    }

    #[test]
    fn words_come_in_their_order_and_each_gives_the_hub_more_time() {
        let mut dial = dial(None);
        assert_eq!(
            (dial.deadline(), dial.waited(Nanos(NOW.0 + 5))),
            (Nanos(NOW.0 + WELCOME_LATE.0), Nanos(5))
        );
        let out_of_place = |result| matches!(result, Err(LinkError::OutOfPlace { .. }));
        assert!(out_of_place(hello(&mut dial, &welcome(VERSION, 0))), "no Greeting has come");
        let later = Nanos(NOW.0 + 1_000);
        dial.take(&greeting(1, VERSION), later, &mut Vec::new()).unwrap();
        assert_eq!(dial.deadline(), Nanos(later.0 + SILENCE.0));
        assert!(out_of_place(hello(&mut dial, &greeting(1, VERSION))), "it has greeted");
        assert!(out_of_place(hello(&mut dial, &welcome(VERSION - 1, 0))), "that version was not chosen");
        let goodbye = Frame::Goodbye(Goodbye { leaving: Leaving::Ends, text: "" });
        assert_eq!(hello(&mut dial, &goodbye), Ok(None), "that may be said at any time");
        assert!(!dial.is_welcome());
        assert_eq!(hello(&mut dial, &welcome(VERSION, KNOWS_TEXTS)), Ok(None));
        assert!(dial.is_welcome() && dial.knows_texts() && !dial.knows_text_now());
        assert!(out_of_place(hello(&mut dial, &welcome(VERSION, 0))));
    }

    #[test]
    fn the_abilities_of_a_hub_are_known_from_its_welcome() {
        for (abilities, knows) in [
            (0, [false; 4]),
            (KNOWS_TEXT_NOW, [false, true, false, false]),
            (KNOWS_CHANNELS, [false, false, true, false]),
            (KNOWS_DEFINITIONS, [false, false, false, true]),
            (0xff, [true; 4]),
        ] {
            let mut dial = dial(None);
            hello(&mut dial, &greeting(1, VERSION)).unwrap();
            hello(&mut dial, &welcome(VERSION, abilities)).unwrap();
            let known =
                [dial.knows_texts(), dial.knows_text_now(), dial.knows_channels(), dial.knows_definitions()];
            assert_eq!(known, knows, "{abilities}");
        }
    }

    #[test]
    fn a_refusal_ends_it_at_any_time() {
        let refuse = Frame::Refuse { reason: Reason::Full, text: "no place" };
        for words in [vec![], vec![greeting(1, VERSION)], vec![greeting(1, VERSION), welcome(VERSION, 0)]] {
            let mut dial = dial(None);
            for word in &words {
                hello(&mut dial, word).unwrap();
            }
            let refused = LinkError::Refused { reason: Reason::Full, text: "no place".into() };
            assert_eq!(hello(&mut dial, &refuse), Err(refused));
        }
    }

    #[test]
    fn a_token_makes_the_proof_and_a_proof_for_this_hub_goes_before_it() {
        let token = || Some(Box::new(|nonce: &[u8; 32]| [nonce[0] + 1; 32]) as Prove);
        assert_eq!(hello(&mut dial(token()), &greeting(1, 1)), Ok(Some((1, Role::Reader, Some(10)))));
        for (role, said) in [(None, Role::Reader), (Some(Role::Operator), Role::Operator)] {
            let mut dial = dial(token());
            dial.vouched(Vouch { prove: Box::new(|nonce| [nonce[0] + 2; 32]), role });
            assert_eq!(hello(&mut dial, &greeting(1, 1)), Ok(Some((1, said, Some(11)))));
        }
    }
}
