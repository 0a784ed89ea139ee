//! Why there is no answer. The variants tell "nobody listens there" from "it answered no", since only the first lets a
//! command read the kernel itself.

use khz_trust::TrustError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// This is no address of a khz; nothing was asked.
    #[error("{0}")]
    Address(String),
    /// An `https://` address needs a CA; nothing was asked.
    #[error(
        "https:// needs the CA that signed the server's certificate: --tls-ca FILE (of a public CA: \
         /etc/ssl/certs/ca-certificates.crt)"
    )]
    NoCa,
    /// A certificate or key cannot be used; nothing was asked.
    #[error(transparent)]
    Files(#[from] TrustError),
    /// Nothing listens there, or it is not reachable.
    #[error("no khz answers at {url}/: {reason}")]
    NobodyThere {
        /// The address.
        url: String,
        /// The system's reason.
        reason: String,
    },
    /// An agent answers, and the question is for a hub.
    #[error(
        "no hub answers on this machine; its agent did, which has no jobs, freezes, rules and alerts: start the hub, or name it with --server"
    )]
    OnlyAgent,
    /// A server of somebody else does not answer.
    #[error("no answer from {url}: {reason}")]
    Unanswered {
        /// The address.
        url: String,
        /// The reason.
        reason: String,
    },
    /// Another engine says that the question is wrong or too much.
    #[error("{text}")]
    Engine {
        /// Its status.
        status: u16,
        /// Its word for the kind of error.
        kind: String,
        /// Its sentence.
        text: String,
    },
    /// It accepts connections, and does not answer.
    #[error(
        "{url}/ takes connections and does not answer: it stands still, or its machine is overloaded. See there what it does \
         (systemctl status, top), and start it again if need be; without it only --direct reads anything, of this machine alone"
    )]
    Silent {
        /// The address.
        url: String,
    },
    /// Its answer stopped in the middle.
    #[error("the answer of {url}/ broke off: {reason}; ask again, and if it stays so see there what it does")]
    BrokeOff {
        /// The address.
        url: String,
        /// The system's reason.
        reason: String,
    },
    /// It has not answered in the longest time that an answer may take.
    #[error("no answer from {url} within {seconds} s: it stands still, or others keep it busy")]
    Late {
        /// The address.
        url: String,
        /// How long we waited.
        seconds: u64,
    },
    /// Its answer does not end where any should.
    #[error(
        "the answer of {url}/ has more than {bytes} bytes, which is more than is read; ask for less at once"
    )]
    TooLong {
        /// The address.
        url: String,
        /// How many are read.
        bytes: u64,
    },
    /// It refuses a request that makes no sense to it, as a rate above the ceiling (status 400).
    #[error("{0}")]
    BadRequest(String),
    /// It refuses a request that we may not make: a rate for operators, a missing token (status 401, 403).
    #[error("{0}")]
    NotAllowed(String),
    /// The TLS handshake failed.
    #[error("no TLS with {url}/: {problem}")]
    Tls {
        /// The address.
        url: String,
        /// Whose certificate is wrong, and how.
        problem: String,
    },
    /// It refuses because of what is there: another channel of this name, a node that takes no handlers (status 409).
    #[error("{0}")]
    Conflict(String),
    /// It refuses for another reason: a pattern that matches nothing, a limit that is reached.
    #[error("{0}")]
    Refused(String),
    /// There is no such channel.
    #[error("{0}")]
    NoSuchChannel(String),
    /// Something answered, but not as khz does.
    #[error("{url}/ does not answer as khz does: {problem}")]
    NotKhz {
        /// The address.
        url: String,
        /// What was strange.
        problem: String,
    },
    /// The status of a node in its answer is malformed.
    #[error("a status that cannot be read: {0}")]
    Status(serde_json::Error),
    /// The server has ended the stream, and says why.
    #[error("{url}: {reason}")]
    Dropped {
        /// The address.
        url: String,
        /// Why.
        reason: String,
    },
    /// The stream has ended with an error: the connection broke, or an event makes no sense.
    #[error("{url}: {problem}")]
    Stream {
        /// The address.
        url: String,
        /// What happened.
        problem: String,
    },
    /// The thread that reads a stream cannot start.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

impl AskError {
    /// True where asking again cannot help: the request was wrong, or is not ours to make, or what it names is not there.
    pub fn is_final(&self) -> bool {
        self.is_usage()
            || matches!(self, AskError::NoSuchChannel(_) | AskError::Conflict(_) | AskError::Tls { .. })
    }

    /// True where the request was wrong or not ours to make; false where the work failed.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            AskError::Address(_)
                | AskError::NoCa
                | AskError::Files(_)
                | AskError::BadRequest(_)
                | AskError::NotAllowed(_)
        )
    }
}

/// An error with its causes, in one sentence: `cannot listen on ...: permission denied`.
pub fn sentence(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // The text of some errors includes their cause.
        let cause_text = error.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        cause = error.source();
    }
    text
}
