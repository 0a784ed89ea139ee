//! What a hub does outside: it sends messages to people, and acts. Other modules decide which alerts it owns.

use khz_notify::{Alert, Labels, Notifier, ToldLine};

use super::Audience;

/// The notifier and the actions.
pub(super) trait Outside {
    /// Sends messages about the state of these alerts. See [`Notifier::tell`].
    fn tell(&self, alerts: &[Alert]);

    /// The messages that people got about firing alerts.
    fn told(&self) -> Vec<ToldLine>;

    /// Another hub has sent these messages.
    fn adopt(&self, lines: Vec<ToldLine>);

    /// Another hub sends messages about these alerts from now on.
    fn release(&self, is_meant: &dyn Fn(&Labels) -> bool);

    /// Acts on these alerts, once for each firing.
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
