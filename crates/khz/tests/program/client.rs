//! The library for programs against a khz that runs: shared memory, values when asked for, values as they come.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use khz_client::{Access, Client, ClientError, Condition, Event, Page, Selection, Subscription};
use khz_model::Nanos;

use crate::process::{Ended, Running, code, err, khz, run};

/// Events come within this time, even on a busy machine.
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
    assert_eq!(page.read(load).unwrap().unwrap().format.places, 2);
    let patterns = [khz_model::Pattern::new("mem.*").unwrap()];
    assert!(page.select(&patterns).contains(&total) && !page.select(&patterns).contains(&load));
    // Its time advances, and what a job publishes appears.
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
    let selection = Selection::new(["n1:job.level"]).unwrap().rate("100Hz").unwrap();
    let mut every = client.subscribe(selection.clone().prompt()).unwrap();
    let value = |events: &mut Subscription| {
        let value = events.find_map(|event| match event {
            Event::Value(value) => Some(value),
            Event::Notice { granted: false, text } => panic!("refused: {text}"),
            _ => None,
        });
        value.unwrap()
    };
    assert_eq!(value(&mut every).reading.value(), Some(1));
    let crossing = client.subscribe(selection.prompt().when(Condition::Crossing("10".parse().unwrap())));
    let mut crossing = crossing.unwrap();
    // The second one has its first row before the level rises.
    while value(&mut every).reading.value() != Some(1) {}
    for level in ["5", "9", "20", "30", "3"] {
        place.publish(&format!("level={level}"));
        while value(&mut every).reading.value().map(|value| value.to_string()).as_deref() != Some(level) {}
    }
    let told = [value(&mut crossing), value(&mut crossing)].map(|value| value.reading.value());
    assert_eq!(told, [Some(20), Some(3)]);
    // It ends, and both subscribers learn it.
    assert_eq!(running.end("TERM").0, Some(0));
    for subscription in [every, crossing] {
        let end = Instant::now() + PATIENCE;
        while !matches!(subscription.next_within(PATIENCE), Some(Event::Down { .. })) {
            assert!(Instant::now() < end, "no subscription heard of the end");
        }
    }
}

#[test]
fn a_client_of_the_own_node_needs_no_hub() {
    let place = Place::new("own");
    let running = place.start();
    let page = || Page::open(&place.0.join("rings/n1/snapshot")).unwrap();
    let client = Client::own(page());
    let found = client.get("n1:mem.total").unwrap();
    assert_eq!((found.len(), &*found[0].node, found[0].series.metric.unit.as_str()), (1, "n1", "bytes"));
    let linked = place.client().get("n1:mem.total").unwrap();
    assert_eq!((&found[0].series, found[0].reading), (&linked[0].series, linked[0].reading));
    assert!(client.get("load.*").unwrap().len() >= 3);
    assert!(matches!(client.get("n2:load.*"), Err(ClientError::OwnOnly { .. })));
    // A task that waits for the next value, by nothing but the stream.
    let selection = Selection::new(["job.level"]).unwrap().rate("50Hz").unwrap();
    let mut levels = client.subscribe(selection.when(Condition::ChangedBy("1".parse().unwrap()))).unwrap();
    for level in [7, 9] {
        place.publish(&format!("level={level}"));
        loop {
            match next_of_stream(&mut levels) {
                Event::Value(value) if value.reading.value() == Some(level) => break,
                Event::Value(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(running.end("TERM").0, Some(0));
    while !matches!(next_of_stream(&mut levels), Event::Down { .. }) {}
    assert!(matches!(client.get("load.*"), Err(ClientError::Down(_))));
}

/// Polls it as an executor would, with a waker that unparks this thread.
fn next_of_stream(subscription: &mut Subscription) -> Event {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::task::Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    let end = Instant::now() + PATIENCE;
    loop {
        let polled = futures_core::Stream::poll_next(std::pin::Pin::new(&mut *subscription), &mut context);
        if let std::task::Poll::Ready(Some(event)) = polled {
            return event;
        }
        assert!(Instant::now() < end, "no event came");
        std::thread::park_timeout(Duration::from_secs(1));
    }
}

#[test]
fn a_function_is_called_for_each_value_until_its_handle_is_dropped() {
    let place = Place::new("callback");
    let _khz = place.start();
    let client = place.client();
    let (sender, values) = std::sync::mpsc::channel();
    let calls = client.subscribe(Selection::new(["load.1m"]).unwrap().rate("10Hz").unwrap()).unwrap();
    let calls = calls.call_for_each(move |event| {
        if let Event::Value(value) = event {
            let _ = sender.send(value);
        }
    });
    let calls = calls.unwrap();
    for _ in 0..3 {
        assert_eq!(&*values.recv_timeout(PATIENCE).unwrap().series.metric.name, "load.1m");
    }
    drop(calls);
    while values.try_recv().is_ok() {}
    assert!(values.recv().is_err(), "the function is gone, and with it its end of the channel");
}

#[test]
fn a_subscription_to_a_channel_goes_on_with_its_new_definition_when_it_is_changed() {
    let place = Place::new("changed");
    let dir = place.0.to_str().unwrap();
    let hub = Running::start_hub(&["--run-dir", dir]);
    let words = ["agent", "--node", "n1", "--hub", &hub.link(), "--run-dir", dir];
    let _agent = Ended::start_silent(&mut khz(&words));
    let define = |words: &[&str]| {
        let done = run(&[&["channel"], words, &["--rate", "10Hz", "--server", &hub.url]].concat());
        assert_eq!(code(&done), 0, "{words:?}: {}", err(&done));
    };
    define(&["create", "seen", "load.1m"]);
    let client = place.client();
    let seen = client.subscribe(Selection::channel("seen").unwrap()).unwrap();
    // The name of the next value.
    let next = || {
        let end = Instant::now() + PATIENCE;
        loop {
            match seen.next_within(PATIENCE) {
                Some(Event::Value(value)) => return value.series.metric.name.to_string(),
                Some(_) if Instant::now() < end => {}
                other => panic!("no value came: {other:?}"),
            }
        }
    };
    assert_eq!(next(), "load.1m");
    for (definition, metric) in [
        (&["mem.available"][..], "mem.available"),
        (&["--expr", "node_load1 >= 0"], "channel.seen"),
        // Of the same series, by another rule.
        (&["--expr", "node_load1 + 1"], "channel.seen"),
        (&["load.1m", "--every", "200ms"], "load.1m"),
    ] {
        define(&[&["set", "seen"], definition].concat());
        while next() != metric {}
        for _ in 0..5 {
            assert_eq!(next(), metric, "{definition:?}: what was before has ended");
        }
    }
}
