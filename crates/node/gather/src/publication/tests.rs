//! Tests of reading the lines that programs publish.

use khz_model::labels::{LABELS_BYTES_MAX, LABELS_MAX};
use khz_model::{Labels, Reading, ValueType};
use proptest::prelude::*;

use super::*;

const NOW: Nanos = Nanos::from_secs(1_763_690_000);

fn described(line: &str) -> Description {
    Publication::read(line).unwrap().describe().unwrap()
}

fn problem_of(line: &str) -> Option<String> {
    let checked = Publication::read(line).and_then(|publication| publication.check(NOW));
    checked.err().map(|error| error.to_string())
}

fn problem(line: &str) -> String {
    problem_of(line).unwrap_or_else(|| panic!("{line} is right"))
}

#[test]
fn a_line_is_a_name_a_value_and_what_it_says_of_itself() {
    let line =
        "queue[worker 3%3Da]=17.25 unit=bytes kind=counter places=3 time=12.5 help=Tasks that = wait time=7";
    let publication = Publication::read(line).unwrap();
    let said = publication.describe().unwrap();
    assert_eq!(publication.number.bits(said.format, said.kind), Ok(17_250));
    assert_eq!(publication.options.time, Some(Nanos(12_500_000_000)), "help goes to the end of the line");
    assert_eq!((said.name.as_str(), said.help.as_str()), ("job.queue", "Tasks that = wait time=7"));
    let counter = ValueFormat { value_type: ValueType::Unsigned, places: 3 };
    assert_eq!((said.unit, said.kind, said.format), (Unit::Bytes, Kind::Counter, counter));
    assert_eq!(said.instance.unwrap().name(), "worker 3=a");
    assert_eq!(described("job.queue=1").name, described("queue=1").name);
}

#[test]
fn a_gauge_is_signed_a_counter_is_not_and_a_float_is_declared() {
    let format = |line| {
        let ValueFormat { value_type, places } = described(line).format;
        (value_type, places)
    };
    assert_eq!(format("a=-0.25"), (ValueType::Signed, 2));
    assert_eq!(format("a=0.25 kind=gauge places=4 type=signed"), (ValueType::Signed, 4));
    assert_eq!(format("a=0.25 kind=counter"), (ValueType::Unsigned, 2));
    assert_eq!(format("a=-0.25 type=float"), (ValueType::Float, 0));
    assert_eq!(format("a=1e300 type=float kind=counter"), (ValueType::Float, 0));
    assert_eq!(problem("a=1 type=unsigned"), "a gauge is signed, or with type=float a double");
    assert_eq!(problem("a=1 type=signed kind=counter"), "a counter is unsigned, or with type=float a double");
    assert!(problem("a=1 type=float places=2").contains("leave out places="));
    assert!(problem("a=1 type=double").contains("write float; without it"));
}

#[test]
fn labels_follow_the_name_in_any_order() {
    let instance = |line| described(line).instance.unwrap();
    let labelled = instance("queue[worker 3,rank=1,gpu=0]=17");
    assert_eq!(labelled.to_string(), "worker%203,gpu=0,rank=1");
    assert_eq!(labelled, instance("queue[worker%203,gpu=0,rank=1]=-4 unit=bytes"));
    assert_eq!(instance("queue[rank=1]=17").name(), "");
    assert_ne!(instance("queue[a,x=Y]=1"), instance("queue[a,X=y]=1"), "names that differ in case are two");
    assert_ne!(instance("queue[A]=1"), instance("queue[a]=1"));
}

#[test]
fn a_name_with_marks_of_labels_is_shown_as_it_is_written_now() {
    for (line, written) in [
        ("queue[worker,3]=1", "queue[worker%2C3]"),
        ("queue[a,rank=1,2]=1", "queue[a,rank=1%2C2]"),
        ("queue[a,rank=1=2]=1", "queue[a,rank=1%3D2]"),
        ("queue[a,1=2]=1", "queue[a%2C1%3D2]"),
        ("queue[1=2]=1", "queue[1%3D2]"),
        ("queue[100%,d=e]=1", "queue[100%25,d=e]"),
        ("queue[a,]=1", "queue[a%2C]"),
        ("queue[a[b]=1", "queue[a%5Bb]"),
    ] {
        let said = problem(line);
        assert!(said.ends_with(&format!("\nwrite {written}=...")), "{line}: {said}");
        described(&format!("{written}=1"));
    }
    assert_eq!(problem_of("queue[a:b/c,d=e]=1"), None, "these may be written as they are");
    for line in ["Queue[a]=1", "queue[a,b=1,b=2]=1", "queue[]=1"] {
        assert!(!problem(line).contains("write queue") && problem(line).contains("column"), "{line}");
    }
}

#[test]
fn labels_have_limits() {
    let line = |count: usize| {
        let labels: Vec<String> = (0..count).map(|number| format!("l{number}=v")).collect();
        format!("queue[{}]=1", labels.join(","))
    };
    described(&line(LABELS_MAX));
    for count in [LABELS_MAX + 1, 1_000] {
        assert!(problem(&line(count)).contains("at most 64 labels"), "{count}");
    }
    let long = |bytes| format!("queue[a={}]=1", "v".repeat(bytes));
    described(&long(LABELS_BYTES_MAX - 3));
    assert!(problem(&long(LABELS_BYTES_MAX - 2)).contains("at most 4096 bytes"));
    assert!(problem("queue[a=1,a=2]=1").contains("'a' is there twice"));
    assert!(problem("queue[a=]=1").contains("no value"));
    described(&format!("queue[{}]=1", "i".repeat(INSTANCE_MAX)));
    assert!(problem(&format!("queue[{}]=1", "i".repeat(INSTANCE_MAX + 1))).contains("at most 255 bytes"));
    for label in LABELS_TAKEN {
        let said = problem(&format!("queue[a,{label}=1]=1"));
        assert!(said.contains(&format!("such as my_{label}")), "{said}");
    }
}

#[test]
fn a_value_counts_for_ten_minutes_and_may_be_a_little_ahead() {
    let at = |seconds: i64| format!("a=1 time={}", 1_763_690_000 + seconds);
    for seconds in [-600, -1, 0, 5] {
        assert_eq!(Publication::read(&at(seconds)).unwrap().check(NOW), Ok(()), "{seconds}");
    }
    assert!(problem(&at(-601)).contains("601 s ago"));
    assert!(problem(&at(6)).contains("6 s ahead"));
    for far in ["1763690000000", "99999999999999999999"] {
        assert!(problem(&format!("a=1 time={far}")).contains("not milliseconds"), "{far}");
    }
    assert!(problem("a=1 time=0").contains("s ago"));
    for time in ["", "-1", "1e9", "now", "1763690000,5"] {
        let said = problem(&format!("a=1 time={time}"));
        assert!(said.contains("write seconds since 1970"), "{said}");
    }
}

#[test]
fn the_error_names_what_is_wrong_with_a_line() {
    assert_eq!(problem("queue"), "'queue' has no value: write it as NAME=VALUE");
    assert_eq!(problem("a=1,5"), "'1,5' is not a number, such as 17, -3 or 0.25");
    assert!(problem("a=1e3").contains("needs type=float"));
    assert!(problem("a=-1 kind=counter").contains("leave out kind=counter"));
    assert!(problem("a=9223372036854775808").contains("does not fit into 63 bits"));
    assert_eq!(
        problem("a=1 colour=red"),
        "'colour=red' is not one of unit=, kind=, type=, places=, time=, help="
    );
    assert_eq!(
        problem("a=1 unit=miles"),
        "'unit=miles' cannot be read: write count, bytes, seconds, percent, pages, packets, hertz, celsius, volts, amperes, watts or joules"
    );
    for unit in khz_model::Unit::ALL {
        assert!(problem("a=1 unit=miles").contains(unit.as_str()), "UNITS in options.rs lacks {unit}");
    }
    assert!(problem("a=1 kind=total").contains("gauge or counter"));
    assert!(problem("a=1 places=10").contains("from 0 to 9"));
    assert!(problem("n7:a=1").contains("its own node"));
    assert!(problem("Queue=1").contains("column"));
    assert!(problem(&format!("{}=1", "a".repeat(126))).contains("at most 128"));
}

#[test]
fn a_correction_means_what_was_meant() {
    for (spelled, meant) in [
        ("queue[a,b]", "queue[a%2Cb]"),
        ("queue[rank=1,worker 3]", "queue[worker%203,rank=1]"),
        ("queue[x,e=]", "queue[x]"),
    ] {
        assert_eq!(corrected(spelled).as_deref(), Some(meant), "{spelled}");
    }
}

#[test]
fn what_a_line_says_itself_wins_over_defaults() {
    let all = |line| with_defaults(line, "unit=bytes kind=counter", Some("What\nit is"));
    assert_eq!(all("a[b=c d]=1"), "a[b=c d]=1 unit=bytes kind=counter help=What it is");
    assert_eq!(all("a=1 unit=seconds help=Own"), "a=1 unit=bytes kind=counter unit=seconds help=Own");
    assert_eq!(described(&all("a=1 unit=seconds help=Own")).unit, Unit::Seconds);
    assert_eq!(with_defaults("a=1 places=2", "", None), "a=1 places=2");
    assert!(
        problem(&all("nonsense")).contains("has no value") || problem(&all("nonsense")).contains("column")
    );
}

#[test]
fn lines_are_put_together_as_far_as_a_datagram_takes_them() {
    let datagram = |lines: &[&str]| datagrams(lines.iter().copied());
    assert_eq!(datagram(&["a=1", "b=2"]), ["a=1\nb=2"]);
    let many = datagram(&["a=1"; 130]);
    assert_eq!(many.iter().map(|datagram| datagram.lines().count()).collect::<Vec<_>>(), [64, 64, 2]);
    let half = "x".repeat(DATAGRAM_MAX / 2);
    let lengths = datagram(&[&half, &half[1..], &half]);
    assert_eq!(lengths.iter().map(String::len).collect::<Vec<_>>(), [8_192, 4_096]);
    assert_eq!(datagram(&[]), [""; 0]);
    let line = |bytes: usize| format!("a=1 help={}", "h".repeat(bytes - 9));
    described(&line(DATAGRAM_MAX));
    assert_eq!(problem(&line(DATAGRAM_MAX + 1)), "a line has at most 8192 bytes, and this one has 8193");
}

proptest! {
    #[test]
    fn any_text_gives_a_publication_or_a_problem(line in "\\PC{0,120}") {
        if let Ok(publication) = Publication::read(&line) {
            let _ = publication.check(NOW);
        }
    }

    #[test]
    fn lines_that_are_nearly_right_do_not_panic(
        name in "[a-c.\\[\\]=,%:0-9é]{0,20}", value in "-?[0-9.]{0,24}",
        options in "(unit=|kind=|type=float|places=|time=|help=|[a-z0-9 .]){0,6}",
    ) {
        if let Ok(publication) = Publication::read(&format!("{name}={value} {options}"))
            && let Ok(said) = publication.describe()
        {
            prop_assert!(said.name.starts_with(PREFIX) && said.name.len() <= METRIC_NAME_MAX);
        }
    }

    #[test]
    fn a_correction_is_a_name_that_can_be_read(inside in "[a-c=,%0-9:\\[\\]/é ]{1,16}") {
        if let Some(written) = corrected(&format!("queue[{inside}]")) {
            prop_assert!(SeriesName::parse(&written).is_ok(), "{}", written);
        }
    }

    #[test]
    fn what_a_door_prints_is_published_as_the_same_series(
        name in "[^\0]{0,12}", labels in prop::collection::btree_map("[a-c]{1,4}", "[^\0]{1,12}", 0..4), steps in any::<i64>(),
        places in 0..=PLACES_MAX,
    ) {
        let labels = Labels::new(labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))).unwrap();
        let instance = Instance::from_text(&name).unwrap().with_labels(&labels);
        prop_assume!(!instance.to_string().is_empty());
        let format = ValueFormat { value_type: ValueType::Signed, places };
        let value = format.value(Reading::Present(steps.cast_unsigned())).unwrap();
        let line = format!("job.queue[{instance}]={value}");
        let publication = Publication::read(&line).unwrap();
        let said = publication.describe().unwrap();
        prop_assert_eq!((said.name.as_str(), said.instance, said.format), ("job.queue", Some(instance), format));
        prop_assert_eq!(publication.number.bits(format, Kind::Gauge), Ok(steps.cast_unsigned()));
    }
}
