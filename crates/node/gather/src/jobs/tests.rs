//! Tests of the source `jobs`: what programs publish, and how long it stays.

use std::os::unix::net::UnixDatagram;

use khz_model::Value;
use khz_model::labels::LABELS_MAX;
use proptest::prelude::*;

use super::*;

/// An entrance on one end of a socket pair, and the other end.
fn jobs() -> (Jobs, UnixDatagram) {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    (Jobs::new(JobDoor::new(ours).unwrap()), theirs)
}

fn at(seconds: u64) -> Stamp {
    Stamp { boot: Nanos::from_secs(seconds), real_offset: 0 }
}

fn shown(jobs: &Jobs) -> Vec<String> {
    let reading = |slot: usize| Reading::from_parts(jobs.readings.states[slot], jobs.readings.values[slot]);
    let series = jobs.readings.schema.series().iter().enumerate();
    series.map(|(slot, series)| format!("{series} {:?}", reading(slot))).collect()
}

#[test]
fn a_published_number_stays_in_its_slot_until_it_was_silent_for_a_while() {
    let (mut jobs, job) = jobs();
    let mut room = Vec::new();
    jobs.gather(at(1), &mut room);
    assert!(jobs.readings.schema.is_empty());
    job.send(b"queue[a]=1\n\nqueue[b]=2\nlatency=0.50 unit=seconds").unwrap();
    job.send(b"job.queue[a]=7").unwrap();
    jobs.gather(at(2), &mut room);
    let all = ["job.queue[a] Present(7)", "job.queue[b] Present(2)", "job.latency Present(50)"];
    assert_eq!(
        (shown(&jobs), jobs.readings.changed.clone()),
        (all.map(str::to_owned).to_vec(), vec![0, 1, 2])
    );
    job.send(b"queue[b]=2").unwrap();
    jobs.gather(at(20), &mut room);
    assert!(jobs.readings.changed.is_empty(), "the same again");
    jobs.gather(at(32), &mut room);
    let gone =
        ["job.queue[a] Absent(InstanceGone)", "job.queue[b] Present(2)", "job.latency Absent(InstanceGone)"];
    assert_eq!((shown(&jobs), jobs.readings.changed.clone()), (gone.map(str::to_owned).to_vec(), vec![0, 2]));
    job.send(b"latency=2").unwrap();
    jobs.gather(at(33), &mut room);
    assert_eq!(shown(&jobs)[2], "job.latency Present(200)");
}

/// Jobs that are gathered after each datagram.
struct Lab {
    jobs: Jobs,
    job: UnixDatagram,
    room: Vec<u8>,
}

impl Lab {
    fn new() -> Self {
        let (jobs, job) = jobs();
        Lab { jobs, job, room: Vec::new() }
    }

    fn say(&mut self, bytes: impl AsRef<[u8]>, now: Stamp) {
        self.job.send(bytes.as_ref()).unwrap();
        self.jobs.gather(now, &mut self.room);
    }

    /// Each series with its value, as doors print it.
    fn shown(&self) -> Vec<String> {
        let Readings { schema, states, values, .. } = &self.jobs.readings;
        let text = |(slot, series): (usize, &Series)| {
            let reading = Reading::from_parts(states[slot], values[slot]);
            let value = series.metric.format().value(reading);
            format!("{series}={}", value.map_or_else(|| format!("{reading:?}"), |value| value.to_string()))
        };
        schema.series().iter().enumerate().map(text).collect()
    }

    /// The counts of refusals that are not 0.
    fn refusals(&self) -> Vec<(Refusal, u64)> {
        use Refusal::*;
        let all = [Bad, TooMany, Mismatched, Collided, Unfit, TooOld, TooNew, Overtaken];
        let counted = all.map(|refusal| (refusal, self.count(self.jobs.door.counts.of(refusal))));
        counted.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    fn count(&self, count: &AtomicU64) -> u64 {
        count.load(Ordering::Relaxed)
    }

    fn dropped(&self) -> u64 {
        self.count(&self.jobs.door.counts.dropped)
    }
}

#[test]
fn a_name_keeps_its_kind_its_type_and_its_unit() {
    let mut lab = Lab::new();
    let first = "level[a]=-3 unit=bytes\nsteps=7 kind=counter\nloss=1e-3 type=float\nplain=1";
    lab.say(first, at(1));
    let all = ["job.level[a]=-3", "job.steps=7", "job.loss=0.001", "job.plain=1"];
    assert_eq!(lab.shown(), all);
    let others = ["level[a]=1 kind=counter", "level[b]=1 kind=counter", "level=1", "steps=8 kind=gauge"];
    let more = ["steps=8 type=float", "loss=1 type=signed", "level[a]=1 unit=seconds", "plain[x]=1"];
    lab.say(others.join("\n"), at(2));
    lab.say(more.join("\n"), at(2));
    assert_eq!(
        (lab.refusals(), lab.shown()),
        (vec![(Refusal::Mismatched, 8)], all.map(str::to_owned).to_vec())
    );
    let same = "level[a]=-4 unit=bytes type=signed\nsteps=8 kind=counter places=2\nloss=2 type=float help=x";
    lab.say(same, at(3));
    assert_eq!(lab.shown()[..3], ["job.level[a]=-4", "job.steps=8", "job.loss=2"]);
    assert_eq!(lab.refusals(), [(Refusal::Mismatched, 8)]);
}

#[test]
fn a_value_that_its_name_cannot_hold_changes_nothing() {
    let mut lab = Lab::new();
    lab.say("steps[a]=7 kind=counter\nlevel=1.5", at(1));
    let all = ["job.steps[a]=7", "job.level=1.5"];
    lab.say("steps[a]=-1\nsteps[b]=-1\nnew=-1 kind=counter\nlevel=1e3\nlevel=NaN", at(1));
    lab.say("level=922337203685477580.8\nother=9223372036854775808\nlevel=abc", at(1));
    assert_eq!(lab.refusals(), [(Refusal::Bad, 1), (Refusal::Unfit, 7)]);
    assert_eq!(lab.shown(), all, "and takes no slot");
    lab.say("level=-922337203685477580.8\nsteps[a]=18446744073709551615", at(1));
    assert_eq!(lab.shown(), ["job.steps[a]=18446744073709551615", "job.level=-922337203685477580.8"]);
}

#[test]
fn a_value_never_replaces_one_that_was_measured_later() {
    let mut lab = Lab::new();
    let now = Stamp { boot: Nanos::from_secs(2_000), real_offset: 1_763_690_000_000_000_000 };
    let line = |value: u32, seconds: f64| format!("a={value} time={:.3}", 1_763_692_000.0 + seconds);
    lab.say(line(1, -20.0), now);
    lab.say(line(2, -10.5), now);
    lab.say(line(3, -10.6), now);
    assert_eq!((lab.shown(), lab.refusals()), (vec!["job.a=2".to_owned()], vec![(Refusal::Overtaken, 1)]));
    lab.say(line(4, -10.5), now);
    assert_eq!(lab.shown(), ["job.a=4"], "the same time is not later");
    lab.say([line(7, 1.0), line(5, -1.0), line(6, 0.0)].join("\n"), now);
    assert_eq!(lab.shown(), ["job.a=7"], "in whatever order they come");
    lab.say("a=8", now);
    assert_eq!(lab.shown(), ["job.a=8"], "without a time it is the newest");
    lab.say(line(9, 0.5), now);
    assert_eq!(lab.shown(), ["job.a=8"], "and moves no time back");
    assert_eq!(lab.refusals(), [(Refusal::Overtaken, 4)]);
    // The wall clock is set back by an hour.
    let set = Stamp { boot: Nanos::from_secs(2_010), real_offset: now.real_offset - 3_600_000_000_000 };
    lab.say(line(10, -3_600.0 + 9.0), set);
    assert_eq!(lab.shown(), ["job.a=10"], "what is new stays new");
}

#[test]
fn a_time_too_old_or_too_new_is_refused_and_makes_no_name() {
    let mut lab = Lab::new();
    let now = Stamp { boot: Nanos::from_secs(20), real_offset: 1_763_690_000_000_000_000 };
    let line = |name: &str, seconds: i64| format!("{name}=1 time={}", 1_763_690_020 + seconds);
    lab.say(line("old", -601), now);
    lab.say(line("new", 6), now);
    lab.say("zero=1 time=0\nmilliseconds=1 time=1763690020000", now);
    assert_eq!((lab.shown(), lab.refusals()), (vec![], vec![(Refusal::TooOld, 2), (Refusal::TooNew, 2)]));
    lab.say([line("before_boot", -600), line("ahead", 5)].join("\n"), now);
    assert_eq!(lab.shown(), ["job.before_boot=1", "job.ahead=1"]);
    assert_eq!(lab.count(&lab.jobs.door.counts.values), 2);
}

#[test]
fn labels_tell_series_apart_in_whatever_order_they_are_written() {
    let mut lab = Lab::new();
    lab.say(
        "q[w 3,rank=1,gpu=0]=17\nq[w%203,gpu=0,rank=1]=18\nq[w 3,rank=2]=-1\nq[w 3]=2\nq[rank=1]=3",
        at(1),
    );
    lab.say(
        "q[W 3,rank=1]=4\nq[w 3,Rank=1]=5\nq[w 3,rank=]=6\nq[w 3,rank=1,rank=2]=7\nq[w 3,part=1]=8",
        at(1),
    );
    let all = [
        "job.q[w%203,gpu=0,rank=1]=18",
        "job.q[w%203,rank=2]=-1",
        "job.q[w%203]=2",
        "job.q[rank=1]=3",
        "job.q[W%203,rank=1]=4",
        "job.q[w%203,Rank=1]=5",
    ];
    assert_eq!((lab.shown(), lab.refusals()), (all.map(str::to_owned).to_vec(), vec![(Refusal::Bad, 3)]));
    let labels = |count: usize| (0..count).map(|n| format!(",l{n}=v")).collect::<String>();
    lab.say(format!("q[all{}]=1", labels(LABELS_MAX)), at(2));
    lab.say(format!("q[all{}]=1", labels(1_000)), at(2));
    assert_eq!((lab.shown().len(), lab.refusals()), (7, vec![(Refusal::Bad, 4)]));
}

#[test]
fn a_cut_datagram_loses_its_last_line_and_a_line_of_other_bytes_no_other_one() {
    let mut lab = Lab::new();
    let mut text = format!("a=1\nb=2 help={}\n", "h".repeat(DATAGRAM_MAX - 20));
    text.push_str(&"c=123456"[..DATAGRAM_MAX - text.len()]);
    assert_eq!(text.len(), DATAGRAM_MAX);
    lab.say(format!("{text}789"), at(1));
    assert_eq!((lab.shown(), lab.dropped()), (vec!["job.a=1".to_owned(), "job.b=2".to_owned()], 1));
    lab.say(&text, at(1));
    assert_eq!((lab.shown().len(), lab.dropped()), (3, 1), "it just fits");
    lab.say("x".repeat(3 * DATAGRAM_MAX), at(1));
    assert_eq!((lab.dropped(), lab.refusals()), (2, vec![]));
    lab.say(b"a=3\nq[\xff]=1\r\nb=4\r\n", at(1));
    assert_eq!(
        (&lab.shown()[..2], lab.refusals()),
        (&["job.a=3".to_owned(), "job.b=4".to_owned()][..], vec![(Refusal::Bad, 1)])
    );
}

#[test]
fn numbers_beyond_the_limits_are_dropped_and_counted() {
    let mut lab = Lab::new();
    lab.say("a=1\n".repeat(100), at(1));
    assert_eq!(lab.dropped(), 36);
    for n in 0..JOB_METRICS_MAX + 10 {
        lab.say(format!("m{n}=1"), at(1));
    }
    assert_eq!(lab.refusals(), [(Refusal::TooMany, 11)], "'a' is one of them");
    lab.say("m0[x]=1", at(1));
    assert_eq!(
        lab.refusals(),
        [(Refusal::TooMany, 11), (Refusal::Mismatched, 1)],
        "the same name with and without instances"
    );
    lab.say("\u{1}\n=\n====\nb=-", at(1));
    assert_eq!(lab.count(&lab.jobs.door.counts.bad), 4);
    let before = lab.dropped();
    for _ in 0..LINES_A_SECOND / 64 + 1 {
        lab.say("a=1\n".repeat(64), at(2));
    }
    assert_eq!(lab.dropped() - before, 64 - LINES_A_SECOND % 64);
    let long = format!("a=1 help={}", "h".repeat(DATAGRAM_MAX - 9));
    let (fit, before) = (LINE_BYTES_A_SECOND / long.len(), lab.dropped());
    (0..fit + 3).for_each(|_| lab.say(&long, at(3)));
    assert_eq!(lab.dropped() - before, 3, "long lines are dropped sooner");
}

#[test]
fn a_name_that_is_anothers_at_prometheus_is_refused_counted_and_logged() {
    let mut lab = Lab::new();
    lab.say("a.b=1\na_b=2\na_b=3\na.b=4", at(1));
    assert_eq!(lab.shown(), ["job.a.b=4"]);
    assert_eq!(lab.refusals(), [(Refusal::Collided, 2)]);
    assert!(!lab.jobs.collisions.is_over(Nanos::from_secs(2)), "it is logged, and not again at once");
}

#[test]
fn series_are_refused_when_they_or_their_names_are_too_many() {
    let mut lab = Lab::new();
    (0..JOB_SERIES_MAX + 3).for_each(|n| lab.say(format!("q[{n}]=1"), at(1)));
    assert_eq!((lab.shown().len(), lab.refusals()), (JOB_SERIES_MAX, vec![(Refusal::TooMany, 3)]));
    let mut lab = Lab::new();
    let long = "v".repeat(LABELS_BYTES_MAX - 100);
    // A second for each, so that not the bytes of a second are what is counted.
    (0..JOB_SERIES_MAX as u64).for_each(|n| lab.say(format!("q[{n},label={long}]=1"), at(n + 1)));
    let count = lab.shown().len();
    assert!(count < JOB_SERIES_MAX && lab.jobs.names_bytes <= JOB_NAMES_BYTES_MAX);
    assert_eq!(lab.refusals(), [(Refusal::TooMany, (JOB_SERIES_MAX - count) as u64)]);
    assert!(!lab.jobs.has_room());
    for n in 0..3 * SPELLINGS_MAX {
        lab.say(format!("q[{},label={long}]{}=1", n % count, " ".repeat(n / count)), at(10_000 + n as u64));
    }
    assert!(lab.jobs.spellings_bytes <= SPELLINGS_BYTES_MAX && lab.jobs.spellings.len() <= SPELLINGS_MAX);
    lab.jobs.renew(Nanos::from_secs(100_000));
    assert!(lab.jobs.has_room() && (lab.jobs.names_bytes, lab.jobs.spellings_bytes) == (0, 0));
}

#[test]
fn names_that_nobody_uses_any_more_make_room_and_the_others_keep_their_values() {
    let (mut jobs, job) = jobs();
    let mut room = Vec::new();
    let mut say = |jobs: &mut Jobs, text: &str, second| {
        job.send(text.as_bytes()).unwrap();
        jobs.gather(at(second), &mut room);
    };
    (0..JOB_METRICS_MAX).for_each(|n| say(&mut jobs, &format!("m{n}=1"), 1));
    (0..100).for_each(|n| say(&mut jobs, &format!("job.m{}=2", 2 * n), 200));
    say(&mut jobs, "new=1", 300);
    assert_eq!(jobs.readings.schema.slot("job.new", None), None, "there is no room");
    assert_eq!(jobs.slots_gone(Nanos::from_secs(300)), 0);
    assert_eq!(jobs.slots_gone(Nanos::from_secs(301)), JOB_METRICS_MAX - 100);
    jobs.renew(Nanos::from_secs(301));
    assert_eq!((jobs.slots_gone(Nanos::from_secs(301)), jobs.door.metrics().len()), (0, 100));
    let expected: Vec<String> =
        (0..100).map(|n| format!("job.m{} {:?}", 2 * n, Reading::Absent(Absence::InstanceGone))).collect();
    assert_eq!(shown(&jobs), expected, "silent for a while, and not for long enough");
    // Both spellings mean the new slot, and a name that was dropped is new.
    say(&mut jobs, "m198=5\njob.m0=6\nm1=7\nnew=8", 302);
    let shown = shown(&jobs);
    assert_eq!((&*shown[99], &*shown[0]), ("job.m198 Present(5)", "job.m0 Present(6)"));
    assert_eq!(shown[100..], ["job.m1 Present(7)", "job.new Present(8)"]);
}

#[test]
fn a_value_keeps_its_time_when_slots_are_given_back() {
    let mut lab = Lab::new();
    lab.say("gone=1", at(1));
    lab.say("a=1 time=1000", at(1_000));
    lab.jobs.renew(Nanos::from_secs(1_000));
    lab.say("a=2 time=999", at(1_000));
    assert_eq!((lab.shown(), lab.refusals()), (vec!["job.a=1".to_owned()], vec![(Refusal::Overtaken, 1)]));
    lab.say("gone=3 kind=counter", at(1_001));
    assert_eq!(lab.shown(), ["job.a=1", "job.gone=3"], "a name that was dropped may be of another type");
}

proptest! {
    #[test]
    fn any_datagram_is_taken_or_refused_and_every_line_counted(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        lines in prop::collection::vec("[a-c]{1,2}(\\[[a-c=,%0-9]{0,8}\\])?=-?[0-9.e]{0,6}( (kind=counter|type=float|unit=bytes|places=2|time=[0-9]{1,4}))?", 0..20),
    ) {
        let mut lab = Lab::new();
        let text = lines.join("\n");
        for datagram in [bytes.as_slice(), text.as_bytes()] {
            lab.say(datagram, at(1_000));
        }
        let is_line = |line: &&[u8]| !line.trim_ascii().is_empty();
        let count = bytes.split(|&byte| byte == b'\n').filter(is_line).count();
        let counted = lab.count(&lab.jobs.door.counts.values) + lab.dropped()
            + lab.refusals().iter().map(|(_, count)| count).sum::<u64>();
        prop_assert_eq!(counted, (count + lines.len()) as u64);
        let values = lab.jobs.readings.schema.series().iter().zip(&lab.jobs.readings.states);
        for (series, &state) in values {
            prop_assert!(matches!(series.metric.format().value(Reading::from_parts(state, 0)), Some(Value::Number(_)) | None));
        }
    }
}
