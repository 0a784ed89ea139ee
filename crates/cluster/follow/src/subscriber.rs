//! A connection to a hub on which a reader subscribes.

use khz_link::driver::{Following, FollowingError, FollowingSettings};
use khz_model::Interest;

use crate::follower::Follower;
use crate::reader::Reader;
use crate::subscriptions::Subscriptions;

/// A running connection to one of several hubs; it connects again whenever the connection ends. Dropping it ends it.
pub struct Subscriber<T> {
    link: Following,
    subscriptions: Subscriptions<T>,
}

impl<T> Subscriber<T> {
    /// Connects. `reader` gets what arrives, on the link's thread.
    ///
    /// # Errors
    /// The system has no thread or no descriptor for it.
    pub fn start<R>(settings: FollowingSettings, reader: R) -> std::io::Result<Self>
    where
        R: Reader<Subscription = T, Lane: Send> + Send + 'static,
        T: Clone + Send + 'static,
    {
        Self::sharing(settings, Subscriptions::default(), reader)
    }

    /// The same, for a reader that has a clone of `subscriptions`.
    ///
    /// # Errors
    /// As for [`Subscriber::start`].
    pub fn sharing<R>(
        settings: FollowingSettings,
        subscriptions: Subscriptions<T>,
        reader: R,
    ) -> std::io::Result<Self>
    where
        R: Reader<Subscription = T, Lane: Send> + Send + 'static,
        T: Clone + Send + 'static,
    {
        let link = Following::start(settings, Follower::new(reader, subscriptions.clone()))?;
        Ok(Subscriber { link, subscriptions })
    }

    /// Subscribes on this connection and on every later one, and returns the number of the subscription. `prompt`: every row
    /// at once, instead of several in one flush.
    ///
    /// # Errors
    /// There are too many subscriptions, or this one has too many patterns.
    pub fn subscribe(
        &self,
        interest: &Interest,
        prompt: bool,
        subscription: T,
    ) -> Result<u32, FollowingError> {
        self.subscriptions.add(subscription, || self.link.subscribe(interest, prompt))
    }

    /// Ends a subscription. Its lanes are closed soon after.
    pub fn unsubscribe(&self, number: u32) {
        self.subscriptions.remove(number);
        self.link.unsubscribe(number);
    }

    /// The subscriptions of now.
    pub fn subscriptions(&self) -> &Subscriptions<T> {
        &self.subscriptions
    }

    /// The link, for the list of nodes and for kernel texts.
    pub fn link(&self) -> &Following {
        &self.link
    }
}
