//! The gather thread. It sleeps in one `ppoll` until the next tick or the bell, gathers the sources that are
//! due or requested, and writes the rows. It never waits for a reader. A tick without requests allocates
//! nothing and takes no lock.

mod readers_lanes;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_channel::oneshot;
use khz_model::{Nanos, Pattern, Rate, Stamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::asked::{Asked, Toll};
use crate::budget::percent;
use crate::channel_memory::ChannelMemory;
use crate::clock;
use crate::cost::{Cost, LOOK_EVERY, Pace};
use crate::handler_cost::HandlerCost;
use crate::inbox::{Inbox, Request};
use crate::lane::{Call, Lane, LaneView};
use crate::lane_memory::LaneMemory;
use crate::lane_set::{LaneSet, Places, places};
use crate::own_files::OwnFiles;
use crate::own_memory::OwnMemory;
use crate::page::Page;
use crate::plan::Plan;
use crate::renewal::Renewal;
use crate::rings::Rings;
use crate::source::{Published, Source};
use crate::source_set::SourceSet;
use crate::survey::Surveys;

pub use readers_lanes::{CHANNEL_LINGER, CHANNELS_MAX, LANES_MAX, LINGER, LINGERING_MAX};

/// If more lanes than this are due, we touch the data for their rows first. Then the processor waits for the memory of many
/// lanes at once, and not for one lane after the other.
const TOUCHED_FROM: u32 = 4;

/// The CPU ceiling slows only lanes faster than this; slowing others saves too little.
const SLOW_ENOUGH: Nanos = Nanos::from_millis(100);

/// The thread's one message to its owner: start a new agent instead of this one. Somebody has cut short,
/// removed or overwritten the file of a ring, and nobody can read its rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingsLost;

/// Everything that the thread owns.
pub(crate) struct Gatherer {
    plan: Plan,
    inbox: Arc<Inbox>,
    /// The files that the asking threads gather themselves. Its counts are part of the agent's own numbers.
    asked: Arc<Asked>,
    sources: Vec<Source>,
    surveys: Surveys,
    lanes: LaneSet,
    rings: Rings,
    /// The snapshot in shared memory, if there is one.
    page: Option<Page>,
    /// Lanes before this index are the plan's; the others close after their readers have gone.
    fixed_lanes: usize,
    lanes_opened: u16,
    /// What the lanes that readers open may hold.
    memory: LaneMemory,
    /// The last lane that a reader wanted found no room.
    is_lane_refused: bool,
    /// What the handlers of all channels may hold.
    channel_memory: ChannelMemory,
    cost: Cost,
    renewal: Renewal,
    own_memory: OwnMemory,
    open_files: OwnFiles,
    /// The ticks at which some lane was due.
    ticks: u64,
    requests: u64,
    request_gathers: u64,
    taken: Vec<Request>,
    /// The calls to make for the rows of this tick.
    calls: Vec<Arc<Call>>,
    /// The buffer for texts; the sources use it one after the other.
    room: Vec<u8>,
    /// The message to the owner; dropped when the thread ends.
    rings_lost: Option<oneshot::Sender<RingsLost>>,
}

/// Closes the inbox when the thread ends.
struct CloseAtEnd(Arc<Inbox>);

impl Drop for CloseAtEnd {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Gatherer {
    #[allow(clippy::too_many_arguments, reason = "the parts of an agent, put together once")]
    pub fn new(
        plan: Plan,
        inbox: Arc<Inbox>,
        asked: Arc<Asked>,
        sources: Vec<Source>,
        surveys: Surveys,
        lanes: Vec<Lane>,
        rings: Rings,
        renewal: Renewal,
        rings_lost: oneshot::Sender<RingsLost>,
    ) -> Self {
        let fixed_lanes = lanes.len();
        let memory = LaneMemory::new(plan.ring);
        let page = Page::open(&rings, &sources);
        let lanes = LaneSet::new(lanes, sources.len());
        Gatherer {
            plan,
            inbox,
            asked,
            sources,
            surveys,
            lanes,
            rings,
            page,
            fixed_lanes,
            lanes_opened: fixed_lanes as u16,
            memory,
            is_lane_refused: false,
            channel_memory: ChannelMemory::new(),
            cost: Cost::new(clock::boot()),
            renewal,
            own_memory: OwnMemory::new(),
            open_files: OwnFiles::new(),
            ticks: 0,
            requests: 0,
            request_gathers: 0,
            taken: Vec::new(),
            calls: Vec::new(),
            room: Vec::new(),
            rings_lost: Some(rings_lost),
        }
    }

    /// Runs until a request to stop.
    pub fn run(mut self) {
        // Closes the inbox however the thread ends, even by a panic, so that nobody waits for ever.
        let _closing = CloseAtEnd(self.inbox.clone());
        // By default the kernel may wake a sleeper up to 50 us late to save wake-ups; ticks need to be
        // punctual.
        if let Err(errno) = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)) {
            tracing::debug!("cannot set the timer slack, ticks may be late: {errno}");
        }
        loop {
            let rung = self.sleep();
            self.cost.wakeups += 1;
            if rung && !self.serve() {
                break;
            }
            let now = clock::stamp();
            self.tick(now);
            self.calls.drain(..).for_each(|call| call());
            if self.cost.is_due(now) {
                self.look_at_cost(now);
            }
        }
    }

    /// Sleeps until the next tick or the bell; `true` when the bell rang.
    fn sleep(&self) -> bool {
        let next = self.lanes.iter().map(|lane| lane.ticks.next()).min().unwrap_or(Nanos(u64::MAX));
        let rest = next.since(clock::boot()).0.min(LOOK_EVERY.0);
        let timeout =
            Timespec { tv_sec: (rest / 1_000_000_000) as i64, tv_nsec: (rest % 1_000_000_000) as i64 };
        let mut bell = [PollFd::new(self.inbox.bell(), PollFlags::IN)];
        matches!(poll(&mut bell, Some(&timeout)), Ok(1..))
    }

    /// Gathers the sources of the due lanes and writes their rows.
    fn tick(&mut self, now: Stamp) {
        let (due, late) = self.due(now);
        if due == 0 {
            return;
        }
        self.ticks += 1;
        self.surveys.look(now.boot);
        for source in 0..self.sources.len() {
            let lanes = self.lanes.with(source);
            if !self.is_wanted(source, lanes & due, now) {
                continue;
            }
            self.gather(source, now);
            self.sources[source].counts.late += u64::from(lanes & late != 0);
        }
        if due.count_ones() > TOUCHED_FROM {
            std::hint::black_box(self.lanes.at(due).map(Lane::touch).fold(0, usize::wrapping_add));
        }
        let mut lap = None;
        for place in places(due) {
            self.lanes[place].record(now, &self.sources, &mut self.calls, &mut lap);
        }
        if self.lanes.take_grown() {
            self.share_memory();
        }
    }

    /// The lanes that are due, and which of these are late.
    fn due(&mut self, now: Stamp) -> (Places, Places) {
        let (mut due, mut late) = (0, 0);
        for (place, lane) in self.lanes.iter_mut().enumerate() {
            let late_before = lane.ticks.late;
            if lane.ticks.due(now) {
                due |= 1 << place;
                late |= Places::from(lane.ticks.late > late_before) << place;
            }
        }
        (due, late)
    }

    /// True when one of these lanes, which have the source and are due, wants it: it has a new survey, or its readings are older than
    /// the kernel's refresh and the source's budget require. Ticks are not exactly a period apart; half a period of tolerance keeps
    /// the refresh on the grid. The budget has no tolerance. The first gather of a source waits for no lane.
    fn is_wanted(&self, source: usize, lanes: Places, now: Stamp) -> bool {
        let Some(gathered) = self.sources[source].gathered else { return true };
        if self.sources[source].is_surveyed() {
            return lanes != 0 && self.sources[source].is_fresh();
        }
        let age = now.boot.since(gathered.boot).0;
        let budget = self.sources[source].budget.period_min().0;
        let is_old = |lane: &Lane| {
            let refresh = lane.refresh_of(source).unwrap_or(Nanos(u64::MAX));
            age.saturating_add(lane.ticks.period().0 / 2) >= refresh.0
        };
        age >= budget
            && age > self.plan.window.0.min(Rate::PERIOD_MIN.0 / 2)
            && self.lanes.at(lanes).any(is_old)
    }

    /// Gathers one source and notes in every lane what changed.
    fn gather(&mut self, index: usize, now: Stamp) {
        if self.sources[index].is_own() {
            self.put_own_numbers(index, now);
        }
        let source = &mut self.sources[index];
        source.gather(now, &mut self.room);
        self.lanes.note(index, source);
        if let Some(page) = &mut self.page {
            page.note(index, source);
        }
    }

    /// Answers every request in the inbox; `false` after a request to stop.
    fn serve(&mut self) -> bool {
        let mut taken = std::mem::take(&mut self.taken);
        self.inbox.take(&mut taken);
        let mut go_on = true;
        for request in taken.drain(..) {
            match request {
                Request::Latest { sources, asked, age_max, reply } => {
                    let _ = reply.send(self.latest(sources, asked, age_max));
                }
                Request::Follow { wish, reply } => self.grant(&wish, &reply),
                Request::Now { lane, ask } => self.give(&lane, ask),
                Request::Prompt { lane, bell } => {
                    let mut lanes = self.lanes.iter_mut();
                    if let Some(lane) = lanes.find(|known| Arc::ptr_eq(&known.view, &lane)) {
                        lane.prompt(bell);
                    }
                }
                Request::Gone => self.close_unread_lanes(),
                Request::Stop => go_on = false,
            }
        }
        self.taken = taken;
        go_on
    }

    /// The latest readings of some sources. Requests within one window share a gather: a source is not
    /// gathered again if its last gather came after the request, or at most `age_max` before it.
    fn latest(&mut self, sources: SourceSet, asked: Nanos, age_max: Nanos) -> Vec<Arc<Published>> {
        for index in (0..self.sources.len()).filter(|&i| sources.has(i)) {
            let fresh =
                self.sources[index].gathered.is_some_and(|g| g.boot.0.saturating_add(age_max.0) >= asked.0);
            if !fresh {
                self.request_gathers += 1;
                self.gather(index, clock::stamp());
            }
        }
        (0..self.sources.len())
            .filter(|&i| sources.has(i))
            .filter_map(|i| self.sources[i].publish())
            .collect()
    }

    /// Answers a demand with a row gathered from now on. Demands within one window share a row; while
    /// gathering is above its CPU ceiling, the window is longer.
    fn give(&mut self, view: &Arc<LaneView>, ask: u32) {
        let Some(at) = self.lanes.iter().position(|lane| Arc::ptr_eq(&lane.view, view)) else { return };
        let now = clock::stamp();
        let paced =
            if self.cost.slowdown > 1 { self.plan.rate_max.period().0 * self.cost.slowdown } else { 0 };
        let window = self.plan.window.0.max(paced);
        let again = self.lanes[at].given.is_none_or(|given| now.boot.since(given).0 > window);
        self.requests += 1;
        if again {
            for source in 0..self.sources.len() {
                let gathered = self.sources[source].gathered;
                let is_old = gathered.is_none_or(|gathered| now.boot.since(gathered.boot).0 > window);
                if is_old && self.lanes[at].refresh_of(source).is_some() {
                    self.request_gathers += 1;
                    self.gather(source, now);
                }
            }
            self.lanes[at].given = Some(now.boot);
        }
        self.lanes[at].give(ask, now, &self.sources, again, &mut self.calls);
    }

    /// Gives the fast lanes another pace.
    fn slow_down(&mut self, what: &str, pace: Pace, now: Stamp) {
        let (percent, ceiling, times) = (pace.share * 100.0, self.plan.cpu_max * 100.0, pace.slowdown);
        if times > 1 {
            tracing::warn!(
                "{what} {percent:.1} % of a core (ceiling {ceiling:.1} %): fast lanes run {times} times slower than asked"
            );
        } else {
            tracing::info!(
                "{what} {percent:.1} % of a core (ceiling {ceiling:.1} %): fast lanes run as fast as asked again"
            );
        }
        for lane in self.lanes.iter_mut().filter(|lane| lane.asked < SLOW_ENOUGH) {
            lane.slow_down(pace.slowdown, now);
        }
    }

    /// Compares the cost with the ceiling, once a second. Above the ceiling, fast lanes run at half their
    /// rate, and if necessary at half of that; well below it, they speed up again.
    fn look_at_cost(&mut self, now: Stamp) {
        if let Some(pace) = self.cost.look(now.boot, clock::thread_cpu(), self.ticks, self.plan.cpu_max) {
            self.slow_down("gathering took", pace, now);
        }
        self.tell_of_budgets();
        self.give_slots_back(now.boot);
        self.tell_of_files();
        // Finds the readers that could not report that they left.
        if self.lanes[self.fixed_lanes..].iter().any(|lane| lane.readers() == 0) {
            self.close_unread_lanes();
        }
        self.use_room_of_channels();
        self.share_memory();
    }

    /// Renews the sources with many slots of instances that are gone (`renewal.rs`). Such a source begins with new
    /// slots, its lanes begin a new generation, and a new snapshot replaces the present one.
    fn give_slots_back(&mut self, now: Nanos) {
        let renewed = self.renewal.look(now, &mut self.sources);
        if renewed.is_empty() {
            return;
        }
        self.lanes.renew(renewed, &self.sources);
        if self.page.is_some() {
            // The new one is there before the readers of the old one learn that it has ended.
            self.page = Page::open(&self.rings, &self.sources);
        }
        self.share_memory();
    }

    /// Notices files that somebody cut short or removed. A new snapshot is made at once. A new ring needs
    /// a new agent, because the readers of this agent still hold the old ring.
    fn tell_of_files(&mut self) {
        if let Some(problem) = self.page.as_ref().and_then(Page::problem) {
            tracing::warn!("the snapshot in shared memory is lost: {problem}; khz makes a new one");
            self.page = None;
            self.page = Page::open(&self.rings, &self.sources);
        }
        if self.rings_lost.is_none() {
            return;
        }
        let problem = |lane: &Lane| Some((lane.view.name.clone(), lane.ring_problem()?));
        if let Some((name, problem)) = self.lanes[..self.fixed_lanes].iter().find_map(problem) {
            tracing::warn!("lane {name}: its ring is lost: {problem}");
            if let Some(owner) = self.rings_lost.take() {
                // The message needs no receiver: an owner may ignore it.
                let _ = owner.send(RingsLost);
            }
        }
    }

    /// Logs when a source's budget begins and ceases to hold it back, once each time.
    fn tell_of_budgets(&mut self) {
        for index in 0..self.sources.len() {
            let lanes = self.lanes.iter().filter(|lane| lane.refresh_of(index).is_some());
            let periods = lanes.map(|lane| lane.ticks.period()).filter(|&period| period > Nanos(0));
            let Some(fastest) = periods.min() else { continue };
            let source = &mut self.sources[index];
            let period_min = source.budget.period_min();
            let held_back = period_min > fastest;
            if held_back == source.held_back {
                continue;
            }
            source.held_back = held_back;
            let percent = percent(source.budget.share().unwrap_or(1.0));
            if held_back {
                let every = period_min.0 / 1_000;
                tracing::warn!(
                    "{} costs more than its budget of {percent} % of a core: it is gathered at most every {every} us",
                    source.name()
                );
            } else {
                tracing::info!("{} is back within its budget of {percent} % of a core", source.name());
            }
        }
    }

    /// Puts the agent's own numbers into their source.
    fn put_own_numbers(&mut self, index: usize, now: Stamp) {
        let memory = self.own_memory.resident(now.boot);
        let process = [
            Some(clock::process_cpu().0),
            memory.map(|m| m.anon),
            memory.map(|m| m.shared),
            Some(clock::thread_cpu().0),
            Some(self.cost.wakeups),
            Some(self.cost.rate_millihertz),
            Some(self.cost.slowdown),
            Some(self.requests + self.asked.questions.load(Ordering::Relaxed)),
            Some(self.request_gathers + self.asked.gathers()),
            Some(now.real().0),
            memory.map(|m| m.addresses),
            self.open_files.count(now.boot),
            self.open_files.max,
            Some(self.memory.taken()),
            Some(self.inbox.refused.load(Ordering::Relaxed)),
        ];
        let (files, own) = self.sources.split_at_mut(index);
        let Some(own) = own.first_mut().and_then(Source::own_numbers) else { return };
        own.begin(process, now.boot);
        for (i, source) in files.iter().enumerate() {
            let (counts, budget) = (&source.counts, &source.budget);
            let asked = self.asked.tolls.get(i).map(Toll::counts).unwrap_or_default();
            if !counts.was_there && !asked.was_there {
                continue;
            }
            let of_reading = budget.known_mean().map(|_| budget.period_min());
            // The limits of a survey are for making it: reading its text costs almost nothing.
            let (share, period_min) = match source.subject().and_then(|subject| self.surveys.limits(subject))
            {
                Some(limits) => (Some(limits.share), limits.period_min),
                None => (budget.share(), of_reading),
            };
            // Before its first gather, the size and cost of a source are not known.
            let known = |number: u64| (counts.gathers > 0).then_some(number);
            let numbers = [
                Some(counts.gathers + asked.gathers),
                Some(counts.failures + asked.failures),
                Some(counts.full_parses + asked.full_parses),
                Some(counts.late),
                known(counts.bytes),
                Some(counts.gather_time.0 + asked.gather_time.0),
                known(counts.last_gather_time.0),
                share.map(|share| (share * 1e6).round() as u64),
                period_min.map(|period| period.0),
            ];
            own.source(i, numbers);
        }
        // A lane that lives on without a reader is not shown as running: no reader wants it.
        let is_wanted = |(at, lane): &(usize, &Lane)| *at < self.fixed_lanes || lane.readers() > 0;
        for (_, lane) in self.lanes.iter().enumerate().filter(is_wanted) {
            let ticks = &lane.ticks;
            let numbers = [
                Some(lane.rows()),
                Some(ticks.late),
                Some(ticks.skipped),
                // An on-demand lane has no ticks, so it has no period; 0 would be wrong.
                Some(ticks.period().0).filter(|&period| period > 0),
                Some(lane.ring_used()),
                Some(lane.readers() as u64),
            ];
            own.lane(&lane.view.name, numbers);
            if let Some(cost) = lane.cost() {
                own.handler(&cost.channel, cost.counts(), left_out(&self.lanes, cost));
            }
        }
        if let Some(programs) = &self.plan.programs {
            programs.counts(&mut |channel, counts| own.program(channel, counts));
        }
    }
}

/// The series that the handlers of a channel leave out.
fn left_out(lanes: &[Lane], cost: &Arc<HandlerCost>) -> u64 {
    let is_it = |lane: &&Lane| lane.cost().is_some_and(|one| Arc::ptr_eq(one, cost));
    lanes.iter().filter(is_it).map(|lane| lane.left_out() as u64).sum()
}

/// The share of a core that gathering for these lanes takes if fast lanes run `slowdown` times slower than
/// asked. It counts only sources whose cost is known; wake-ups and writing rows are not included.
fn expected_share(sources: &[Source], lanes: &[Lane], slowdown: u64) -> f64 {
    let period = |lane: &Lane| match lane.asked {
        fast if fast > Nanos(0) && fast < SLOW_ENOUGH => fast.0 * slowdown,
        slow => slow.0,
    };
    let share = |(index, source): (usize, &Source)| {
        let mean = source.budget.known_mean()?;
        let paced = lanes.iter().filter(|lane| period(lane) > 0);
        let shortest = paced.filter_map(|lane| Some(period(lane).max(lane.refresh_of(index)?.0))).min()?;
        Some(mean.0 as f64 / shortest.max(source.budget.period_min().0).max(1) as f64)
    };
    sources.iter().enumerate().filter_map(share).sum()
}

/// The refresh that a reader of these patterns needs from a source; `None` if the patterns select nothing in
/// it.
pub(crate) fn refresh(source: &Source, patterns: &[Pattern], exact: bool) -> Option<Nanos> {
    let of_file = source.kernel_file().filter(|_| !exact).and_then(|file| file.refresh_for(patterns));
    if of_file.is_some() {
        return of_file;
    }
    let matches = |metric: &str| patterns.iter().any(|p| p.matches_metric(metric));
    source.refresh(matches, |given| given.may_match(patterns), exact)
}
