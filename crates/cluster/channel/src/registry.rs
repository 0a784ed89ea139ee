//! The list of channels of a hub: who made each, what it asks of nodes, which use others, and the budgets. Kept in a file where
//! there is a directory for it. Follows no rows.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

use khz_model::{Bell, Bells, Interest, Nanos, Notice, Rate, printable::printable, suggest};
use khz_promql::FindChannel;
use khz_trust::Role;

use crate::definition::Definition;
use crate::error::ChannelError;
use crate::file::{ChannelsFile, Found};
use crate::limits::{CHANNELS_MAX, CHANNELS_OF_READERS_MAX, DEFINITION_BYTES, KEPT_MAX};
use crate::notices::NodeNotices;

/// How the names of channels begin in which nodes judge rules (`khz_hub::RULES_PREFIX`).
const OF_RULES: &str = "khz_rules_";

/// A channel that a hub keeps.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What somebody wrote.
    pub definition: Definition,
    /// The role of who wrote it.
    pub maker: Role,
    /// What its readers subscribe with.
    pub interest: Interest,
}

/// All channels, by name.
type Channels = BTreeMap<String, Arc<Kept>>;

/// The channels of a hub.
#[derive(Debug)]
pub struct Registry {
    channels: Mutex<Arc<Channels>>,
    /// Grows with every change.
    revision: AtomicU64,
    /// The thread that is woken at each change.
    follower: OnceLock<Thread>,
    /// Rung at each change.
    bells: Bells,
    /// Held while something changes, so that a reader of the list never waits for the disk.
    file: Mutex<Option<ChannelsFile>>,
    /// How long the store keeps rows as they came; not set: there is no store.
    store: OnceLock<Nanos>,
    /// The names of the sinks; not set: there are none.
    sinks: OnceLock<Vec<String>>,
    /// The fastest rate that readers get; not set: any.
    ceiling: OnceLock<Rate>,
    /// What nodes have said to those that follow channels for the hub itself: its store, its sinks.
    noted: Mutex<BTreeMap<String, NodeNotices>>,
}

impl Kept {
    /// Checks a definition, and whether this role may make such a channel. `find` finds those that it may use.
    fn new(definition: Definition, maker: Role, find: &FindChannel<'_>) -> Result<Self, ChannelError> {
        if !maker.may_make_channels() {
            return Err(ChannelError::NoMaker(maker));
        }
        if definition.name.starts_with(OF_RULES) {
            let problem = format!("names that begin with {OF_RULES} are those of the hub's rules");
            return Err(ChannelError::field("name", problem));
        }
        let bytes = definition.to_json().len();
        if bytes > DEFINITION_BYTES {
            return Err(ChannelError::TooLong(bytes));
        }
        let interest = definition.interest_among(find)?;
        if !maker.may_read_at(interest.rate) {
            return Err(ChannelError::TooFast(interest.rate));
        }
        // The first two take room on the hub's disk.
        let of_operators = [
            ("keep", definition.keep.is_some()),
            ("to", !definition.to.is_empty()),
            // It runs on nodes, whatever it is.
            ("program", definition.program.is_some()),
        ];
        for (field, is_there) in of_operators {
            if is_there && maker == Role::Reader {
                return Err(ChannelError::ForOperators(field));
            }
        }
        Ok(Kept { definition, maker, interest })
    }

    /// The same after another channel has changed.
    fn again(&self, find: &FindChannel<'_>) -> Result<Self, ChannelError> {
        Kept::new(self.definition.clone(), self.maker, find)
    }
}

impl Registry {
    /// A registry without a file: its channels end with the program.
    pub fn in_memory() -> Self {
        Registry::of(Channels::new(), None)
    }

    fn of(channels: Channels, file: Option<ChannelsFile>) -> Self {
        let (revision, follower, store, sinks, ceiling) = Default::default();
        let (channels, file) = (Mutex::new(Arc::new(channels)), Mutex::new(file));
        let (bells, noted) = Default::default();
        Registry { channels, revision, follower, bells, file, store, sinks, ceiling, noted }
    }

    /// From now on each change unparks this thread. The first call counts.
    pub fn wake(&self, follower: Thread) {
        let _ = self.follower.set(follower);
    }

    /// From now on each change rings this bell, until its holder drops it.
    pub fn hear(&self, bell: &Arc<Bell>) {
        self.bells.hear(bell);
    }

    /// There is a store, which keeps rows as they came for this long. The first call counts.
    pub fn has_store(&self, keeps: Nanos) {
        let _ = self.store.set(keeps);
    }

    /// The registry of this directory, with the channels that were kept there. Also returns what is damaged in its file: a sentence
    /// for each line. The damaged file is put aside, and the other lines count.
    ///
    /// # Errors
    /// Returns why the directory cannot be used.
    pub fn open(directory: &Path) -> Result<(Self, Vec<String>), ChannelError> {
        let file = ChannelsFile::open(directory)?;
        let Found { entries, mut damage } = file.read()?;
        let mut channels = Channels::new();
        let all = entries.clone();
        let defined =
            |name: &str| all.iter().map(|(_, definition)| definition).find(|known| known.name == name);
        for (maker, definition) in entries {
            let name = definition.name.clone();
            match Kept::new(definition, maker, &|name| expression(name, defined(name))) {
                Ok(kept) if channels.len() < CHANNELS_MAX => drop(channels.insert(name, Arc::new(kept))),
                Ok(_) => damage.push(format!("channel '{name}': {}", ChannelError::Full)),
                Err(error) => damage.push(format!("channel '{name}': {error}")),
            }
        }
        if !damage.is_empty() {
            damage.push(format!("the file is put aside as {}", file.put_aside(&channels)?.display()));
        }
        Ok((Registry::of(channels, Some(file)), damage))
    }

    /// There are sinks of these names. The first call counts.
    pub fn has_sinks(&self, names: Vec<String>) {
        let _ = self.sinks.set(names);
    }

    /// Nobody gets rows faster than this (`rate_max`). The first call counts.
    pub fn has_ceiling(&self, ceiling: Rate) {
        let _ = self.ceiling.set(ceiling);
    }

    /// Whether the channels survive the end of the program.
    pub fn is_kept(&self) -> bool {
        self.file().is_some()
    }

    /// Every channel, in the order of names.
    pub fn list(&self) -> Vec<Arc<Kept>> {
        self.channels().values().cloned().collect()
    }

    /// The channel of this name.
    ///
    /// # Errors
    /// Returns [`ChannelError::Unknown`], with a name that is near.
    pub fn get(&self, name: &str) -> Result<Arc<Kept>, ChannelError> {
        let channels = self.channels();
        channels.get(name).cloned().ok_or_else(|| unknown(name, &channels))
    }

    /// The expression of a channel, for another one that uses it; or why it cannot be used.
    ///
    /// # Errors
    /// Returns that there is no such channel, or that it has no expression.
    pub fn expression(&self, name: &str) -> Result<String, String> {
        of_channels(&self.channels(), name)
    }

    /// Grows with every change: who follows a channel looks again when it has.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Adds a channel. One that is equal to what there is, changes nothing. Waits for the disk.
    ///
    /// # Errors
    /// Returns what is wrong with it, that there is another one of its name, or which limit is reached.
    pub fn create(&self, definition: Definition, maker: Role) -> Result<Arc<Kept>, ChannelError> {
        let file = self.file();
        let channels = self.channels();
        let kept = Kept::new(definition, maker, &|name| of_channels(&channels, name))?;
        match channels.get(&kept.definition.name) {
            Some(there) if there.definition == kept.definition => return Ok(there.clone()),
            Some(_) => return Err(ChannelError::Exists(kept.definition.name)),
            None => {}
        }
        self.put(&file, &channels, kept)
    }

    /// Replaces the channel of this name, or adds it. Waits for the disk.
    ///
    /// # Errors
    /// Returns what is wrong with it, that this role may not change it, or which limit is reached.
    pub fn set(&self, definition: Definition, maker: Role) -> Result<Arc<Kept>, ChannelError> {
        self.set_if(definition, maker, |_, _| Ok(()))
    }

    /// Replaces the channel of this name. Waits for the disk.
    ///
    /// # Errors
    /// As for [`Registry::set`]; also that there is none, with a name that is near.
    pub fn replace(&self, definition: Definition, maker: Role) -> Result<Arc<Kept>, ChannelError> {
        self.set_if(definition, maker, |name, channels| match channels.contains_key(name) {
            true => Ok(()),
            false => Err(unknown(name, channels)),
        })
    }

    fn set_if(
        &self,
        definition: Definition,
        maker: Role,
        check: impl Fn(&str, &Channels) -> Result<(), ChannelError>,
    ) -> Result<Arc<Kept>, ChannelError> {
        let file = self.file();
        let channels = self.channels();
        check(&definition.name, &channels)?;
        let kept = Kept::new(definition, maker, &|name| of_channels(&channels, name))?;
        if let Some(there) = channels.get(&kept.definition.name) {
            check_may_change(there, maker)?;
        }
        self.put(&file, &channels, kept)
    }

    /// Removes a channel, with those that use it and whose makers could not change it: they cannot hold it either. Waits for the disk.
    ///
    /// # Errors
    /// Returns that there is none, or that this role may not remove it.
    pub fn remove(&self, name: &str, role: Role) -> Result<(), ChannelError> {
        let file = self.file();
        let channels = self.channels();
        let there = channels.get(name).ok_or_else(|| unknown(name, &channels))?;
        check_may_change(there, role)?;
        let all = users_of(name, &channels);
        let holds = |user: &&String| {
            channels.get(*user).is_some_and(|user| user.maker.may_change_channel_of(there.maker))
        };
        let users: Vec<&str> = all.iter().filter(holds).map(String::as_str).collect();
        if !users.is_empty() {
            return Err(ChannelError::Used(name.to_owned(), users.join(", ")));
        }
        let mut left = (*channels).clone();
        left.retain(|other, _| other != name && !all.contains(other));
        self.change(&file, left)
    }

    fn put(
        &self,
        file: &Option<ChannelsFile>,
        channels: &Channels,
        kept: Kept,
    ) -> Result<Arc<Kept>, ChannelError> {
        let others = || channels.values().filter(|other| other.definition.name != kept.definition.name);
        if others().count() >= CHANNELS_MAX {
            return Err(ChannelError::Full);
        }
        let of_readers = others().filter(|other| other.maker == Role::Reader).count();
        if kept.maker == Role::Reader && of_readers >= CHANNELS_OF_READERS_MAX {
            return Err(ChannelError::ReadersFull);
        }
        self.check_keep(&kept, others().filter(|other| other.definition.keep.is_some()).count())?;
        self.check_sinks(&kept.definition)?;
        self.check_rate(kept.interest.rate)?;
        let kept = Arc::new(kept);
        let mut changed = channels.clone();
        changed.insert(kept.definition.name.clone(), kept.clone());
        let changed = with_users(changed, &kept)?;
        self.change(file, changed)?;
        Ok(kept)
    }

    /// Whether the store can keep the rows of a channel beside those of this many others.
    fn check_keep(&self, kept: &Kept, others: usize) -> Result<(), ChannelError> {
        let Some(keep) = kept.definition.keep_time()? else { return Ok(()) };
        let Some(&most) = self.store.get() else {
            let problem = "this khz has no store: a hub has one (`khz hub --store`)";
            return Err(ChannelError::field("keep", problem));
        };
        if keep > most {
            let (most, keep) = (in_days(most), in_days(keep));
            let problem = format!(
                "the store keeps rows for {most}, and this is {keep}: ask for less, or raise the hub's setting store_raw"
            );
            return Err(ChannelError::field("keep", problem));
        }
        if others >= KEPT_MAX {
            return Err(ChannelError::KeptFull);
        }
        Ok(())
    }

    /// Whether there are such sinks.
    fn check_sinks(&self, definition: &Definition) -> Result<(), ChannelError> {
        let known = self.sinks.get().map_or(&[][..], Vec::as_slice);
        let Some(unknown) = definition.to.iter().find(|name| !known.contains(name)) else { return Ok(()) };
        let there = match known {
            [] => "this khz has none: a hub has those of its configuration, [sinks.NAME]".to_owned(),
            known => format!("there are {}", known.join(", ")),
        };
        Err(ChannelError::field("to", format!("there is no sink '{}'; {there}", printable(unknown))))
    }

    fn check_rate(&self, rate: Rate) -> Result<(), ChannelError> {
        match self.ceiling.get().filter(|ceiling| rate.is_above(**ceiling)) {
            Some(ceiling) => {
                let problem =
                    format!("{rate} is above this khz's ceiling of {ceiling} (its setting rate_max)");
                Err(ChannelError::field("rate", problem))
            }
            None => Ok(()),
        }
    }

    /// Writes the file first: what is answered as done survives.
    fn change(&self, file: &Option<ChannelsFile>, channels: Channels) -> Result<(), ChannelError> {
        if let Some(file) = file {
            file.write(&channels)?;
        }
        let channels = Arc::new(channels);
        let before = std::mem::replace(
            &mut *self.channels.lock().unwrap_or_else(PoisonError::into_inner),
            channels.clone(),
        );
        // What nodes said of another definition does not hold.
        let is_same = |name: &String| match (before.get(name), channels.get(name)) {
            (Some(before), Some(now)) => before.interest == now.interest,
            _ => false,
        };
        self.noted().retain(|name, _| is_same(name));
        self.revision.fetch_add(1, Ordering::Release);
        if let Some(follower) = self.follower.get() {
            follower.unpark();
        }
        self.bells.ring();
        Ok(())
    }

    fn channels(&self) -> Arc<Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A node has said something of a channel that the hub follows itself.
    pub fn note(&self, channel: &str, notice: &Notice) {
        if self.channels().contains_key(channel) {
            self.noted().entry(channel.to_owned()).or_default().take(notice);
        }
    }

    /// What nodes have said of it.
    pub fn noted_of(&self, channel: &str) -> NodeNotices {
        self.noted().get(channel).cloned().unwrap_or_default()
    }

    fn noted(&self) -> MutexGuard<'_, BTreeMap<String, NodeNotices>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self) -> MutexGuard<'_, Option<ChannelsFile>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The expression of the channel of this name.
fn of_channels(channels: &Channels, name: &str) -> Result<String, String> {
    match channels.get(name) {
        Some(kept) => expression(name, Some(&kept.definition)),
        None => Err(unknown(name, channels).to_string()),
    }
}

fn expression(name: &str, definition: Option<&Definition>) -> Result<String, String> {
    let definition = definition.ok_or_else(|| unknown(name, &Channels::new()).to_string())?;
    let none = || format!("channel '{name}' has no 'expr': only what a channel computes can be used");
    definition.expr.clone().ok_or_else(none)
}

/// The channels that use this one, directly or through others.
fn users_of(name: &str, channels: &Channels) -> Vec<String> {
    let uses = |kept: &Kept| {
        let is_met = AtomicBool::new(false);
        let find = |found: &str| {
            is_met.fetch_or(found == name, Ordering::Relaxed);
            of_channels(channels, found)
        };
        // What is wrong with it, if anything is, does not matter here.
        let _ = kept.definition.interest_among(&find);
        is_met.into_inner()
    };
    let others = channels.iter().filter(|(other, _)| *other != name);
    others.filter(|(_, kept)| uses(kept)).map(|(name, _)| name.clone()).collect()
}

/// The same channels, with those that use this one compiled again. What an operator's channels compute, and what the store keeps of
/// it, is not a reader's to change; a reader's channel that an operator's change makes wrong goes.
fn with_users(mut channels: Channels, changed: &Kept) -> Result<Channels, ChannelError> {
    let name = &changed.definition.name;
    let users = users_of(name, &channels);
    let is_protected = |user: &&String| {
        channels.get(*user).is_some_and(|user| !changed.maker.may_change_channel_of(user.maker))
    };
    let protected: Vec<&str> = users.iter().filter(is_protected).map(String::as_str).collect();
    if !protected.is_empty() {
        return Err(ChannelError::UsedByOperator(name.clone(), protected.join(", ")));
    }
    for user in users {
        let Some(kept) = channels.get(&user) else { continue };
        match kept.again(&|name| of_channels(&channels, name)) {
            Ok(again) => drop(channels.insert(user, Arc::new(again))),
            // Who could not change the channel cannot keep its maker from doing so.
            Err(_) if !kept.maker.may_change_channel_of(changed.maker) => drop(channels.remove(&user)),
            Err(error) => return Err(ChannelError::Breaks(user, Box::new(error))),
        }
    }
    Ok(channels)
}

fn check_may_change(there: &Kept, role: Role) -> Result<(), ChannelError> {
    match role.may_change_channel_of(there.maker) {
        true => Ok(()),
        false => Err(ChannelError::OfOperator(there.definition.name.clone())),
    }
}

fn unknown(name: &str, channels: &Channels) -> ChannelError {
    let near = suggest::nearest(name, channels.keys().map(String::as_str)).map(str::to_owned);
    ChannelError::Unknown(name.chars().take(khz_model::channel::CHANNEL_NAME_MAX).collect(), near)
}

/// A time as people write it who keep rows: in days or hours if it is a number of them.
fn in_days(time: Nanos) -> String {
    let units = [(86_400, "d"), (3_600, "h")].map(|(seconds, unit)| (Nanos::from_secs(seconds).0, unit));
    match units.into_iter().find(|(step, _)| time.0.is_multiple_of(*step)) {
        Some((step, unit)) => format!("{}{unit}", time.0 / step),
        None => time.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn named(name: &str, rate: &str) -> Definition {
        let (expr, rate) = (Some("node_load1 > 2".into()), Some(rate.into()));
        Definition { name: name.into(), expr, rate, ..Definition::default() }
    }

    fn names(registry: &Registry) -> Vec<String> {
        registry.list().iter().map(|kept| kept.definition.name.clone()).collect()
    }

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("khz-channels-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            Place(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn two_channels_of_one_name_are_refused_unless_they_are_equal() {
        let registry = Registry::in_memory();
        registry.create(named("hot", "1Hz"), Role::Reader).unwrap();
        let revision = registry.revision();
        let rung = Arc::new(AtomicU64::new(0));
        let counted = rung.clone();
        let bell = Arc::new(Arc::new(move || _ = counted.fetch_add(1, Ordering::Relaxed)) as Bell);
        registry.hear(&bell);
        registry.create(named("hot", "1Hz"), Role::Operator).unwrap();
        assert_eq!(registry.revision(), revision, "nothing has changed");
        let other = registry.create(named("hot", "2Hz"), Role::Operator).unwrap_err();
        assert!(other.to_string().contains("another channel 'hot' already; `khz channel set`"), "{other}");
        registry.set(named("hot", "2Hz"), Role::Reader).unwrap();
        assert_ne!(registry.revision(), revision);
        assert_eq!(rung.load(Ordering::Relaxed), 1, "who follows one hears of each change");
        assert_eq!(registry.get("hot").unwrap().interest.rate.to_string(), "2Hz");
        let unknown = registry.get("hut").unwrap_err().to_string();
        assert_eq!(unknown, "there is no channel 'hut' (did you mean 'hot'?)");
        registry.replace(named("hot", "3Hz"), Role::Reader).unwrap();
        assert_eq!(registry.replace(named("hut", "1Hz"), Role::Reader).unwrap_err().to_string(), unknown);
        assert_eq!(registry.list().len(), 1);
    }

    #[test]
    fn readers_have_their_own_budget_and_rates_and_leave_what_operators_made() {
        let registry = Registry::in_memory();
        let fast = registry.create(named("fast", "1kHz"), Role::Reader).unwrap_err();
        assert!(fast.to_string().starts_with("rate: 1000Hz is for operators"), "{fast}");
        registry.create(named("fast", "1kHz"), Role::Operator).unwrap();
        for change in [
            registry.remove("fast", Role::Reader),
            registry.set(named("fast", "1Hz"), Role::Reader).map(drop),
        ] {
            assert!(matches!(change, Err(ChannelError::OfOperator(_))));
        }
        for role in [Role::Node, Role::Hub] {
            assert!(matches!(registry.create(named("x", "1Hz"), role), Err(ChannelError::NoMaker(_))));
        }
        for n in 0..CHANNELS_OF_READERS_MAX {
            registry.create(named(&format!("r{n}"), "1Hz"), Role::Reader).unwrap();
        }
        let full = registry.create(named("more", "1Hz"), Role::Reader).unwrap_err();
        assert!(matches!(full, ChannelError::ReadersFull));
        registry.set(named("r0", "2Hz"), Role::Reader).unwrap();
        for n in registry.list().len()..CHANNELS_MAX {
            registry.create(named(&format!("o{n}"), "1Hz"), Role::Operator).unwrap();
        }
        let full = registry.create(named("more", "1Hz"), Role::Operator).unwrap_err();
        assert!(matches!(full, ChannelError::Full));
        registry.remove("r0", Role::Operator).unwrap();
        registry.create(named("more", "1Hz"), Role::Operator).unwrap();
    }

    fn of_expr(name: &str, expr: &str) -> Definition {
        Definition { name: name.into(), expr: Some(expr.into()), ..Definition::default() }
    }

    #[test]
    fn a_channel_that_uses_another_follows_its_changes_and_keeps_it_from_being_removed_or_broken() {
        let place = Place::new("uses");
        let (registry, _) = Registry::open(&place.0).unwrap();
        let unknown = registry.create(of_expr("b", "{\"channel.a\"} > 1"), Role::Reader).unwrap_err();
        assert!(unknown.to_string().starts_with("expr: there is no channel 'a' (1:1)"), "{unknown}");
        // In the file a channel may stand before the one that it uses.
        registry.create(of_expr("z", "node_load1"), Role::Reader).unwrap();
        registry.create(of_expr("m", "{\"channel.z\"} / 2"), Role::Reader).unwrap();
        registry.create(of_expr("b", "{\"channel.m\"} > 1"), Role::Reader).unwrap();
        let terms = |name: &str| registry.get(name).unwrap().interest.channel.clone();
        let before = (terms("b"), terms("m"), registry.revision());
        registry.set(of_expr("z", "node_load5"), Role::Reader).unwrap();
        assert!(before.0 != terms("b") && before.1 != terms("m") && before.2 != registry.revision());
        let used = registry.remove("z", Role::Operator).unwrap_err().to_string();
        assert_eq!(used, "channel 'z' is used by b, m: change or remove these first");
        let circle = registry.set(of_expr("z", "{\"channel.b\"}"), Role::Reader).unwrap_err().to_string();
        assert!(circle.contains("cannot use itself: z -> b -> m -> z"), "{circle}");
        let readings = Definition { series: vec!["load.1m".into()], expr: None, ..of_expr("z", "") };
        let broken = registry.set(readings, Role::Reader).unwrap_err().to_string();
        assert!(broken.starts_with("channel 'b' uses it, and would be wrong then: expr: "), "{broken}");
        assert!(broken.contains("channel 'z' has no 'expr'"), "{broken}");
        let now = terms("b");
        drop(registry);
        let (registry, damage) = Registry::open(&place.0).unwrap();
        assert_eq!((names(&registry), damage), (vec!["b".into(), "m".into(), "z".into()], vec![]));
        assert!(registry.get("b").unwrap().interest.channel == now);
    }

    #[test]
    fn a_reader_does_not_change_what_an_operators_channel_computes() {
        let registry = Registry::in_memory();
        registry.create(of_expr("z", "node_load1"), Role::Reader).unwrap();
        registry.create(of_expr("m", "{\"channel.z\"} / 2"), Role::Reader).unwrap();
        registry.set(of_expr("z", "node_load5"), Role::Reader).unwrap();
        registry.create(of_expr("b", "{\"channel.m\"} > 1"), Role::Operator).unwrap();
        for name in ["z", "m"] {
            let refused = registry.set(of_expr(name, "node_load15"), Role::Reader).unwrap_err().to_string();
            let why = "is used by an operator's (b): a reader cannot change it";
            assert_eq!(refused, format!("channel '{name}' {why}"));
            registry.set(of_expr(name, "node_load15"), Role::Operator).unwrap();
        }
        registry.remove("b", Role::Operator).unwrap();
        // The operator's change has made it an operator's.
        assert!(registry.set(of_expr("z", "node_load1"), Role::Reader).is_err());
    }

    #[test]
    fn readers_do_not_hold_an_operators_channel_by_using_it() {
        let with = |others: &[&str]| {
            let registry = Registry::in_memory();
            registry.create(of_expr("op", "node_load1"), Role::Operator).unwrap();
            for (name, role) in [("r", Role::Reader), ("s", Role::Reader), ("o", Role::Operator)] {
                let used = if name == "s" { "r" } else { "op" };
                if others.contains(&name) {
                    registry.create(of_expr(name, &format!("{{\"channel.{used}\"}} * 2")), role).unwrap();
                }
            }
            registry
        };
        let readings = || Definition { series: vec!["load.1m".into()], expr: None, ..of_expr("op", "") };
        // They follow a change that they can follow.
        let registry = with(&["r", "s"]);
        registry.set(of_expr("op", "node_load5"), Role::Operator).unwrap();
        assert_eq!(names(&registry), ["op", "r", "s"]);
        registry.set(readings(), Role::Operator).unwrap();
        assert_eq!(names(&registry), ["op"]);
        let registry = with(&["r", "s"]);
        assert!(registry.remove("op", Role::Reader).is_err());
        registry.remove("op", Role::Operator).unwrap();
        assert!(names(&registry).is_empty());
        // Operators hold each other's.
        let registry = with(&["o", "r", "s"]);
        let used = registry.remove("op", Role::Operator).unwrap_err().to_string();
        assert_eq!(used, "channel 'op' is used by o: change or remove these first");
        let broken = registry.set(readings(), Role::Operator).unwrap_err().to_string();
        assert!(broken.starts_with("channel 'o' uses it"), "{broken}");
        assert_eq!(names(&registry), ["o", "op", "r", "s"]);
    }

    #[test]
    fn only_operators_keep_rows_and_only_where_a_store_keeps_them_that_long() {
        let kept =
            |name: &str, keep: &str| Definition { keep: Some(keep.into()), ..of_expr(name, "node_load1") };
        let registry = Registry::in_memory();
        let none = registry.create(kept("a", "7d"), Role::Operator).unwrap_err().to_string();
        assert!(none.starts_with("keep: this khz has no store"), "{none}");
        registry.has_store(Nanos::from_secs(21 * 86_400));
        let reader = registry.create(kept("a", "7d"), Role::Reader).unwrap_err();
        assert!(matches!(reader, ChannelError::ForOperators("keep")));
        let long = registry.create(kept("a", "22d"), Role::Operator).unwrap_err().to_string();
        assert!(long.contains("keep: the store keeps rows for 21d, and this is 22d: ask for less"), "{long}");
        let longer = registry.create(kept("a", "505h"), Role::Operator).unwrap_err().to_string();
        assert!(longer.contains("and this is 505h: "), "{longer}");
        for n in 0..KEPT_MAX {
            registry.create(kept(&format!("k{n}"), "21d"), Role::Operator).unwrap();
        }
        let full = registry.create(kept("more", "1d"), Role::Operator).unwrap_err();
        assert!(matches!(full, ChannelError::KeptFull));
        registry.set(kept("k0", "1d"), Role::Operator).unwrap();
    }

    #[test]
    fn a_channel_names_sinks_that_there_are_and_readers_name_none() {
        let to = |sink: &str| Definition { to: vec![sink.into()], ..of_expr("a", "node_load1") };
        let registry = Registry::in_memory();
        let none = registry.create(to("hot"), Role::Operator).unwrap_err().to_string();
        assert!(none.starts_with("to: there is no sink 'hot'; this khz has none"), "{none}");
        registry.has_sinks(vec!["hot".into(), "long".into()]);
        let unknown = registry.create(to("/etc/passwd"), Role::Operator).unwrap_err().to_string();
        assert_eq!(unknown, "to: there is no sink '/etc/passwd'; there are hot, long");
        let reader = registry.create(to("hot"), Role::Reader).unwrap_err();
        assert!(matches!(reader, ChannelError::ForOperators("to")));
        registry.create(to("hot"), Role::Operator).unwrap();
    }

    #[test]
    fn a_channel_above_the_ceiling_is_refused_when_it_is_made_and_not_only_when_it_is_read() {
        let registry = Registry::in_memory();
        registry.has_ceiling(Rate::from_hz(200).unwrap());
        registry.create(named("a", "200Hz"), Role::Operator).unwrap();
        let refused = registry.create(named("b", "201Hz"), Role::Operator).unwrap_err().to_string();
        assert!(refused.starts_with("rate: 201Hz is above this khz's ceiling of 200Hz"), "{refused}");
        assert!(registry.set(named("a", "1kHz"), Role::Operator).is_err());
    }

    #[test]
    fn a_definition_that_is_too_long_is_refused() {
        let expr = Some(format!("node_load1{}", " ".repeat(DEFINITION_BYTES)));
        let long = Definition { name: "long".into(), expr, ..Definition::default() };
        assert!(matches!(Registry::in_memory().create(long, Role::Operator), Err(ChannelError::TooLong(_))));
    }

    #[test]
    fn what_was_created_is_there_after_a_restart_and_what_was_removed_is_not() {
        let place = Place::new("restart");
        let (registry, damage) = Registry::open(&place.0).unwrap();
        assert!(damage.is_empty() && registry.is_kept());
        for name in ["b", "a", "c"] {
            registry.create(named(name, "1Hz"), Role::Reader).unwrap();
        }
        registry.remove("c", Role::Reader).unwrap();
        registry.set(named("b", "5Hz"), Role::Operator).unwrap();
        assert!(matches!(Registry::open(&place.0), Err(ChannelError::Shared(_))));
        drop(registry);
        let (registry, damage) = Registry::open(&place.0).unwrap();
        assert_eq!((names(&registry), damage), (vec!["a".to_owned(), "b".to_owned()], vec![]));
        let changed = registry.get("b").unwrap();
        assert_eq!((changed.maker, changed.interest.rate.to_string()), (Role::Operator, "5Hz".to_owned()));
    }

    #[test]
    fn a_damaged_file_is_put_aside_and_told_and_its_whole_lines_count() {
        let place = Place::new("damaged");
        let (registry, _) = Registry::open(&place.0).unwrap();
        for name in ["a", "b", "c"] {
            registry.create(named(name, "1Hz"), Role::Reader).unwrap();
        }
        drop(registry);
        let path = place.0.join("channels.jsonl");
        let whole = std::fs::read_to_string(&path).unwrap();
        for (text, kept, told) in [
            (whole.replace("\"name\":\"b\"", "\"name\":\"B\""), 2, "channel 'B': name: "),
            (whole[..whole.len() - 20].to_owned(), 2, "channels.jsonl:4: "),
            (whole.replace("\"khz_channels\":1", "\"khz_channels\":7"), 0, "version 7"),
            (whole.lines().take(2).map(|line| format!("{line}\n")).collect(), 1, "says that it holds 3"),
            ("\0\0\0".to_owned(), 0, "channels.jsonl:1: "),
            (whole.replacen("\"maker\":\"reader\"", "\"maker\":\"king\"", 1), 2, "'king' is not a role"),
        ] {
            std::fs::write(&path, &text).unwrap();
            let (registry, damage) = Registry::open(&place.0).unwrap();
            assert!(damage.join("\n").contains(told), "{damage:?}");
            assert!(damage.last().unwrap().contains("channels.jsonl.damaged"), "{damage:?}");
            assert_eq!(registry.list().len(), kept, "{text}");
            assert_eq!(std::fs::read_to_string(place.0.join("channels.jsonl.damaged")).unwrap(), text);
            drop(registry);
            let (registry, damage) = Registry::open(&place.0).unwrap();
            assert_eq!((registry.list().len(), damage), (kept, vec![]), "what is left is whole again");
        }
    }

    #[test]
    fn what_cannot_be_written_is_not_done() {
        let place = Place::new("unwritable");
        let (registry, _) = Registry::open(&place.0).unwrap();
        registry.create(named("a", "1Hz"), Role::Reader).unwrap();
        // A directory in the way: also root cannot write there.
        std::fs::create_dir(place.0.join("channels.jsonl.new")).unwrap();
        let failed = registry.create(named("b", "1Hz"), Role::Reader).unwrap_err();
        assert!(failed.to_string().starts_with("cannot write "), "{failed}");
        assert!(registry.remove("a", Role::Reader).is_err());
        assert_eq!(names(&registry), ["a"]);
    }
}
