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
    /// The message about its begin was refused for good, and is not repeated: people know nothing, and hear nothing of its end.
    pub is_refused: bool,
}

impl State {
    pub fn new(heard: u64) -> Self {
        let known = Known { told_at: None, is_unsure: false, is_refused: false };
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
            Known { is_refused: true, .. } => false,
            Known { told_at: Some(_), is_unsure, .. } => !firing || (is_unsure && self.is_mentioned),
            Known { told_at: None, .. } => firing,
        }
    }

    /// It is over, and people need not hear that: they never heard of it.
    pub fn is_needless(&self, firing: bool) -> bool {
        let is_unheard = self.known.told_at.is_none() || self.known.is_refused;
        !firing && is_unheard && self.before.is_none()
    }

    /// What people know when a message about it was refused for good.
    pub fn refused(&self, firing: bool, wall: i64) -> Known {
        let before = self.before.unwrap_or(self.known);
        let is_unheard = before.told_at.is_none() || before.is_refused;
        Known { told_at: firing.then_some(wall), is_unsure: false, is_refused: firing && is_unheard }
    }

    /// A message about it is on its way; true: that changes what people know.
    pub fn set_on_way(&mut self, wall: i64) -> bool {
        let told_at = self.known.told_at.or(Some(wall));
        let after = Known { told_at, is_unsure: true, is_refused: false };
        let before = std::mem::replace(&mut self.known, after);
        self.before = Some(before);
        before != after
    }
}
