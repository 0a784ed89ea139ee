//! The library for programs against a khz that runs: shared memory, values when asked for, values as they come.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use khz_client::{Access, Client, ClientError, Condition, Event, Page, Subscription, Want};
use khz_model::Nanos;

use crate::process::{Running, code, run};

/// Awaited events have come by then, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let name = format!("client-{name}-{}", std::process::id());
        Place(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name))
    }

    fn start(&self) -> Running {
        let rings = self.0.join("rings");
        let words =
            ["--run-dir", self.0.to_str().unwrap(), "--ring-dir", rings.to_str().unwrap(), "--ring", "1MiB"];
        Running::start(&words)
    }

    fn client(&self) -> Client {
        Client::open(&Access::local_in(Some(&self.0)).unwrap()).unwrap()
    }

    fn publish(&self, value: &str) {
        assert_eq!(code(&run(&["publish", value, "--run-dir", self.0.to_str().unwrap()])), 0);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_own_nodes_numbers_are_read_out_of_shared_memory() {
    let place = Place::new("page");
    let running = place.start();
    let mut page = Page::open(&place.0.join("rings/n1/snapshot")).unwrap();
    assert_eq!(&**page.node(), "n1");
    let (total, load) = (page.find("mem.total").unwrap(), page.find("load.1m").unwrap());
    let first = page.read(total).unwrap().unwrap();
    assert!(first.reading.value().unwrap() > 1 << 20);
    assert_eq!(page.read(load).unwrap().unwrap().places, 2);
    let patterns = [khz_model::Pattern::new("mem.*").unwrap()];
    assert!(page.select(&patterns).contains(&total) && !page.select(&patterns).contains(&load));
    // Its time goes on, and with it what a job publishes appears.
    place.publish("level=7");
    let end = Instant::now() + PATIENCE;
    let level = loop {
        match page.find("job.level") {
            Some(slot) if page.read(slot).unwrap().unwrap().reading.value().is_some() => break slot,
            _ => assert!(Instant::now() < end, "it never came"),
        }
    };
    assert_eq!(page.read(level).unwrap().unwrap().reading.value(), Some(7));
    let later = page.read(total).unwrap().unwrap().stamp;
    assert!(later.boot >= first.stamp.boot && later.boot > Nanos(0));
    assert_eq!(running.end("TERM").0, Some(0));
    assert!(page.has_ended() && page.reopen().is_err());
}

#[test]
fn values_are_had_for_the_asking_from_a_khz_alone() {
    let place = Place::new("get");
    let _running = place.start();
    let client = place.client();
    let found = client.get("n1:mem.total").unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].to_string().starts_with("n1:mem.total "), "{}", found[0]);
    assert!(client.get("load.*").unwrap().len() >= 3);
    assert!(matches!(client.get("Load"), Err(ClientError::Pattern(_))));
}

#[test]
fn a_subscription_tells_what_its_condition_lets_through() {
    let place = Place::new("subscribe");
    let running = place.start();
    place.publish("level=1");
    let client = place.client();
    let want = Want::new(["n1:job.level"]).unwrap().rate("100Hz").unwrap();
    let mut every = client.subscribe(want.clone().prompt()).unwrap();
    let value = |events: &mut Subscription| {
        let value = events.find_map(|event| match event {
            Event::Value(value) => Some(value),
            Event::Told { granted: false, text } => panic!("refused: {text}"),
            _ => None,
        });
        value.unwrap()
    };
    assert_eq!(value(&mut every).reading.value(), Some(1));
    let crossing = client.subscribe(want.prompt().when(Condition::Crossing("10".parse().unwrap())));
    let mut crossing = crossing.unwrap();
    // The second one has its first row before the level rises.
    while value(&mut every).reading.value() != Some(1) {}
    for level in ["5", "9", "20", "30", "3"] {
        place.publish(&format!("level={level}"));
        while value(&mut every).reading.value().map(|value| value.to_string()).as_deref() != Some(level) {}
    }
    let told = [value(&mut crossing), value(&mut crossing)].map(|value| value.reading.value());
    assert_eq!(told, [Some(20), Some(3)]);
    // It goes, and both are told.
    assert_eq!(running.end("TERM").0, Some(0));
    for subscription in [every, crossing] {
        let end = Instant::now() + PATIENCE;
        while !matches!(subscription.next_within(PATIENCE), Some(Event::Down { .. })) {
            assert!(Instant::now() < end, "nobody was told");
        }
    }
}
