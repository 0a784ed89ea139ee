//! Which nodes this hub judges, where several hubs judge the same rules: those that it has. From the words of other hubs, it
//! decides which nodes move from one hub to another. It asks nobody, moves nothing, and gets the time as an argument.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::NodeName;

/// A hub whose last answer is older than this counts as gone.
const ALIVE: Duration = Duration::from_secs(10);
/// If a hub has been silent for longer than this, its nodes that have not come here are judged here, as well as possible.
const SILENT: Duration = Duration::from_secs(60);
/// For this long nobody judges a node that has just gone from here, since it may be on its way to another hub.
const ON_ITS_WAY: Duration = Duration::from_secs(10);

/// A hub that has a node announces it within this time: it looks once a second, and its word must then arrive here.
pub(super) const WORD_LATE: Duration = Duration::from_secs(3);

/// If two hubs both have a node for this long, both are above one hub. Then the hub whose name comes first judges the node. A node
/// that moves appears at both hubs for a shorter time.
const CONTESTED: Duration = Duration::from_secs(4);
/// For this long afterwards, the other hub no longer judges the node but still claims it, so that the first hub hears its last
/// results. Then it leaves the node.
const YIELDING: Duration = Duration::from_secs(2);

/// For this long after a node has come from another hub, its rows may be missing. Its alerts keep the other hub's state unless the
/// node itself reports a change.
const SETTLING: Duration = Duration::from_secs(10);

/// Whether a hub counts as present. `answered`: when it was asked for its last answer.
pub(super) fn is_alive(answered: Option<Instant>, now: Instant) -> bool {
    answered.is_some_and(|answered| now.saturating_duration_since(answered) < ALIVE)
}

/// What another hub says.
pub(super) struct View<'a> {
    /// The nodes that the other hub judges.
    pub nodes: &'a HashSet<Arc<str>>,
    /// The nodes that are down, and when they left that hub (ms since 1970); `None`: that hub does not say.
    pub down: Option<&'a BTreeMap<String, i64>>,
    /// The name of the other hub comes before that of this hub.
    pub is_first: bool,
    /// When the other hub was asked for its last answer; `None`: it has not answered.
    pub answered: Option<Instant>,
}

/// What another hub says of a node that it judges.
#[derive(Clone, Copy)]
struct Claim {
    /// The number of the hub.
    number: usize,
    answered: Option<Instant>,
    how: How,
    is_first: bool,
}

/// The state of a node at another hub.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Up,
    /// The node left that hub at this time (ms since 1970).
    Down(i64),
    /// That hub runs an older khz, which does not say.
    Unknown,
}

impl View<'_> {
    /// What it says of a node.
    fn claim(&self, number: usize, node: &str) -> Option<Claim> {
        let how = match self.down {
            None => How::Unknown,
            Some(down) => down.get(node).map_or(How::Up, |went| How::Down(*went)),
        };
        let claim = Claim { number, answered: self.answered, how, is_first: self.is_first };
        self.nodes.contains(node).then_some(claim)
    }
}

/// A node that this hub judges.
struct Ours {
    is_up: bool,
    /// Since when the node is up, or when it left this hub.
    since: Instant,
    /// When the node left this hub (ms since 1970); 0: before this process began.
    went: i64,
    /// Since when another hub also has the node, while both are up.
    contested: Option<Instant>,
    /// The node was never here; this hub judges it because its own hub is silent.
    is_inherited: bool,
    /// When the node came from another hub.
    came: Option<Instant>,
    /// The hub from which the node comes. Until that hub says that it has left the node, it may send messages about it.
    comes_from: Option<usize>,
}

/// What moves.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// This hub judges these nodes from now on. The number is that of the previous hub, if its word counts.
    pub taken: Vec<(Arc<str>, Option<usize>)>,
    /// This hub stops judging some nodes, for good or for a while. Its rules do not see them any more.
    pub shrinks: bool,
    /// Another hub judges these from now on.
    pub left: BTreeSet<Arc<str>>,
    /// The nodes in `left` that are also up here.
    pub shared: Vec<Arc<str>>,
    /// Nodes that have come for good: the hub of this number says that it has left them, or it is gone.
    pub arrived: Vec<(Arc<str>, usize)>,
}

/// Which nodes this hub judges.
pub(super) struct Custody {
    ours: HashMap<Arc<str>, Ours>,
    /// When the hub to which a node was left said that it judges the node. If the node comes back at once, that word counts.
    left: HashMap<Arc<str>, Instant>,
    /// Nodes that are also here, but that another hub judges, since its name comes first.
    yielded: HashSet<Arc<str>>,
    /// All nodes that this hub knows.
    known: HashSet<Arc<str>>,
    away: Arc<BTreeSet<Arc<str>>>,
    settling: Arc<BTreeSet<Arc<str>>>,
}

impl Custody {
    /// Begins with the nodes that this hub judged before this process began.
    pub fn new(judged: &[String], now: Instant) -> Self {
        let ours = judged.iter().map(|name| (Arc::from(name.as_str()), Ours::gone(now, 0))).collect();
        let (left, yielded, known, away, settling) = Default::default();
        Custody { ours, left, yielded, known, away, settling }
    }

    /// Whether one of these nodes has gone since the last look.
    pub fn has_lost(&self, nodes: &[(NodeName, bool)]) -> bool {
        let is_up = |node: &NodeName| self.ours.get(node.as_str()).is_some_and(|ours| ours.is_up);
        nodes.iter().any(|(node, is_up_now)| !is_up_now && is_up(node))
    }

    /// Compares every node of this hub, and whether it is up, with what other hubs say. `wall`: ms since 1970.
    pub fn look(&mut self, nodes: &[(NodeName, bool)], views: &[View<'_>], now: Instant, wall: i64) -> Moves {
        let (mut moves, mut away) = (Moves::default(), BTreeSet::new());
        let by_last = |name: &Arc<str>| {
            let claims = views.iter().enumerate().filter_map(|(number, view)| view.claim(number, name));
            claims.max_by_key(|claim| claim.answered)
        };
        self.known = nodes.iter().map(|(node, _)| Arc::from(node.as_str())).collect();
        for (node, is_up) in nodes {
            let Some(name) = self.known.get(node.as_str()).cloned() else { continue };
            let claim = by_last(&name);
            match (*is_up, self.ours.get_mut(&name)) {
                (true, Some(ours)) => {
                    // The node was at another hub after it left this one, and came back before this hub looked.
                    let from = claim.filter(|claim| !ours.is_up && claim.answered >= Some(ours.since));
                    let is_both = |claim: &Claim| claim.how == How::Up && is_alive(claim.answered, now);
                    let both = claim.filter(is_both);
                    let contested = both.map(|_| ours.contested.unwrap_or(now));
                    // A hub that stood still has lost the node, and has not said so yet.
                    let said = both.filter(|both| both.is_first).and_then(|both| both.answered);
                    let is_for = |span| said.zip(contested).is_some_and(|(said, since)| said >= since + span);
                    if is_for(CONTESTED) {
                        away.insert(name.clone());
                        moves.shrinks = true;
                    }
                    if let Some(said) = said.filter(|_| is_for(CONTESTED + YIELDING)) {
                        self.ours.remove(&name);
                        self.left.insert(name.clone(), said);
                        self.yielded.insert(name.clone());
                        moves.shared.push(name.clone());
                        moves.left.insert(name);
                        continue;
                    }
                    let came = from.map(|_| now).or(ours.came);
                    let comes_from = from.map(|claim| claim.number).or(ours.comes_from);
                    moves.taken.extend(from.map(|claim| (name, Some(claim.number))));
                    *ours = Ours { contested, ..Ours::here(now, came, comes_from) };
                }
                (true, None) => {
                    let stays = |claim: Claim| claim.how == How::Up && is_alive(claim.answered, now);
                    if self.yielded.contains(&name) && claim.is_some_and(stays) {
                        continue;
                    }
                    self.yielded.remove(&name);
                    // A hub's word from before this hub left the node to it holds nothing new for this hub.
                    let left = self.left.remove(&name);
                    let from = claim.filter(|claim| left.is_none_or(|left| claim.answered >= Some(left)));
                    let (came, comes_from) = (from.map(|_| now), from.map(|claim| claim.number));
                    moves.taken.push((name.clone(), comes_from));
                    self.ours.insert(name, Ours::here(now, came, comes_from));
                }
                (false, Some(ours)) => {
                    if std::mem::take(&mut ours.is_up) {
                        (ours.since, ours.went, ours.contested) = (now, wall, None);
                        moves.shrinks = true;
                    }
                    let (since, went) = (ours.since, ours.went);
                    // If the node is down at two hubs, the hub that had it last judges it.
                    let is_theirs = |claim: &Claim| match claim.how {
                        How::Up | How::Unknown => true,
                        How::Down(there) => there > went || there == went && claim.is_first,
                    };
                    let claimed = claim.filter(is_theirs).and_then(|claim| claim.answered);
                    if let Some(said) = claimed.filter(|said| *said >= since) {
                        self.ours.remove(&name);
                        self.left.insert(name.clone(), said);
                        moves.shrinks = true;
                        moves.left.insert(name);
                    } else if now.saturating_duration_since(since) < ON_ITS_WAY
                        && views.iter().any(|view| view.answered < Some(since + WORD_LATE))
                    {
                        away.insert(name);
                    }
                }
                (false, None) => {
                    let is_silent = |answered: Option<Instant>| {
                        answered.is_none_or(|at| now.saturating_duration_since(at) > SILENT)
                    };
                    self.yielded.remove(&name);
                    if claim.is_none_or(|claim| is_silent(claim.answered)) {
                        moves.taken.push((name.clone(), claim.map(|claim| claim.number)));
                        self.ours.insert(name, Ours { is_inherited: true, ..Ours::gone(now, 0) });
                    }
                }
            }
        }
        self.ours.retain(|name, _| self.known.contains(name));
        self.yielded.retain(|name| self.known.contains(name));
        moves.arrived = self.arrive(views, now);
        self.left.retain(|name, _| self.known.contains(name));
        let elsewhere = views.iter().flat_map(|view| view.nodes);
        away.extend(elsewhere.filter(|name| !self.ours.contains_key(*name)).cloned());
        if away != *self.away {
            self.away = Arc::new(away);
        }
        let is_settling =
            |ours: &Ours| ours.came.is_some_and(|came| now.saturating_duration_since(came) < SETTLING);
        let settling = self.ours.iter().filter(|(_, ours)| is_settling(ours));
        let settling: BTreeSet<Arc<str>> = settling.map(|(name, _)| name.clone()).collect();
        if settling != *self.settling {
            self.settling = Arc::new(settling);
        }
        moves
    }

    /// Returns the nodes that have come for good: their previous hub does not judge them any more. Each is returned once.
    fn arrive(&mut self, views: &[View<'_>], now: Instant) -> Vec<(Arc<str>, usize)> {
        let mut arrived = Vec::new();
        for (name, ours) in &mut self.ours {
            let Some(number) = ours.comes_from else { continue };
            let claims = views
                .get(number)
                .is_some_and(|view| is_alive(view.answered, now) && view.nodes.contains(name));
            // Two hubs that both have a node decide between them who judges it. Meanwhile people hear of its alerts.
            let is_late = ours.came.is_none_or(|came| now.saturating_duration_since(came) >= ALIVE);
            if !claims || is_late {
                ours.comes_from = None;
                arrived.push((name.clone(), number));
            }
        }
        arrived
    }

    /// The nodes that come from other hubs, while these have not said that they left them. Each has the number of its hub.
    pub fn coming(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.ours.iter().filter_map(|(name, ours)| Some((name, ours.comes_from?)))
    }

    /// Whether a node comes from another hub that may still send messages about it.
    pub fn is_coming(&self, node: &str) -> bool {
        self.ours.get(node).is_some_and(|ours| ours.comes_from.is_some())
    }

    /// Whether another hub judges a node, as far as this one knows.
    pub fn is_away(&self, node: &str) -> bool {
        self.away.contains(node)
    }

    /// Whether this hub knows one of these nodes, which another hub judges.
    pub fn knows_any<'a>(&self, mut nodes: impl Iterator<Item = &'a Arc<str>>) -> bool {
        nodes.any(|node| self.known.contains(node) && self.is_away(node))
    }

    /// Whether a node has left this hub, and no hub has said yet that it judges the node.
    pub fn is_on_its_way(&self, node: &str) -> bool {
        self.is_away(node) && self.ours.contains_key(node)
    }

    /// The clock was set by this many ms.
    pub fn clock_set(&mut self, by: i64) {
        // 0 is no time.
        let gone = self.ours.values_mut().filter(|ours| ours.went != 0);
        gone.for_each(|ours| ours.went = ours.went.saturating_add(by));
    }

    /// The nodes that this hub does not judge.
    pub fn away(&self) -> &Arc<BTreeSet<Arc<str>>> {
        &self.away
    }

    /// The nodes whose rows are still coming.
    pub fn settling(&self) -> &Arc<BTreeSet<Arc<str>>> {
        &self.settling
    }

    /// The names of the nodes that this hub judges because they were here.
    pub fn names(&self) -> Vec<String> {
        let here = self.ours.iter().filter(|(_, ours)| !ours.is_inherited);
        let mut names: Vec<String> = here.map(|(name, _)| name.to_string()).collect();
        names.sort_unstable();
        names
    }

    /// The nodes that were here and are down, and when they left (ms since 1970).
    pub fn down(&self) -> BTreeMap<String, i64> {
        let here = self.ours.iter().filter(|(_, ours)| !ours.is_inherited && !ours.is_up);
        here.map(|(name, ours)| (name.to_string(), ours.went)).collect()
    }

    /// Whether this is the name of a node, here or elsewhere.
    pub fn is_node(&self, name: &str) -> bool {
        self.known.contains(name) || self.away.contains(name) || self.ours.contains_key(name)
    }

    /// Whether this hub acts on alerts of a node: only if the node was here. A hub that seems gone may still be alive.
    pub fn acts_on(&self, node: &str) -> bool {
        !self.is_away(node) && self.ours.get(node).is_none_or(|ours| !ours.is_inherited)
    }
}

impl Ours {
    fn here(since: Instant, came: Option<Instant>, comes_from: Option<usize>) -> Self {
        Ours { is_up: true, since, went: 0, contested: None, is_inherited: false, came, comes_from }
    }

    fn gone(since: Instant, went: i64) -> Self {
        Ours { is_up: false, went, ..Ours::here(since, None, None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A hub, the nodes of another hub, and the time.
    struct Stage {
        custody: Custody,
        other: HashSet<Arc<str>>,
        /// Those that are down there; `None`: the other hub does not say.
        down: Option<BTreeMap<String, i64>>,
        is_first: bool,
        answered: Option<Instant>,
        now: Instant,
        wall: i64,
    }

    impl Stage {
        fn new(judged: &[&str]) -> Self {
            let (now, judged) = (Instant::now(), judged.iter().map(ToString::to_string).collect::<Vec<_>>());
            let custody = Custody::new(&judged, now);
            let (other, down, is_first, wall) = (HashSet::new(), None, false, 1_000_000);
            Stage { custody, other, down, is_first, answered: None, now, wall }
        }

        /// The other hub says that it judges these.
        fn says(&mut self, nodes: &[&str]) {
            self.other = nodes.iter().map(|node| Arc::from(*node)).collect();
            self.answered = Some(self.now);
        }

        /// A second later, with these nodes: `+n1` is up. Returns what moves: `+n1` from nowhere, `>n1` from the other hub, `-n1` to it.
        fn look(&mut self, nodes: &[&str]) -> Vec<String> {
            (self.now, self.wall) = (self.now + SECOND, self.wall + 1_000);
            let one = |text: &&str| (NodeName::new(&text[1..]).unwrap(), text.starts_with('+'));
            let nodes: Vec<(NodeName, bool)> = nodes.iter().map(one).collect();
            let (down, is_first) = (self.down.as_ref(), self.is_first);
            let view = View { nodes: &self.other, down, is_first, answered: self.answered };
            let moves = self.custody.look(&nodes, &[view], self.now, self.wall);
            let sign = |from: &Option<usize>| if from.is_some() { '>' } else { '+' };
            let taken = moves.taken.iter().map(|(node, from)| format!("{}{node}", sign(from)));
            taken.chain(moves.left.iter().map(|node| format!("-{node}"))).collect()
        }

        fn away(&self) -> Vec<&str> {
            self.custody.away().iter().map(|name| &**name).collect()
        }
    }

    #[test]
    fn a_node_is_judged_by_the_hub_that_has_it_and_moves_with_what_is_known_of_it() {
        let mut second = Stage::new(&[]);
        second.says(&["n1", "n2"]);
        assert!(second.look(&[]).is_empty());
        assert_eq!(second.away(), ["n1", "n2"], "also before any of them was here");
        // The first hub is dead; its nodes come.
        assert_eq!(second.look(&["+n1"]), [">n1"]);
        assert_eq!((second.away(), second.custody.names()), (vec!["n2"], vec!["n1".to_owned()]));
        let settling =
            |stage: &Stage| stage.custody.settling().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(settling(&second), ["n1"]);
        assert_eq!(second.look(&["+n1", "+n2"]), [">n2"]);
        second.now += SETTLING;
        second.look(&["+n1", "+n2"]);
        assert!(settling(&second).is_empty());
        // It is back, and its first word is of the time before.
        second.says(&[]);
        assert!(second.look(&["+n1", "+n2"]).is_empty());
        // n1 goes back to it.
        assert!(second.look(&["-n1", "+n2"]).is_empty());
        assert_eq!(second.away(), ["n1"], "it is on its way, and nobody judges it");
        second.says(&["n1"]);
        assert!(second.look(&["-n1", "+n2"]).contains(&"-n1".to_owned()));
        assert_eq!(second.away(), ["n1"]);
        // And comes again, with what the first has made of it.
        second.says(&["n1"]);
        assert_eq!(second.look(&["+n1", "+n2"]), [">n1"]);
    }

    #[test]
    fn a_hub_that_was_restarted_leaves_the_nodes_that_have_gone_to_another_one() {
        let mut first = Stage::new(&["n1", "n2"]);
        first.now += SECOND;
        first.says(&["n1"]);
        assert_eq!(first.look(&["-n1", "-n2"]), ["-n1"]);
        assert_eq!(first.away(), ["n1", "n2"], "perhaps n2 has gone there, too");
        first.now += WORD_LATE;
        first.says(&["n1"]);
        first.look(&["-n1", "-n2"]);
        assert_eq!((first.away(), first.custody.names()), (vec!["n1"], vec!["n2".to_owned()]), "n2 is down");
        assert!(first.custody.acts_on("n2") && !first.custody.acts_on("n1"));
    }

    #[test]
    fn a_node_that_comes_back_to_a_restarted_hub_before_its_first_look_brings_what_the_other_hub_knows() {
        let mut first = Stage::new(&["n1", "n2"]);
        first.now += SECOND;
        first.says(&["n1"]);
        assert_eq!(first.look(&["+n1", "+n2"]), [">n1"], "n2 was at no other hub");
        assert!(first.look(&["+n1", "+n2"]).is_empty());
        assert!(first.custody.settling().contains("n1"));
        assert_eq!(first.custody.names(), ["n1", "n2"]);
        // The other hub's word is older than the node's visit here.
        first.look(&["-n1", "+n2"]);
        assert!(first.look(&["+n1", "+n2"]).is_empty());
    }

    #[test]
    fn a_node_that_is_down_everywhere_is_judged_by_the_hub_that_had_it() {
        let mut stage = Stage::new(&[]);
        stage.says(&[]);
        assert_eq!(stage.look(&["+n1"]), ["+n1"]);
        assert!(stage.look(&["-n1"]).is_empty());
        assert_eq!(stage.away(), ["n1"], "perhaps it is on its way");
        stage.says(&[]);
        assert!(stage.look(&["-n1"]).is_empty());
        assert_eq!(stage.away(), ["n1"], "the other hub may have it, and not know that yet");
        stage.now += WORD_LATE;
        stage.says(&[]);
        assert!(stage.look(&["-n1"]).is_empty());
        assert!(stage.away().is_empty(), "the other hub does not have it: it is down");
        // The other hub has died, too: it is not waited for without end.
        stage.look(&["+n1"]);
        stage.look(&["-n1"]);
        assert_eq!(stage.away(), ["n1"]);
        stage.now += ON_ITS_WAY;
        stage.look(&["-n1"]);
        assert!(stage.away().is_empty());
    }

    #[test]
    fn a_node_that_is_up_at_both_hubs_is_judged_by_the_one_whose_name_comes_first() {
        for is_first in [false, true] {
            let mut stage = Stage::new(&[]);
            (stage.is_first, stage.down) = (is_first, Some(BTreeMap::new()));
            stage.says(&["n1"]);
            assert_eq!(stage.look(&["+n1"]), [">n1"], "it may only move");
            let mut moved = Vec::new();
            for _ in 0..12 {
                stage.says(&["n1"]);
                moved.extend(stage.look(&["+n1"]));
            }
            let (left, away): (&[&str], &[&str]) = if is_first { (&["-n1"], &["n1"]) } else { (&[], &[]) };
            assert_eq!(
                (moved, stage.away()),
                (left.iter().map(ToString::to_string).collect(), away.to_vec())
            );
            if !is_first {
                continue;
            }
            // The other hub loses it.
            stage.down = Some([("n1".to_owned(), stage.wall)].into());
            stage.says(&["n1"]);
            assert_eq!(stage.look(&["+n1"]), [">n1"]);
        }
    }

    #[test]
    fn a_node_that_is_down_at_both_hubs_is_judged_by_the_one_that_had_it_last() {
        for (there, is_first, left) in
            [(-1, true, false), (1, false, true), (0, true, true), (0, false, false), (i64::MIN, true, false)]
        {
            let mut stage = Stage::new(&[]);
            stage.says(&[]);
            stage.look(&["+n1"]);
            stage.look(&["-n1"]);
            let went = if there == i64::MIN { 0 } else { stage.wall + there };
            (stage.is_first, stage.down) = (is_first, Some([("n1".to_owned(), went)].into()));
            stage.now += SECOND;
            stage.says(&["n1"]);
            let moved = stage.look(&["-n1"]);
            assert_eq!(moved == ["-n1"], left, "{there} {is_first}: {moved:?}");
        }
    }

    #[test]
    fn nodes_of_a_silent_hub_that_do_not_come_are_told_of_after_a_minute_and_nobody_acts_on_them() {
        let mut stage = Stage::new(&[]);
        stage.says(&["n1"]);
        assert!(stage.look(&["-n1"]).is_empty());
        stage.now += SILENT;
        assert_eq!(stage.look(&["-n1"]), [">n1"]);
        assert!(stage.away().is_empty() && !stage.custody.acts_on("n1"));
        assert!(stage.custody.names().is_empty(), "this hub does not claim it");
        stage.says(&["n1"]);
        assert_eq!(stage.look(&["-n1"]), ["-n1"], "the other hub is there again, and has it");
        stage.now += SILENT;
        stage.look(&["-n1"]);
        stage.look(&["+n1"]);
        assert!(stage.custody.acts_on("n1"), "now it is here");
    }
}
