//! The answer to a request of the kernel: a value, an error (errno), or a wait for something that has not come yet.

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// The answer.
    Ready(T),
    /// Something must come first. [`crate::effects::Retry::concerns`] says when to ask again.
    Wait,
    /// An errno.
    Fail(i32),
}

impl<T> Answer<T> {
    /// An answer that needs one more step, which cannot wait.
    pub fn map<U>(self, step: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Answer::Ready(value) => Answer::Ready(step(value)),
            Answer::Wait => Answer::Wait,
            Answer::Fail(errno) => Answer::Fail(errno),
        }
    }

    /// An answer that needs one more step, which may wait or fail.
    pub fn then<U>(self, step: impl FnOnce(T) -> Answer<U>) -> Answer<U> {
        match self {
            Answer::Ready(value) => step(value),
            Answer::Wait => Answer::Wait,
            Answer::Fail(errno) => Answer::Fail(errno),
        }
    }

    /// What is there, or an errno.
    pub fn or_fail(value: Option<T>, errno: i32) -> Self {
        value.map_or(Answer::Fail(errno), Answer::Ready)
    }

    /// The answer when something has not come: a wait, or an error for a request that has waited long enough.
    pub fn missing(is_late: bool) -> Self {
        if is_late { Answer::Fail(libc::ETIMEDOUT) } else { Answer::Wait }
    }
}
