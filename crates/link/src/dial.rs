//! The first words of whoever connects: hears the greeting, says Hello, waits for the welcome. Agents and readers
//! do it alike.

use std::fmt;
use std::sync::Arc;

use khz_model::Nanos;

use crate::error::LinkError;
use crate::frame::Frame;
use crate::limits::{SILENCE, VERSION, VERSION_LOWEST, WELCOME_LATE};
use crate::message::{Greeting, Hello, KNOWS_TEXT_NOW, KNOWS_TEXTS, Role};

/// Makes a proof for a greeting's nonce, with a token.
pub type Prove = Box<dyn Fn(&[u8; 32]) -> [u8; 32] + Send + Sync>;

/// What vouches for us at one hub only: a key of that hub's, on the same machine.
pub struct Vouch {
    /// Makes the proof.
    pub prove: Prove,
    /// As what we come there, where that is more than elsewhere.
    pub role: Option<Role>,
}

impl fmt::Debug for Vouch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vouch").field("role", &self.role).finish_non_exhaustive()
    }
}

/// Who we are, on every connection.
pub struct Identity {
    /// As what we come.
    pub role: Role,
    /// Our name.
    pub name: String,
    /// Tells machines apart.
    pub machine: [u8; 16],
    /// Tells boots apart.
    pub boot: [u8; 16],
    /// CLOCK_BOOTTIME of our start, ns.
    pub started: i64,
    /// Random at our start.
    pub start_nonce: u64,
    /// Version of the program.
    pub program: String,
    /// With a token: what proves that we have it.
    pub prove: Option<Prove>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("role", &self.role).field("name", &self.name).finish_non_exhaustive()
    }
}

/// What the hub has said of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubName {
    /// Random at its start.
    pub identity: [u8; 16],
    /// For people.
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

/// A connection's beginning.
#[derive(Debug)]
pub(crate) struct Dial {
    identity: Arc<Identity>,
    /// Counts for more than what the identity has.
    vouch: Option<Vouch>,
    phase: Phase,
    hub: HubName,
    /// What the hub understands.
    abilities: u8,
    /// The version that we have chosen.
    version: u8,
    /// When the hub's next word is late.
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

    /// Something vouches for us at this hub.
    pub fn vouched(&mut self, vouch: Vouch) {
        self.vouch = Some(vouch);
    }

    pub fn is_welcome(&self) -> bool {
        self.phase == Phase::Welcome
    }

    /// True where the hub passes kernel texts on.
    pub fn knows_texts(&self) -> bool {
        self.abilities & KNOWS_TEXTS != 0
    }

    /// True where it has them read at once when it is asked to.
    pub fn knows_text_now(&self) -> bool {
        self.abilities & KNOWS_TEXT_NOW != 0
    }

    pub fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// How long the hub has let us wait.
    pub fn waited(&self, now: Nanos) -> Nanos {
        now.since(self.began)
    }

    pub fn hub(&self) -> &HubName {
        &self.hub
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Takes a frame before the welcome, and answers it.
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
            abilities: KNOWS_TEXTS | KNOWS_TEXT_NOW,
        }
        .put(out);
        Ok(())
    }
}
