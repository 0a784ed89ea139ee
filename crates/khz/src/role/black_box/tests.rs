//! A black box whose nodes are down, or do not exist.

use std::path::PathBuf;

use khz_http::BlackBox as _;
use khz_hub::Settings;
use khz_model::Rate;

use super::*;

/// A directory, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("khz-box-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Place(folder)
    }

    /// A black box of a hub that knows the node n1, which is down.
    fn open(&self) -> BlackBox {
        let rate_max = Rate::from_hz(1_000).unwrap();
        let settings = Settings { name: "hub".to_owned(), history: ByteSize(0), rate_max };
        let cluster = Cluster::new(settings, [0; 16]);
        cluster.expect(&[NodeName::new("n1").unwrap()]);
        let jobs = Arc::new(Jobs::in_memory());
        BlackBox::open_in(&self.0, ByteSize(1 << 20), &cluster, &jobs).ok().unwrap()
    }

    fn list(&self) -> String {
        std::fs::read_to_string(self.0.join("blackbox/freezes.jsonl")).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn wish(nodes: &str, seconds: (u64, u64), because: &str) -> FreezeWish {
    let (before, after) = (Nanos::from_secs(seconds.0), Nanos::from_secs(seconds.1));
    FreezeWish { nodes: nodes.to_owned(), before, after, because: because.to_owned() }
}

#[test]
fn nothing_is_frozen_that_the_list_on_the_disk_does_not_have_and_a_refusal_counts_for_no_limit() {
    let place = Place::new("refused");
    let black_box = place.open();
    // A directory in the way: also root cannot write there.
    let in_the_way = place.0.join("blackbox/freezes.jsonl.new");
    std::fs::create_dir(&in_the_way).unwrap();
    for _ in 0..2 * A_MINUTE_MAX {
        let refused = black_box.freeze(&wish("n1", (1, 20), "on a full disk"));
        let Err(FreezeRefusal::Unable(text)) = refused else { panic!("{refused:?}") };
        assert!(text.contains("so nothing is frozen: cannot write "), "{text}");
    }
    assert_eq!(black_box.ids(), Vec::<u64>::new());
    assert!(black_box.shared.state().running.is_empty());
    std::fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(black_box.freeze(&wish("n1", (1, 20), "with room")), Ok((1, false)));
    assert!(place.list().contains("with room"));
    std::fs::create_dir(&in_the_way).unwrap();
    let joins = black_box.freeze(&wish("n1", (1, 20), "joins"));
    assert!(matches!(joins, Err(FreezeRefusal::Unable(_))), "{joins:?}");
    assert_eq!(black_box.freeze(&wish("n1", (1, 20), "with room")), Ok((1, true)), "it changes no name");
}

#[test]
fn a_cause_that_joins_is_on_the_disk_when_it_is_acknowledged_and_a_storm_is_few_writes() {
    let place = Place::new("joins");
    let black_box = place.open();
    black_box.freeze(&wish("n1", (1, 50), "first")).unwrap();
    for number in 0..40 {
        let cause = format!("cause {number}.");
        assert_eq!(black_box.freeze(&wish("n1", (0, 10), &cause)), Ok((1, true)));
        assert_eq!(place.list().contains(&cause), number < 16, "{number}");
    }
    assert!(place.list().contains("\"joined\":16,"), "{}", place.list());
    let shown = black_box.show(1).unwrap();
    assert!(shown.contains("\"joined\":40,"), "{shown}");
}

#[test]
fn a_cause_joins_only_a_freeze_that_has_the_time_it_asks_for() {
    let place = Place::new("longer");
    let black_box = place.open();
    assert_eq!(black_box.freeze(&wish("n1", (10, 30), "first")), Ok((1, false)));
    assert_eq!(black_box.freeze(&wish("n1", (10, 20), "within")), Ok((1, true)));
    assert_eq!(black_box.freeze(&wish("n1", (30, 20), "from before")), Ok((2, false)));
    assert_eq!(black_box.freeze(&wish("n1", (1, 60), "until after")), Ok((3, false)));
    assert_eq!(black_box.freeze(&wish("n1", (1, 55), "within the last one")), Ok((3, true)));
}

#[test]
fn causes_of_one_alert_come_within_a_second_and_join() {
    let second = 1_000_000_000;
    let entry = Entry::new(1, 1, 0, 20_000_000_000, 5_000_000_000, String::new());
    let at = |at| Wanted {
        at,
        since_boot: None,
        nodes: BTreeSet::new(),
        before: entry.before,
        after: entry.after,
        cause: String::new(),
    };
    assert!(at(second).is_kept_by(&entry) && !at(second + 1).is_kept_by(&entry));
}

#[test]
fn the_number_of_a_freeze_that_is_gone_is_not_used_again() {
    let place = Place::new("numbers");
    let black_box = place.open();
    assert_eq!(black_box.freeze(&wish("n9", (1, 0), "one")), Ok((1, false)));
    assert!(black_box.remove(1));
    assert_eq!(black_box.freeze(&wish("n9", (1, 0), "two")), Ok((2, false)));
    assert!(black_box.remove(2));
    drop(black_box);
    let black_box = place.open();
    assert_eq!(black_box.freeze(&wish("n9", (1, 0), "three")), Ok((3, false)));
}

#[test]
fn freezes_of_nodes_that_do_not_exist_take_no_place_of_others() {
    let place = Place::new("unknown");
    let black_box = place.open();
    for number in 1..=RUNNING_MAX as u64 {
        assert_eq!(
            black_box.freeze(&wish("n9", (1, 60), &format!("{number}"))).map(|(_, joined)| joined),
            Ok(false)
        );
        let end = Instant::now() + Duration::from_secs(30);
        while !black_box.show(number).unwrap().contains("\"state\":\"done\"") {
            assert!(Instant::now() < end, "{}", black_box.show(number).unwrap());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert!(black_box.freeze(&wish("n1", (1, 1), "a node that exists")).is_ok());
}
