//! What a hub does outside: it tells people, and acts. Which alerts are its own is decided elsewhere.

use khz_notify::{Alert, Labels, Notifier, ToldLine};

use super::Audience;

/// Those who are told of alerts, and those who act on them.
pub(super) trait Outside {
    /// People hear the state of these alerts. See [`Notifier::tell`].
    fn tell(&self, alerts: &[Alert]);

    /// What people were told of what fires.
    fn told(&self) -> Vec<ToldLine>;

    /// Another hub has told people this.
    fn adopt(&self, lines: Vec<ToldLine>);

    /// Another hub tells people of these alerts from now on.
    fn release(&self, is_meant: &dyn Fn(&Labels) -> bool);

    /// Something is done about these, once for each firing.
    fn act(&self, alerts: &[Alert]);

    /// Another hub does it.
    fn acted(&self, alerts: &[Alert]);
}

impl Outside for Audience {
    fn tell(&self, alerts: &[Alert]) {
        self.notifier.iter().for_each(|notifier| notifier.tell(alerts));
    }

    fn told(&self) -> Vec<ToldLine> {
        self.notifier.as_ref().map(Notifier::told).unwrap_or_default()
    }

    fn adopt(&self, lines: Vec<ToldLine>) {
        self.notifier.iter().for_each(|notifier| Notifier::adopt(notifier, lines.clone()));
    }

    fn release(&self, is_meant: &dyn Fn(&Labels) -> bool) {
        self.notifier.iter().for_each(|notifier| notifier.release(is_meant));
    }

    fn act(&self, alerts: &[Alert]) {
        self.actions.iter().for_each(|actions| actions.tell(alerts));
    }

    fn acted(&self, alerts: &[Alert]) {
        self.actions.iter().for_each(|actions| actions.adopt(alerts));
    }
}
