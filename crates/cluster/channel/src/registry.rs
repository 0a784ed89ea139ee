//! The list of channels of a hub: who made each, what it asks of nodes, and the budgets. Kept in a file where there is a directory
//! for it. Follows no rows.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use khz_model::{Interest, suggest};
use khz_trust::Role;

use crate::definition::Definition;
use crate::error::ChannelError;
use crate::file::{ChannelsFile, Found};
use crate::limits::{CHANNELS_MAX, CHANNELS_OF_READERS_MAX, DEFINITION_BYTES};

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
    /// Held while something changes, so that a reader of the list never waits for the disk.
    file: Mutex<Option<ChannelsFile>>,
}

impl Kept {
    /// Checks a definition, and whether this role may make such a channel.
    fn new(definition: Definition, maker: Role) -> Result<Self, ChannelError> {
        if !maker.may_make_channels() {
            return Err(ChannelError::NoMaker(maker));
        }
        let bytes = definition.to_json().len();
        if bytes > DEFINITION_BYTES {
            return Err(ChannelError::TooLong(bytes));
        }
        let interest = definition.interest()?;
        if !maker.may_read_at(interest.rate) {
            return Err(ChannelError::TooFast(interest.rate));
        }
        Ok(Kept { definition, maker, interest })
    }
}

impl Registry {
    /// A registry without a file: its channels end with the program.
    pub fn in_memory() -> Self {
        Registry { channels: Mutex::default(), revision: AtomicU64::new(0), file: Mutex::new(None) }
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
        for (maker, definition) in entries {
            let name = definition.name.clone();
            match Kept::new(definition, maker) {
                Ok(kept) if channels.len() < CHANNELS_MAX => drop(channels.insert(name, Arc::new(kept))),
                Ok(_) => damage.push(format!("channel '{name}': {}", ChannelError::Full)),
                Err(error) => damage.push(format!("channel '{name}': {error}")),
            }
        }
        if !damage.is_empty() {
            damage.push(format!("the file is put aside as {}", file.put_aside()?.display()));
            file.write(&channels)?;
        }
        let channels = Mutex::new(Arc::new(channels));
        Ok((Registry { channels, revision: AtomicU64::new(0), file: Mutex::new(Some(file)) }, damage))
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

    /// Grows with every change: who follows a channel looks again when it has.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Adds a channel. One that is equal to what there is, changes nothing. Waits for the disk.
    ///
    /// # Errors
    /// Returns what is wrong with it, that there is another one of its name, or which limit is reached.
    pub fn create(&self, definition: Definition, maker: Role) -> Result<Arc<Kept>, ChannelError> {
        let kept = Kept::new(definition, maker)?;
        let file = self.file();
        let channels = self.channels();
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
        let kept = Kept::new(definition, maker)?;
        let file = self.file();
        let channels = self.channels();
        if let Some(there) = channels.get(&kept.definition.name) {
            check_may_change(there, maker)?;
        }
        self.put(&file, &channels, kept)
    }

    /// Removes a channel. Waits for the disk.
    ///
    /// # Errors
    /// Returns that there is none, or that this role may not remove it.
    pub fn remove(&self, name: &str, role: Role) -> Result<(), ChannelError> {
        let file = self.file();
        let channels = self.channels();
        check_may_change(channels.get(name).ok_or_else(|| unknown(name, &channels))?, role)?;
        let mut left = (*channels).clone();
        left.remove(name);
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
        let kept = Arc::new(kept);
        let mut changed = channels.clone();
        changed.insert(kept.definition.name.clone(), kept.clone());
        self.change(file, changed)?;
        Ok(kept)
    }

    /// Writes the file first: what is answered as done survives.
    fn change(&self, file: &Option<ChannelsFile>, channels: Channels) -> Result<(), ChannelError> {
        if let Some(file) = file {
            file.write(&channels)?;
        }
        *self.channels.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(channels);
        self.revision.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn channels(&self) -> Arc<Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn file(&self) -> MutexGuard<'_, Option<ChannelsFile>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        registry.create(named("hot", "1Hz"), Role::Operator).unwrap();
        assert_eq!(registry.revision(), revision, "nothing has changed");
        let other = registry.create(named("hot", "2Hz"), Role::Operator).unwrap_err();
        assert!(other.to_string().contains("another channel 'hot' already; `khz channel set`"), "{other}");
        registry.set(named("hot", "2Hz"), Role::Reader).unwrap();
        assert_ne!(registry.revision(), revision);
        assert_eq!(registry.get("hot").unwrap().interest.rate.to_string(), "2Hz");
        let unknown = registry.get("hut").unwrap_err().to_string();
        assert_eq!(unknown, "there is no channel 'hut' (did you mean 'hot'?)");
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
