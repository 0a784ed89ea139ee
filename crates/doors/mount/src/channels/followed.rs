//! Which channels the mount subscribes to: those with open files, and those that somebody has used within the last [`LEASE`]. There
//! are few at a time.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use khz_model::ChannelName;

use super::lanes::{ChannelLane, Lanes, Missing};
use super::line;
use super::rows::Rows;
use crate::effects::{Command, Effects};
use crate::inode::ChannelId;
use crate::limits::{CHANNEL_SUBSCRIPTIONS_MAX, CHANNELS_PER_USER_MAX, LEASE};
use crate::upstream::{ChannelRow, ChannelSubscription};

const ROOT: u32 = 0;

/// The channels that are followed.
#[derive(Debug)]
pub(super) struct Followed {
    /// The user who may have any number of them open, besides root.
    owner: u32,
    channels: BTreeMap<ChannelId, Follow>,
    by_number: HashMap<u32, ChannelId>,
    by_lane: HashMap<u64, ChannelId>,
    made: u32,
    /// Opens that found no room.
    refused: u64,
    /// Lines that were dropped of channels that are not followed any more.
    dropped: u64,
}

/// A channel that is followed.
#[derive(Debug, Default)]
struct Follow {
    /// The number of its subscription; `None`: the channel was removed.
    number: Option<u32>,
    /// Open files of each user.
    users: BTreeMap<u32, usize>,
    until: Option<Instant>,
    /// Why the hub sends nothing of it.
    refusal: Option<String>,
    rows: Rows,
    lanes: Lanes,
}

impl Follow {
    fn is_held(&self, now: Instant) -> bool {
        !self.users.is_empty() || self.number.is_some() && self.until.is_some_and(|until| now < until)
    }
}

impl Followed {
    /// None is followed.
    pub fn new(owner: u32) -> Self {
        Followed {
            owner,
            channels: BTreeMap::new(),
            by_number: HashMap::new(),
            by_lane: HashMap::new(),
            made: 0,
            refused: 0,
            dropped: 0,
        }
    }

    /// Somebody uses a channel. Returns the one that had to make room, if there was one; an errno if nobody can.
    pub fn want(
        &mut self,
        channel: ChannelId,
        name: &ChannelName,
        now: Instant,
        effects: &mut Effects,
    ) -> Result<Option<ChannelId>, i32> {
        let until = Some(now + LEASE);
        if let Some(follow) = self.channels.get_mut(&channel) {
            follow.until = until;
            return Ok(None);
        }
        let ended = self.make_room(effects)?;
        let number = Some(self.subscribe(channel, name, effects));
        self.channels.insert(channel, Follow { number, until, ..Follow::default() });
        Ok(ended)
    }

    /// Ends the channel that nobody has open and that was not used for longest, if there are too many.
    fn make_room(&mut self, effects: &mut Effects) -> Result<Option<ChannelId>, i32> {
        if self.channels.len() < CHANNEL_SUBSCRIPTIONS_MAX {
            return Ok(None);
        }
        let idle = self.channels.iter().filter(|(_, follow)| follow.users.is_empty());
        let Some(channel) = idle.min_by_key(|(_, follow)| follow.until).map(|(&channel, _)| channel) else {
            self.refused += 1;
            return Err(libc::ENFILE);
        };
        self.remove(channel, effects);
        Ok(Some(channel))
    }

    fn subscribe(&mut self, channel: ChannelId, name: &ChannelName, effects: &mut Effects) -> u32 {
        self.made += 1;
        self.by_number.insert(self.made, channel);
        let subscription = ChannelSubscription { number: self.made, name: name.clone() };
        effects.command(Command::SubscribeChannel(subscription));
        self.made
    }

    fn unsubscribe(&mut self, channel: ChannelId, number: Option<u32>, effects: &mut Effects) {
        if let Some(number) = number {
            self.by_number.remove(&number);
            effects.command(Command::UnsubscribeChannel(number));
        }
        self.by_lane.retain(|_, of| *of != channel);
    }

    fn remove(&mut self, channel: ChannelId, effects: &mut Effects) {
        if let Some(follow) = self.channels.remove(&channel) {
            self.dropped += follow.rows.dropped();
            self.unsubscribe(channel, follow.number, effects);
        }
    }

    /// True when a user may have this channel open, besides those that the user has.
    pub fn may_open(&mut self, channel: ChannelId, user: u32) -> bool {
        let is_free = user == self.owner || user == ROOT;
        let others =
            self.channels.iter().filter(|(id, follow)| **id != channel && follow.users.contains_key(&user));
        let may = is_free || others.count() < CHANNELS_PER_USER_MAX;
        self.refused += u64::from(!may);
        may
    }

    /// A file of a channel is opened.
    pub fn open(&mut self, channel: ChannelId, user: u32) {
        if let Some(follow) = self.channels.get_mut(&channel) {
            *follow.users.entry(user).or_default() += 1;
        }
    }

    /// It is closed.
    pub fn close(&mut self, channel: ChannelId, user: u32, now: Instant) {
        let Some(follow) = self.channels.get_mut(&channel) else { return };
        follow.until = Some(now + LEASE);
        if let Some(files) = follow.users.get_mut(&user) {
            *files -= 1;
            if *files == 0 {
                follow.users.remove(&user);
            }
        }
    }

    /// True for a channel with open files.
    pub fn is_open(&self, channel: ChannelId) -> bool {
        self.channels.get(&channel).is_some_and(|follow| !follow.users.is_empty())
    }

    /// A channel is defined again, or otherwise. True if it is followed: its rows mean something else from now on.
    pub fn renew(&mut self, channel: ChannelId, name: &ChannelName, effects: &mut Effects) -> bool {
        let Some(follow) = self.channels.get_mut(&channel) else { return false };
        (follow.refusal, follow.lanes) = (None, Lanes::default());
        let before = follow.number.take();
        follow.rows.go_on();
        follow.rows.push(|| line::event(&[("event", "defined")]), effects);
        self.unsubscribe(channel, before, effects);
        let number = self.subscribe(channel, name, effects);
        if let Some(follow) = self.channels.get_mut(&channel) {
            follow.number = Some(number);
        }
        true
    }

    /// A channel was removed. True if it was followed: the caller then tells its readers.
    pub fn end(&mut self, channel: ChannelId, effects: &mut Effects) -> bool {
        let Some(follow) = self.channels.get_mut(&channel) else { return false };
        follow.rows.push(|| line::event(&[("event", "removed")]), effects);
        follow.rows.end(effects);
        follow.lanes = Lanes::default();
        let (before, is_open) = (follow.number.take(), !follow.users.is_empty());
        self.unsubscribe(channel, before, effects);
        if !is_open {
            self.remove(channel, effects);
        }
        true
    }

    /// Ends channels that nobody has used for a while. Returns them.
    pub fn expire(&mut self, now: Instant, effects: &mut Effects) -> Vec<ChannelId> {
        let ended = self.channels.iter().filter(|(_, follow)| !follow.is_held(now));
        let ended: Vec<ChannelId> = ended.map(|(&channel, _)| channel).collect();
        ended.iter().for_each(|&channel| self.remove(channel, effects));
        ended
    }

    /// The lines of a channel that is followed.
    pub fn rows(&mut self, channel: ChannelId) -> Option<&mut Rows> {
        self.channels.get_mut(&channel).map(|follow| &mut follow.rows)
    }

    /// Why the hub sends nothing of a channel.
    pub fn refusal(&self, channel: ChannelId) -> Option<&str> {
        self.channels.get(&channel)?.refusal.as_deref()
    }

    /// The channel of a subscription.
    pub fn channel_of(&self, number: u32) -> Option<ChannelId> {
        self.by_number.get(&number).copied()
    }

    /// A lane of a channel has these columns from now on.
    pub fn columns(&mut self, channel: ChannelId, lane: u64, columns: ChannelLane) {
        if let Some(follow) = self.channels.get_mut(&channel) {
            follow.lanes.columns(lane, columns);
            self.by_lane.insert(lane, channel);
        }
    }

    /// A row: a line for each reader. Returns how many rows before it are known to be missing; `None`: the row is of no channel
    /// that is followed.
    pub fn row(&mut self, row: &ChannelRow<'_>, effects: &mut Effects) -> Option<u64> {
        let follow = self.channels.get_mut(self.by_lane.get(&row.lane)?)?;
        let (lane, missing) = follow.lanes.row(row)?;
        if missing != Missing::Nothing {
            follow.rows.push(|| line::missing(&lane.name, missing), effects);
        }
        follow.rows.push(|| line::row(lane, row), effects);
        Some(missing.rows().unwrap_or(0))
    }

    /// Nothing more comes in a lane.
    pub fn close_lane(&mut self, lane: u64) {
        if let Some(channel) = self.by_lane.remove(&lane)
            && let Some(follow) = self.channels.get_mut(&channel)
        {
            follow.lanes.close(lane);
        }
    }

    /// The hub refuses a channel, or nodes say something about it.
    pub fn notice(&mut self, channel: ChannelId, granted: bool, text: &str, effects: &mut Effects) {
        let Some(follow) = self.channels.get_mut(&channel) else { return };
        follow.refusal = (!granted).then(|| text.to_owned());
        let event = if granted { "notice" } else { "refused" };
        follow.rows.push(|| line::event(&[("event", event), ("text", text)]), effects);
    }

    /// A hub has accepted us, or is gone.
    pub fn connected(&mut self, up: bool, text: &str, effects: &mut Effects) {
        let state = if up { "connected" } else { "away" };
        for follow in self.channels.values_mut() {
            // Another hub may grant it.
            follow.refusal = None;
            follow.rows.push(|| line::event(&[("event", "hub"), ("state", state), ("text", text)]), effects);
        }
    }

    /// True when none is followed.
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// How many the upstream sends.
    pub fn count(&self) -> u64 {
        self.by_number.len() as u64
    }

    /// Opens that found no room.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Lines that readers have not got.
    pub fn dropped(&self) -> u64 {
        self.dropped + self.channels.values().map(|follow| follow.rows.dropped()).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: u32 = 1_000;

    struct Lab {
        followed: Followed,
        effects: Effects,
        now: Instant,
    }

    impl Lab {
        fn new() -> Self {
            Lab { followed: Followed::new(7), effects: Effects::default(), now: Instant::now() }
        }

        fn want(&mut self, channel: u16) -> Result<Option<ChannelId>, i32> {
            let name = ChannelName::new(&format!("c{channel}")).unwrap();
            self.followed.want(ChannelId(channel), &name, self.now, &mut self.effects)
        }
    }

    #[test]
    fn the_channel_that_was_not_used_for_longest_makes_room_and_open_ones_do_not() {
        let mut lab = Lab::new();
        for channel in 1..=CHANNEL_SUBSCRIPTIONS_MAX as u16 {
            assert_eq!(lab.want(channel), Ok(None));
            lab.now += std::time::Duration::from_millis(1);
        }
        lab.followed.open(ChannelId(1), USER);
        assert_eq!(lab.want(100), Ok(Some(ChannelId(2))), "channel 1 is open");
        assert_eq!(lab.followed.count(), CHANNEL_SUBSCRIPTIONS_MAX as u64);
        for channel in (3..=CHANNEL_SUBSCRIPTIONS_MAX as u16).chain([100]) {
            lab.followed.open(ChannelId(channel), USER);
        }
        assert_eq!((lab.want(101), lab.followed.refused()), (Err(libc::ENFILE), 1));
    }

    #[test]
    fn a_user_may_have_a_share_of_them_open_and_the_owner_all() {
        let mut lab = Lab::new();
        for channel in 1..=CHANNELS_PER_USER_MAX as u16 {
            lab.want(channel).unwrap();
            assert!(lab.followed.may_open(ChannelId(channel), USER));
            lab.followed.open(ChannelId(channel), USER);
        }
        let more = ChannelId(CHANNELS_PER_USER_MAX as u16 + 1);
        assert!(!lab.followed.may_open(more, USER) && lab.followed.refused() == 1);
        assert!(lab.followed.may_open(ChannelId(1), USER), "a file more of the same channel");
        assert!([7, ROOT, USER + 1].into_iter().all(|user| lab.followed.may_open(more, user)));
        lab.followed.close(ChannelId(1), USER, lab.now);
        assert!(lab.followed.may_open(more, USER));
    }

    #[test]
    fn a_channel_is_followed_until_its_last_file_was_closed_and_a_lease_longer() {
        let mut lab = Lab::new();
        lab.want(1).unwrap();
        lab.followed.open(ChannelId(1), USER);
        lab.effects.take_errands();
        assert!(lab.followed.expire(lab.now + LEASE * 9, &mut lab.effects).is_empty());
        lab.followed.close(ChannelId(1), USER, lab.now);
        assert!(lab.followed.expire(lab.now + LEASE / 2, &mut lab.effects).is_empty());
        assert_eq!(lab.followed.expire(lab.now + LEASE, &mut lab.effects), [ChannelId(1)]);
        assert_eq!(lab.effects.take_errands().commands, [Command::UnsubscribeChannel(1)]);
    }
}
