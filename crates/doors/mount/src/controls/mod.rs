//! Files below `.control`: what is in them, who may write what, and how long a line holds.
//!
//! | written by | and | the line holds |
//! |---|---|---|
//! | root or the mount's owner | closed at once | for the whole mount |
//! | anybody | held open | until the close; range and change only for the process that holds it |
//! | another user | closed at once | until the close; `.control/error` says so |

pub(crate) mod language;
pub(crate) mod settings;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use khz_model::Rate;
use khz_trust::{Door, Role, Way, standing};

use crate::answer::Answer;
use crate::controls::settings::{Filter, Owner, Place, Setting, Settings};
use crate::inode::{Class, Inode};
use crate::limits::{AT_ONCE, CONTROL_BYTES_MAX};

/// The settings of the mount and its open control files.
#[derive(Debug)]
pub(crate) struct Controls {
    rights: Rights,
    settings: Settings,
    /// The revision that open files follow.
    applied: u64,
    /// Open control files, by handle.
    open: HashMap<u64, Writer>,
    /// What is in `.control/error`.
    error: String,
    lines_refused: u64,
}

/// Which user may set which rates.
#[derive(Clone, Debug)]
pub(crate) struct Rights {
    /// The user who has mounted the tree. This user and root may set what holds for everybody, up to the ceiling.
    pub owner: u32,
    /// The fastest rate that the mount's role may ask for, and the role's name.
    pub ceiling: (Rate, String),
    /// The fastest rate that other users may ask for.
    pub others: Rate,
}

/// An open control file.
#[derive(Debug, Default)]
struct Writer {
    /// The process that has written: it reads back what it has set itself.
    process: Option<u32>,
    written: Option<Instant>,
    /// The last line removed the setting.
    cleared: bool,
    /// Its process has polled a value with it: the setting was never meant for others.
    has_served: bool,
}

/// A control file that is written or closed.
pub(crate) struct Target<'a> {
    pub handle: u64,
    pub inode: Inode,
    /// The user who has opened it.
    pub user: u32,
    /// Its path, for errors.
    pub path: &'a dyn Fn() -> String,
}

impl Rights {
    /// True for users whose lines may hold for everybody.
    fn may_set_for_all(&self, user: u32) -> bool {
        let way = match user {
            0 => Way::LocalRoot,
            user if user == self.owner => Way::LocalOwn,
            _ => Way::LocalOther,
        };
        standing(Door::Mount, way, None).may_be(Role::Operator)
    }

    /// The fastest rate that a user may ask for, and as what.
    fn ceiling(&self, user: u32) -> (Rate, &str) {
        match &self.ceiling {
            (ceiling, role) if self.may_set_for_all(user) => (*ceiling, role),
            _ => (self.others, "a user who has not mounted it"),
        }
    }
}

impl Controls {
    /// Nothing is set.
    pub fn new(rights: Rights) -> Self {
        Controls {
            rights,
            settings: Settings::default(),
            applied: 0,
            open: HashMap::new(),
            error: String::new(),
            lines_refused: 0,
        }
    }

    /// Somebody opened a control file.
    pub fn open(&mut self, handle: u64) {
        self.open.insert(handle, Writer::default());
    }

    /// What is in a control file, for a reader through `handle`.
    pub fn text(&self, inode: Inode, handle: Option<u64>) -> Vec<u8> {
        let process = handle.and_then(|handle| self.open.get(&handle)?.process);
        let setting = self.settings.at((inode.node, inode.path), inode.class, process);
        let none = if inode.class == Class::Rate { "default" } else { "off" };
        let text = setting.map_or_else(|| none.to_owned(), Setting::text);
        let text = text.strip_prefix("every ").unwrap_or(&text);
        format!("{text}\n").into_bytes()
    }

    /// Takes a line that a process writes. Returns its length.
    pub fn write(&mut self, target: &Target<'_>, bytes: &[u8], process: u32, now: Instant) -> Answer<usize> {
        let &Target { handle, inode, user, .. } = target;
        let setting = match self.setting(inode, bytes, user) {
            Ok(setting) => setting,
            Err((errno, problem)) => return self.refuse(target, errno, &problem),
        };
        let cleared = setting.is_none();
        let owner = Owner::Held { handle, process };
        if self.settings.set((inode.node, inode.path), owner, inode.class, setting).is_err() {
            let problem = "too many places have settings: write `default` to some of them";
            return self.refuse(target, libc::ENOSPC, problem);
        }
        let writer = Writer { process: Some(process), written: Some(now), cleared, has_served: false };
        self.open.insert(handle, writer);
        Answer::Ready(bytes.len())
    }

    /// What a line means at an inode; `None`: it removes the setting.
    fn setting(&self, inode: Inode, bytes: &[u8], user: u32) -> Result<Option<Setting>, (i32, String)> {
        let wrong = |problem| (libc::EINVAL, problem);
        if bytes.len() > CONTROL_BYTES_MAX {
            let problem = format!("a line has at most {CONTROL_BYTES_MAX} bytes, this one {}", bytes.len());
            return Err(wrong(problem));
        }
        Ok(match inode.class {
            Class::Range => {
                language::range(bytes).map_err(wrong)?.map(|range| Setting::Range(Arc::new(range)))
            }
            Class::Change => {
                language::change(bytes).map_err(wrong)?.map(|change| Setting::Change(Arc::new(change)))
            }
            _ => {
                let rate = language::rate(bytes).map_err(wrong)?;
                let (ceiling, role) = self.rights.ceiling(user);
                if let Some(rate) = rate.filter(|rate| rate.is_above(ceiling)) {
                    let problem =
                        format!("{rate} is beyond what this mount may ask for as {role}: {ceiling}");
                    return Err((libc::EPERM, problem));
                }
                rate.map(Setting::Rate)
            }
        })
    }

    fn refuse<T>(&mut self, target: &Target<'_>, errno: i32, problem: &str) -> Answer<T> {
        self.lines_refused += 1;
        self.error = format!("{}: {problem}\n", (target.path)());
        Answer::Fail(errno)
    }

    /// A control file is closed: its line ends, or holds for everybody from now on.
    pub fn close(&mut self, target: &Target<'_>, now: Instant) {
        let &Target { handle, inode, user, .. } = target;
        let Some(writer) = self.open.remove(&handle) else { return };
        let Some(written) = writer.written else { return };
        let at_once = now.saturating_duration_since(written) < AT_ONCE && !writer.has_served;
        let for_all = at_once && self.rights.may_set_for_all(user);
        let place = (inode.node, inode.path);
        if !self.settings.close(place, inode.class, handle, for_all) && for_all && writer.cleared {
            // Removing a setting needs no room.
            let _ = self.settings.set(place, Owner::Mount, inode.class, None);
        }
        if at_once && !for_all {
            // `close` has no errno that anybody checks: the reason has to do.
            let problem = match inode.class {
                Class::Rate => {
                    "only root and the user who mounted the tree can set a rate that stays; hold the file open: the rate \
                     holds until you close it"
                }
                _ => {
                    "only root and the user who mounted the tree can set this for everybody; hold the file open to set \
                     it for your own process"
                }
            };
            let _: Answer<()> = self.refuse(target, libc::EPERM, problem);
        }
    }

    /// A process polls a value: the settings that it holds open there are its own, even if it closes them at once.
    pub fn serve(&mut self, places: &[Place], process: u32) {
        for handle in self.settings.held_by(places, process) {
            if let Some(writer) = self.open.get_mut(&handle) {
                writer.has_served = true;
            }
        }
    }

    /// The filter of a file, for everybody or for a process. `places` begins with the file itself.
    pub fn filter(&self, places: &[Place], process: Option<u32>) -> Filter {
        self.settings.filter(places, process)
    }

    /// The nearest place with a rate, and the rate.
    pub fn rate(&self, places: &[Place]) -> Option<(Place, Rate)> {
        self.settings.rate(places)
    }

    /// True when open files do not follow the present settings.
    pub fn has_changed(&self) -> bool {
        self.applied != self.settings.revision()
    }

    /// The same, and from now on open files follow them.
    pub fn take_change(&mut self) -> bool {
        let has_changed = self.has_changed();
        self.applied = self.settings.revision();
        has_changed
    }

    /// Shows another problem in `.control/error`.
    pub fn note_error(&mut self, problem: &str) {
        self.error = format!("{problem}\n");
    }

    /// What went wrong last.
    pub fn error(&self) -> &str {
        &self.error
    }

    /// Places that have settings, and lines that were refused.
    pub fn counts(&self) -> (usize, u64) {
        (self.settings.count(), self.lines_refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::{NodeId, PathId};

    const OWNER: u32 = 1_000;
    const RATE: Inode = Inode { node: NodeId(1), class: Class::Rate, path: PathId(5) };

    fn controls() -> Controls {
        let (ceiling, others) = (Rate::from_hz(1_000).unwrap(), Rate::from_hz(100).unwrap());
        Controls::new(Rights { owner: OWNER, ceiling: (ceiling, "operator".to_owned()), others })
    }

    fn target(user: u32) -> Target<'static> {
        Target { handle: 1, inode: RATE, user, path: &|| "n1/.control/mem/rate".to_owned() }
    }

    /// Writes a line and closes the file after this time.
    fn echo(controls: &mut Controls, user: u32, line: &str, after: std::time::Duration) -> Answer<usize> {
        let now = Instant::now();
        controls.open(1);
        let written = controls.write(&target(user), line.as_bytes(), 77, now);
        controls.close(&target(user), now + after);
        written
    }

    #[test]
    fn a_line_that_its_owner_closes_at_once_holds_for_everybody() {
        let mut controls = controls();
        assert_eq!(echo(&mut controls, OWNER, "100Hz\n", AT_ONCE / 2), Answer::Ready(6));
        assert_eq!(controls.text(RATE, None), b"100Hz\n");
        echo(&mut controls, OWNER, "default\n", AT_ONCE / 2);
        assert_eq!((controls.text(RATE, None), controls.counts()), (b"default\n".to_vec(), (0, 0)));
    }

    #[test]
    fn a_line_of_another_user_or_one_that_was_held_ends_with_its_file() {
        let mut controls = controls();
        echo(&mut controls, OWNER, "100Hz\n", AT_ONCE * 2);
        assert_eq!((controls.text(RATE, None), controls.error()), (b"default\n".to_vec(), ""));
        echo(&mut controls, OWNER + 1, "100Hz\n", AT_ONCE / 2);
        assert_eq!(controls.text(RATE, None), b"default\n");
        assert!(controls.error().starts_with("n1/.control/mem/rate: only root"), "{}", controls.error());
    }

    #[test]
    fn a_rate_beyond_the_users_ceiling_is_refused_and_says_why() {
        let mut controls = controls();
        let after = AT_ONCE / 2;
        assert_eq!(echo(&mut controls, OWNER, "2000Hz", after), Answer::Fail(libc::EPERM));
        assert_eq!(echo(&mut controls, OWNER + 1, "200Hz", after), Answer::Fail(libc::EPERM));
        assert_eq!(echo(&mut controls, OWNER, "often", after), Answer::Fail(libc::EINVAL));
        assert_eq!(controls.counts(), (0, 3));
    }
}
