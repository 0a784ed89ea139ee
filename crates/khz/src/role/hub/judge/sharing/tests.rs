//! What one hub decides, step by step, by what it has heard of the other one.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_ask::Login;
use khz_notify::{ExecSettings, Notifier, Pace, Settings};
use khz_rules::RuleSet;

use super::super::Audience;
use super::*;

/// What another hub has saved: one alert that fires.
const STATE: &str = r#"{"khz_rules":1,"groups":[{"file":"a.yml","name":"g","time":9,"rules":[{"name":"A","labels":{},
    "alerts":[{"state":"firing","labels":{"alertname":"A"},"annotations":{},"value":"1","active_at":FIRED,"fired_at":FIRED,"fired_here_at":FIRED}]}]}]}"#;

const RULES: &[u8] = b"groups: [{name: g, rules: [{alert: A, expr: a}]}]";

/// A hub that has one node, tells people at once, and does not reach the other hub.
struct Stage {
    sharing: Sharing,
    groups: Groups,
    outside: Audience,
}

impl Stage {
    fn new() -> Self {
        let other = ForeignServer {
            url: "http://127.0.0.1:1".to_owned(),
            timeout: Duration::from_secs(1),
            login: Login::Nothing,
            headers: Vec::new(),
            files: None,
        };
        let sharing = Sharing::start(&[other], "hub", "a", None, None).ok().flatten().unwrap();
        let set = RuleSet::parse(Path::new("a.yml"), RULES).unwrap();
        let keep = ExecSettings {
            name: "keep".to_owned(),
            command: vec!["/bin/true".to_owned()],
            timeout: Duration::from_secs(60),
            pace: Pace { wait: 0, ..Pace::default() },
        };
        let settings = Settings { execs: vec![keep], ..Settings::default() };
        let outside = Audience { notifier: Notifier::new(&settings, None).ok(), actions: None };
        Stage { sharing, groups: Groups::new(&set, Arc::default(), None, 0, true), outside }
    }

    fn notifier(&self) -> &Notifier {
        self.outside.notifier.as_ref().unwrap()
    }

    fn look(&mut self, is_up: bool) {
        let nodes = [(NodeName::new("n1").unwrap(), is_up)];
        self.sharing.look(&nodes, &mut self.groups, &self.outside, &Numbers::default());
    }

    /// A pass in which an alert of the node fires.
    fn pass(&mut self) {
        let labels = [("alertname", "A"), (NODE_LABEL, "n1")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let alert = Alert { labels, starts_at: 1, ..Alert::default() };
        self.sharing.tell(vec![alert], &self.outside);
    }

    /// How many alerts people know, and how many they were told or are about to be told.
    fn told(&self) -> (usize, u64) {
        let way = self.notifier().ways().remove(0);
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        (self.notifier().told().len(), of(&way.counts.waiting) + of(&way.counts.sent))
    }
}

#[test]
fn what_people_were_told_of_a_node_stays_while_it_is_on_its_way_to_another_hub() {
    let mut stage = Stage::new();
    stage.look(true);
    stage.pass();
    while stage.notifier().ways()[0].counts.sent.load(Ordering::Relaxed) < 1 {
        std::thread::sleep(Duration::from_millis(5));
    }
    stage.look(false);
    assert!(stage.sharing.away().contains("n1"), "perhaps it is on its way");
    stage.pass();
    assert_eq!(stage.told(), (1, 1), "the hub to which it goes asks for that");
    stage.look(true);
    stage.pass();
    assert_eq!(stage.told(), (1, 1), "it came back, and nobody hears it again");
}

/// What the other hub says of an alert of no node: since when it fires there, and when people were told.
fn word(fired_at: i64) -> Arc<PeerWord> {
    let state = STATE.replace("FIRED", &fired_at.to_string());
    let told = ToldLine {
        way: "keep".to_owned(),
        labels: of_none(0).labels,
        starts_at: fired_at,
        told_at: fired_at,
        perhaps: false,
        refused: false,
    };
    let state = khz_rules::Saved::from_bytes(state.as_bytes()).unwrap();
    Arc::new(PeerWord::new("first".to_owned(), "b-1".to_owned(), vec![told], None, state))
}

fn of_none(starts_at: i64) -> Alert {
    let labels = [("alertname".to_owned(), "A".to_owned())].into();
    Alert { labels, starts_at, fired_here_at: Some(starts_at), ..Alert::default() }
}

#[test]
fn a_firing_of_no_node_is_left_to_the_hub_where_it_began_and_so_is_what_people_were_told() {
    let mut stage = Stage::new();
    let at = Instant::now() + Duration::from_secs(100);
    let says = |word: &Arc<PeerWord>, answered: Instant| Heard {
        word: Some(word.clone()),
        answered: Some(answered),
        known_at: 20,
        asked: Some(answered),
        ..Heard::default()
    };
    // Which of them was first is not known before the other one has said it.
    let word = word(5);
    let silent = Arc::new(PeerWord::new(
        "first".to_owned(),
        "b-0".to_owned(),
        Vec::new(),
        None,
        khz_rules::Saved::new(Vec::new()),
    ));
    stage.sharing.heard = vec![says(&silent, at)];
    let decided = stage.sharing.decide(vec![of_none(10)], at);
    assert!(decided.told.is_empty() && decided.acted.is_empty() && decided.left.is_empty());
    assert_eq!(stage.sharing.undecided, [of_none(10)]);
    stage.sharing.heard = vec![says(&word, at + Duration::from_secs(2))];
    let groups = &mut stage.groups;
    stage.sharing.take_others((0, &word), groups, &stage.outside, Moment::now());
    let undecided = std::mem::take(&mut stage.sharing.undecided);
    let decided = stage.sharing.decide(undecided, at + Duration::from_secs(2));
    assert_eq!((decided.left, decided.told, decided.acted), (vec![of_none(10)], vec![], vec![]));
    assert!(stage.notifier().told().is_empty(), "this hub reminds nobody of it");
    // The other one has died: this hub goes on, and knows what people know.
    stage.sharing.heard = vec![Heard { answered: None, ..says(&word, at) }];
    let decided = stage.sharing.decide(vec![of_none(10)], at + Duration::from_secs(60));
    assert!(decided.told.is_empty(), "its alerts are taken over first");
    stage.sharing.inherited = vec![Some(word.clone())];
    let decided = stage.sharing.decide(vec![of_none(10)], at + Duration::from_secs(60));
    let known: Vec<(&str, i64)> = decided.known.iter().map(|line| (&*line.way, line.told_at)).collect();
    let taken_over = Alert { waits_since: Some(10), ..of_none(10) };
    assert_eq!((decided.told, known), (vec![taken_over], vec![("keep", 5)]));
}

#[test]
fn too_many_firings_that_are_not_decided_wait_for_their_next_evaluation() {
    let mut stage = Stage::new();
    let at = Instant::now();
    let (state, tag) = (khz_rules::Saved::new(Vec::new()), "b-0".to_owned());
    let word = Arc::new(PeerWord::new("first".to_owned(), tag, Vec::new(), None, state));
    stage.sharing.heard =
        vec![Heard { word: Some(word), answered: Some(at), asked: Some(at), ..Heard::default() }];
    let numbered = |number: usize| {
        let labels = [("alertname".to_owned(), number.to_string())].into();
        Alert { labels, starts_at: 1, fired_here_at: Some(1), ..Alert::default() }
    };
    let all: Vec<Alert> = (0..=UNDECIDED_MAX).map(numbered).collect();
    assert!(stage.sharing.decide(all.clone(), at).told.is_empty());
    assert_eq!((stage.sharing.undecided.len(), &stage.sharing.undecided[0]), (UNDECIDED_MAX, &all[1]));
    stage.sharing.heard[0].answered = Some(at + Duration::from_secs(2));
    let told = stage.sharing.decide(all.clone(), at).told;
    let told: Vec<Alert> = told.into_iter().map(|alert| Alert { waits_since: None, ..alert }).collect();
    assert_eq!(told, all);
}

#[test]
fn the_end_of_an_alert_of_no_node_is_told_by_the_hub_that_told_its_begin_or_where_it_went_on() {
    let at = Instant::now() + Duration::from_secs(100);
    let later = at + Duration::from_secs(3);
    let says = |word: Arc<PeerWord>, answered: Instant| Heard {
        word: Some(word),
        answered: Some(answered),
        known_at: 20,
        asked: Some(answered),
        ..Heard::default()
    };
    let over = Alert { ends_at: Some(10_000), ..of_none(10) };
    // It fires at the other hub, which has told people; then it is over here.
    let begun = || {
        let mut stage = Stage::new();
        stage.sharing.heard = vec![says(word(5), at)];
        assert_eq!(stage.sharing.decide(vec![of_none(10)], at).left, [of_none(10)]);
        let (word, outside) = (word(5), &stage.outside);
        stage.sharing.take_others((0, &word), &mut stage.groups, outside, Moment::now());
        let decided = stage.sharing.decide(vec![over.clone()], at);
        assert!(decided.left.is_empty() && decided.told.is_empty(), "it may be over there, too");
        assert_eq!(stage.sharing.undecided, std::slice::from_ref(&over));
        stage
    };
    let decide = |stage: &mut Stage, heard: Vec<Heard>| {
        stage.sharing.heard = heard;
        let decided = stage.sharing.decide(vec![over.clone()], later);
        (decided.known.len(), decided.told.len(), decided.left.len())
    };
    let ended = |told: Vec<ToldLine>| {
        let mut state = khz_rules::Saved::from_bytes(STATE.replace("FIRED", "5").as_bytes()).unwrap();
        let alert = &mut state.groups[0].rules[0].alerts[0];
        (alert.state, alert.resolved_at) = ("inactive".to_owned(), Some(9_000));
        Arc::new(PeerWord::new("first".to_owned(), "b-2".to_owned(), told, None, state))
    };
    assert_eq!(decide(&mut begun(), vec![says(word(5), later)]), (0, 0, 1), "it goes on there");
    // It is over there, and that hub has not told people yet. If it dies before, this one does.
    let mut stage = begun();
    let about_to_tell = says(ended(word(5).told.clone()), later);
    assert_eq!(decide(&mut stage, vec![about_to_tell]), (0, 0, 0));
    assert_eq!(decide(&mut stage, Vec::new()), (1, 1, 0));
    assert_eq!(decide(&mut stage, Vec::new()).0, 0, "people have heard it");
    // It has told them; then it dies.
    let mut stage = begun();
    assert_eq!(decide(&mut stage, vec![says(ended(Vec::new()), later)]), (0, 0, 1));
    assert_eq!(decide(&mut stage, Vec::new()).0, 0);
    // It was started again, and knows nothing of it, or only how it was before.
    let state = khz_rules::Saved::new(Vec::new());
    let nothing = Arc::new(PeerWord::new("first".to_owned(), "c-1".to_owned(), Vec::new(), None, state));
    assert_eq!(decide(&mut begun(), vec![says(nothing, later)]), (1, 1, 0));
    let mut state = khz_rules::Saved::from_bytes(STATE.replace("FIRED", "5").as_bytes()).unwrap();
    state.groups[0].restored_from = Some(9_000);
    let before = Arc::new(PeerWord::new("first".to_owned(), "c-1".to_owned(), Vec::new(), None, state));
    assert_eq!(decide(&mut begun(), vec![says(before, later)]), (1, 1, 0));
}
