//! What people know about an alert, and whether its state is news to them. If the answer to a message was lost, people may have got
//! it or not. It does not know what a message is.

/// What is noted about an alert.
#[derive(Debug)]
pub(crate) struct State {
    /// When the judge listed it last, in the time of passes.
    pub heard: u64,
    /// The judge has listed it since this process began, or since another hub left it to this one.
    pub is_mentioned: bool,
    /// What people know.
    pub known: Known,
    /// A message about it is on its way; this is what people knew before.
    pub before: Option<Known>,
}

/// What people know about an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// When they were told that it fires, in ms since 1970; `None`: they believe that it does not.
    pub told_at: Option<i64>,
    /// A message about it may have arrived or not. Then its next state is news, whatever it is.
    pub is_unsure: bool,
    /// The message about its start was refused for good, and is not repeated. People know nothing of the alert, and do not hear of
    /// its end.
    pub is_refused: bool,
}

impl State {
    pub fn new(heard: u64) -> Self {
        let known = Known { told_at: None, is_unsure: false, is_refused: false };
        State { heard, is_mentioned: true, known, before: None }
    }

    /// Whether a message about other alerts lists this alert as firing. An alert that is known only from a file or from another hub
    /// is not listed: it may be over, and somebody else may have said so.
    pub fn is_listed(&self, firing: bool) -> bool {
        firing && self.is_mentioned
    }

    /// Whether people must hear of an alert in this state. What they may have heard before a restart is news once the judge has
    /// spoken.
    pub fn is_news(&self, firing: bool) -> bool {
        match self.known {
            Known { is_refused: true, .. } => false,
            Known { told_at: Some(_), is_unsure, .. } => !firing || (is_unsure && self.is_mentioned),
            Known { told_at: None, .. } => firing,
        }
    }

    /// The alert is over, and people never heard of it, so they need not hear of its end.
    pub fn is_needless(&self, firing: bool) -> bool {
        let is_unheard = self.known.told_at.is_none() || self.known.is_refused;
        !firing && is_unheard && self.before.is_none()
    }

    /// What people know after a message about it was refused for good.
    pub fn refused(&self, firing: bool, wall: i64) -> Known {
        let before = self.before.unwrap_or(self.known);
        let is_unheard = before.told_at.is_none() || before.is_refused;
        Known { told_at: firing.then_some(wall), is_unsure: false, is_refused: firing && is_unheard }
    }

    /// A message about it is on its way. Returns true if this changes what people know.
    pub fn set_on_way(&mut self, wall: i64) -> bool {
        let told_at = self.known.told_at.or(Some(wall));
        let after = Known { told_at, is_unsure: true, is_refused: false };
        let before = std::mem::replace(&mut self.known, after);
        self.before = Some(before);
        before != after
    }
}
