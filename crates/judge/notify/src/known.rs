//! What people know about an alert, and whether its state is news to them: a message whose answer was lost may have come or not.
//! Does not know what a message is.

/// What is noted about an alert.
#[derive(Debug)]
pub(crate) struct State {
    /// When it was mentioned last, in the time of passes.
    pub heard: u64,
    /// The judge has mentioned it since this process began, or since another hub left it to this one.
    pub is_mentioned: bool,
    /// What people know.
    pub known: Known,
    /// A message that names it is on its way; what they knew before.
    pub before: Option<Known>,
}

/// What people know about an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// When they were told that it fires, in ms since 1970; `None`: they believe that it does not.
    pub told_at: Option<i64>,
    /// A message about it may have come or not. Then its next state is news, whatever it is.
    pub is_unsure: bool,
}

impl State {
    pub fn new(heard: u64) -> Self {
        let known = Known { told_at: None, is_unsure: false };
        State { heard, is_mentioned: true, known, before: None }
    }

    /// A message about others names this alert as one that fires. What only a file from before a restart or another hub has said of it
    /// is not named: it may be over, and people may have been told so by somebody else.
    pub fn is_listed(&self, firing: bool) -> bool {
        firing && self.is_mentioned
    }

    /// People are to be told of an alert in this state. What they may have heard before a restart is news when the judge
    /// has said what is true.
    pub fn is_news(&self, firing: bool) -> bool {
        match self.known {
            Known { told_at: Some(_), is_unsure } => !firing || (is_unsure && self.is_mentioned),
            Known { told_at: None, .. } => firing,
        }
    }

    /// A message about it is on its way; true: that changes what people know.
    pub fn set_on_way(&mut self, wall: i64) -> bool {
        let after = Known { told_at: self.known.told_at.or(Some(wall)), is_unsure: true };
        let before = std::mem::replace(&mut self.known, after);
        self.before = Some(before);
        before != after
    }
}
