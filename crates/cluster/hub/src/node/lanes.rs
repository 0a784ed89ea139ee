//! The lanes of one node: the lanes that it offers now, former epochs kept for their history, the numbers of lanes on the present
//! connection, and the counts of all lanes. It sends nothing: it returns commands, which the caller sends to the node.

use khz_model::{Nanos, Stamp};

use super::counted::Counted;
use crate::clock;
use crate::lane::Lane;
use crate::limits::LANES_MAX;
use crate::mailbox::Command;
use crate::schemas::Schema;

/// The lane that every node sends always.
pub(crate) const BASE: &str = "base";

/// How many former epochs of lanes are kept: for their history, and until readers of every row have them. A base lane that comes first
/// through a hub below and then from the node itself has two epochs, so this covers at least four starts.
const FORMER_LANES_MAX: usize = 8;

/// All lanes of one node.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    present: Vec<Lane>,
    /// Lanes of former epochs. Readers fetch what they do not have yet.
    former: Vec<Lane>,
    /// Lanes of the present connection: their numbers there, and their ids here.
    numbers: Vec<(u32, u64)>,
    /// The counts of lanes that are gone: a node's counters never fall.
    gone: Counted,
    /// Lanes made so far; the ids count from 1.
    made: u64,
}

/// True for a lane that has ended and that no reader follows: another one may take its place.
fn is_replaceable(lane: &Lane) -> bool {
    !lane.alive && lane.readers == 0 && lane.name != BASE
}

/// Finding a lane.
impl Lanes {
    /// The lane with this id, if its epoch is the present one.
    pub fn get(&self, id: u64) -> Option<&Lane> {
        self.present.iter().find(|lane| lane.id == id)
    }

    /// The same, but it also finds a lane of a former epoch: readers may not have fetched all its
    /// rows.
    pub fn get_or_former(&self, id: u64) -> Option<&Lane> {
        self.get(id).or_else(|| self.former.iter().find(|lane| lane.id == id))
    }

    /// The lane with this id, of whichever epoch, to change it.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Lane> {
        self.all_mut().find(|lane| lane.id == id)
    }

    /// The id of the lane with this number on the present connection.
    #[inline]
    pub fn id_of(&self, number: u32) -> Option<u64> {
        self.numbers.iter().find(|(known, _)| *known == number).map(|&(_, id)| id)
    }

    /// The lane with this number on the present connection.
    #[inline]
    pub fn numbered(&mut self, number: u32) -> Option<&mut Lane> {
        self.get_mut(self.id_of(number)?)
    }

    /// Lanes of the present connection, each with its number there.
    pub fn connected(&self) -> impl Iterator<Item = (u32, &Lane)> {
        self.numbers.iter().filter_map(|&(number, id)| Some((number, self.get(id)?)))
    }

    /// The base lane.
    pub fn base(&self) -> Option<&Lane> {
        self.present.iter().find(|lane| lane.name == BASE)
    }

    /// The base lane of this epoch, also a former one.
    pub fn base_of(&self, epoch: u64) -> Option<&Lane> {
        self.all().find(|lane| lane.name == BASE && lane.epoch == epoch)
    }

    /// The lanes whose rows go into the store.
    pub fn logged(&self) -> impl Iterator<Item = &Lane> {
        self.present.iter().filter(|lane| lane.is_logged())
    }

    /// The same, to change them.
    pub fn logged_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.present.iter_mut().filter(|lane| lane.is_logged())
    }

    /// Lanes of the present epoch.
    pub fn present(&self) -> &[Lane] {
        &self.present
    }

    /// The same, to change them.
    pub fn present_mut(&mut self) -> &mut [Lane] {
        &mut self.present
    }

    /// Lanes of former epochs.
    pub fn former(&self) -> &[Lane] {
        &self.former
    }

    /// Lanes of all epochs.
    pub fn all(&self) -> impl Iterator<Item = &Lane> {
        self.present.iter().chain(&self.former)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.former.iter_mut().chain(&mut self.present)
    }
}

/// How lanes come and go.
impl Lanes {
    /// The id of the lane that an offer means: a known lane, or a new one. If a known lane has another epoch now, the former
    /// epoch is put aside; a node that goes from one hub to another and back may have it again. `None`: the node has too many lanes.
    pub fn offered(&mut self, number: u32, name: &str, epoch: u64, period: Nanos) -> Option<u64> {
        let mut before = Counted::default();
        if let Some(at) = self.present.iter().position(|lane| lane.name == name) {
            let lane = &mut self.present[at];
            if lane.epoch == epoch {
                lane.set_period(period);
                let id = lane.id;
                self.set_number(number, id);
                return Some(id);
            }
            // The lane continues counting under its name.
            before = Counted::of_former(lane);
            // For channels, readers have got the rows in between in the other lane.
            let is_it = |lane: &Lane| lane.name == BASE && name == BASE && lane.epoch == epoch;
            let back = self.former.iter().position(is_it).map(|at| self.former.remove(at));
            self.set_aside(at);
            if let Some(mut lane) = back {
                lane.goes_on_after(before);
                lane.set_period(period);
                let id = lane.id;
                self.present.push(lane);
                self.set_number(number, id);
                return Some(id);
            }
        }
        if self.present.len() >= LANES_MAX {
            self.drop_ended()?;
        }
        self.made += 1;
        let mut lane = Lane::after(name, epoch, period, before);
        lane.id = self.made;
        self.present.push(lane);
        self.set_number(number, self.made);
        Some(self.made)
    }

    /// The epoch of a present lane is over: the lane is kept for its history, and for readers that do not have all of it.
    fn set_aside(&mut self, at: usize) {
        let mut lane = self.present.remove(at);
        lane.hand_over(Nanos(0), clock::boot());
        if lane.recent_bytes > 0 || lane.readers > 0 || lane.name == BASE && lane.has_rows() {
            self.keep_former(self.former.len(), lane);
        }
    }

    /// Keeps a lane of a former epoch at this place among them. If they are too many, one goes: the oldest, if all of them have a past or
    /// readers.
    fn keep_former(&mut self, at: usize, lane: Lane) {
        self.former.insert(at, lane);
        if self.former.len() > FORMER_LANES_MAX {
            let bare = |lane: &Lane| lane.recent_bytes == 0 && lane.readers == 0;
            self.former.remove(self.former.iter().position(bare).unwrap_or(0));
        }
    }

    /// The base lane of this epoch, for rows that come late, even if another base lane is the present one. From a former epoch, only rows
    /// of times are missing that the present lane does not cover: times before it, and times after it if the hub below has not yet noticed
    /// that the node moved. If the node has no lane of this epoch, it gets one, unless another epoch covers that time. Returns the lane's
    /// id.
    pub fn take_late(&mut self, epoch: u64, period: Nanos, stamp: Stamp) -> Option<u64> {
        let at = stamp.real();
        let has_time = |lane: &Lane| lane.times().is_some_and(|(first, last)| (first..=last).contains(&at));
        let base = self.base();
        if let Some(known) = self.base_of(epoch) {
            let is_present = base.is_some_and(|base| base.id == known.id);
            return (is_present || !base.is_some_and(has_time)).then_some(known.id);
        }
        if self.all().any(|lane| lane.name == BASE && has_time(lane)) {
            return None;
        }
        // It is the newest epoch, unless a younger one has rows, or is about to.
        let is_older = base.is_some_and(|base| base.times().map_or(base.alive, |(first, _)| at < first));
        let before = base.map_or_else(Counted::default, Counted::of_former);
        self.made += 1;
        let id = self.made;
        if is_older {
            let is_younger = |lane: &Lane| lane.times().is_some_and(|(first, _)| at < first);
            let place = self.former.iter().position(is_younger).unwrap_or(self.former.len());
            let mut lane = Lane::fed(BASE, epoch, period, Counted::default());
            lane.id = id;
            self.keep_former(place, lane);
            return self.base_of(epoch).map(|lane| lane.id);
        }
        if let Some(at) = self.present.iter().position(|lane| lane.name == BASE) {
            self.set_aside(at);
        }
        let mut lane = Lane::fed(BASE, epoch, period, before);
        lane.id = id;
        self.present.push(lane);
        Some(id)
    }

    /// Rows have come late of a lane: the present one counts those of former epochs, too.
    pub fn came_late(&mut self, id: u64, rows: u64) {
        if self.get(id).is_none()
            && let Some(base) = self.present.iter_mut().find(|lane| lane.name == BASE)
        {
            base.counts_for_former(rows);
        }
    }

    /// A lane has one number, and a number one lane. Numbers of lanes that are gone go with them.
    fn set_number(&mut self, number: u32, id: u64) {
        let Lanes { numbers, present, .. } = self;
        let is_present = |id| present.iter().any(|lane| lane.id == id);
        numbers.retain(|&(known, lane)| known != number && lane != id && is_present(lane));
        numbers.push((number, id));
    }

    /// Removes a lane; its counts stay.
    fn remove(&mut self, at: usize) {
        let lane = self.present.remove(at);
        self.gone = self.gone.plus(Counted::of_former(&lane));
    }

    /// True if one more lane may come.
    pub fn have_room(&self) -> bool {
        self.present.len() < LANES_MAX || self.present.iter().any(is_replaceable)
    }

    /// Makes room: a lane that has ended and that no reader follows goes. `None`: there is no such lane.
    fn drop_ended(&mut self) -> Option<()> {
        let at = self.present.iter().position(is_replaceable)?;
        self.remove(at);
        Some(())
    }

    /// The node has closed a lane that readers opened. Returns the lane's id.
    pub fn close(&mut self, number: u32) -> Option<u64> {
        let at = self.numbers.iter().position(|&(known, _)| known == number)?;
        let (_, id) = self.numbers.remove(at);
        if let Some(lane) = self.get_mut(id) {
            lane.alive = false;
            lane.late.leave();
        }
        let has_past = |lane: &Lane| lane.recent_bytes > 0 && !lane.is_former_of_channel();
        let is_kept = |lane: &Lane| lane.alive || lane.readers > 0 || has_past(lane) || lane.name == BASE;
        self.keep(is_kept);
        Some(id)
    }

    /// Takes out the lanes of which this is not true.
    fn keep(&mut self, is_kept: impl Fn(&Lane) -> bool) {
        for at in (0..self.present.len()).rev() {
            if !is_kept(&self.present[at]) {
                self.remove(at);
            }
        }
    }

    /// The connection has ended, and its numbers with it.
    pub fn hang_up(&mut self) {
        self.numbers.clear();
        self.present.iter_mut().for_each(Lane::hang_up);
    }

    /// Leaves the lanes that are not needed. A lane that the node always has continues until the node gets the
    /// Leave.
    pub fn leave_all_but(&mut self, is_needed: impl Fn(&Lane) -> bool) -> Vec<Command> {
        let mut commands = Vec::new();
        for (number, id) in self.numbers.clone() {
            if let Some(lane) = self.get_mut(id).filter(|lane| lane.name != BASE && !is_needed(lane))
                && lane.late.leave()
            {
                commands.push(Command::Leave { lane: number });
            }
        }
        commands
    }
}

/// Rows that readers want.
impl Lanes {
    /// Readers want the rows of a lane from this row on (`None`: from the first that comes). If that was already set on
    /// this connection, nothing happens. Otherwise the hub repeats its requests of the previous connection.
    pub fn want(&mut self, id: u64, from: Option<u64>, can_resend: bool) -> Vec<Command> {
        let Some(lane) = self.get_mut(id) else { return Vec::new() };
        if !lane.late.want(from) {
            return Vec::new();
        }
        let asked = lane.late.asked().to_vec();
        asked.into_iter().filter_map(|(from, to)| self.resend(id, from, to, can_resend)).collect()
    }

    /// Asks the node to send rows of a lane again; `None`: it cannot be asked.
    pub fn resend(&mut self, id: u64, from: u64, to: u64, can_resend: bool) -> Option<Command> {
        let &(lane, _) = self.numbers.iter().find(|&&(_, known)| known == id).filter(|_| can_resend)?;
        if let Some(known) = self.get_mut(id) {
            known.late.ask(from, to);
        }
        Some(Command::Again { lane, from, to })
    }

    /// The lanes at whose gaps a reader has waited long enough, each once.
    pub fn take_waited(&mut self, now: Nanos) -> Vec<u64> {
        self.all_mut().filter_map(|lane| lane.late.take_waited(now).then_some(lane.id)).collect()
    }

    /// When the next reader has.
    pub fn gap_until(&self) -> Option<Nanos> {
        self.all().filter_map(|lane| lane.late.gap_until()).min()
    }

    /// Gives up rows that came late and that no reader has fetched.
    pub fn forget_late(&mut self, now: Nanos) {
        self.all_mut().for_each(|lane| lane.late.keep_house(now, lane.late_readers > 0));
    }
}

/// What lanes count and hold.
impl Lanes {
    /// The counts of all rows of the node so far.
    pub fn counted(&self) -> Counted {
        self.present.iter().fold(self.gone, Counted::and)
    }

    /// Rows that are missing and may still come.
    pub fn awaited(&self) -> u64 {
        self.present.iter().fold(0, |sum, lane| lane.awaited().saturating_add(sum))
    }

    /// Lanes that have a past, or will have one.
    pub fn history_lanes(&self) -> usize {
        self.all().filter(|lane| lane.recent_bytes > 0 || lane.name == BASE).count()
    }

    /// Bytes of blocks of the past.
    pub fn history_bytes(&self) -> u64 {
        self.all().map(|lane| lane.recent_bytes).sum()
    }

    /// No lane keeps more of the past than this.
    pub fn trim(&mut self, bytes_max: u64) {
        self.all_mut().for_each(|lane| lane.trim(bytes_max));
    }

    /// Memory of blocks that have not ended and of the newest rows, and memory of schemas, each schema once.
    pub fn held(&self) -> (u64, u64) {
        let mut schemas: Vec<(*const Schema, u64)> = self.all().flat_map(Lane::schemas_held).collect();
        schemas.sort_unstable();
        schemas.dedup();
        (self.all().map(Lane::held).sum(), schemas.into_iter().map(|(_, held)| held).sum())
    }

    /// The node is down: frees everything that is neither history nor read; with `all`, also history. `true`: no lane is
    /// read, so nothing is left to free later.
    pub fn give_back(&mut self, keeps_history: bool, all: bool) -> bool {
        let is_read = |lane: &Lane| lane.readers > 0 || lane.late_readers > 0;
        self.keep(|lane| is_read(lane) || lane.name == BASE);
        self.all_mut().filter(|lane| !is_read(lane)).for_each(|lane| lane.give_back(keeps_history, all));
        self.former.retain(|lane| is_read(lane) || lane.name == BASE && lane.recent_bytes > 0);
        !self.all().any(is_read)
    }
}
