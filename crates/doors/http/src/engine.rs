//! Another engine with Prometheus' interface, which answers queries instead of this door. What is here is what the door needs
//! of it; how the engine is reached, and what it is shown, is its owner's business.

/// A question, as a client asked it. It has nothing else of the client: no header, no address.
#[derive(Clone, Debug)]
pub struct Question {
    /// Below the engine's address: `/api/v1/query`.
    pub path: String,
    /// The parameters go as a form in the body, else in the address.
    pub is_form: bool,
    /// The parameters, not encoded.
    pub pairs: Vec<(String, String)>,
}

/// Another engine. Its calls block.
pub trait Engine: Send + Sync {
    /// Its address, without secrets: people see it.
    fn url(&self) -> &str;

    /// Asks, and waits until the answer begins.
    ///
    /// # Errors
    /// Why there is no answer.
    fn ask(&self, question: &Question) -> Result<Box<dyn EngineAnswer>, EngineError>;
}

/// An answer of success that has begun.
pub trait EngineAnswer: Send {
    /// The next bytes: as many as there is room for; fewer only at the end.
    ///
    /// # Errors
    /// The answer broke off, or is too long.
    fn read(&mut self, room: &mut [u8]) -> Result<usize, EngineError>;
}

/// Why another engine gives no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    /// It says that the question is wrong, or too much.
    #[error("{text}")]
    Refused {
        /// Its status.
        status: u16,
        /// Its word for the kind of error.
        kind: String,
        /// Its sentence.
        text: String,
    },
    /// Not in time.
    #[error("{0}")]
    Late(String),
    /// It is not there, or what it says cannot be used.
    #[error("{0}")]
    Unusable(String),
}
