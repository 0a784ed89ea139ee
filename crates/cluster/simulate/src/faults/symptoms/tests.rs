//! The courses of faults over the recordings that are part of the program.

use super::*;
use crate::{Library, Reel};
use khz_model::Pattern;

const HOUR: Moment = 3_600_000_000_000;

fn fault(kind: FaultKind, end: FaultEnd) -> Fault {
    let (begin, lasts) = (Nanos::from_secs(3_600), Nanos::from_secs(7_200));
    Fault { kind, nodes: Pattern::everything(), begin, lasts, strength: 1.0, end }
}

/// The value of a slot with and without the fault, every minute from the begin of the fault to an hour after its end.
fn course(reel: &Reel, symptoms: &Symptoms, slot: usize) -> Vec<(f64, f64)> {
    let recorded = |time: Moment, slot: usize| {
        reel.reading_at((time / i128::from(reel.period.0)) as u64, slot, &Default::default()).1
    };
    let minutes = (0..=180).map(|minute| HOUR + minute * HOUR / 60);
    minutes
        .map(|now| {
            let value = recorded(now, slot);
            (symptoms.value(slot, now, value, &recorded) as f64, value as f64)
        })
        .collect()
}

fn reel() -> Reel {
    let library = Library::read(&["compile".into()], None, 0).unwrap();
    Reel::unencoded(library.recordings()[0].clone(), Nanos::SECOND)
}

#[test]
fn every_fault_shows_in_every_recording_and_touches_nothing_before_it_begins() {
    for workload in ["idle", "compile", "netcopy", "mempressure"] {
        let library = Library::read(&[workload.into()], None, 0).unwrap();
        let series = &library.recordings()[0].series;
        for kind in FaultKind::ALL {
            let symptoms = Symptoms::new(&[fault(kind, FaultEnd::Heals)], series);
            assert!(symptoms.show(), "{} in {workload}", kind.as_str());
            for slot in (0..series.len()).filter(|slot| symptoms.touch(*slot)) {
                let is_there = library.recordings()[0].states[slot] == 0 || symptoms.appears(slot);
                assert!(is_there, "{} in {workload}", series[slot]);
                assert_eq!(symptoms.value(slot, HOUR, 7, &|_, _| 5), 7);
            }
        }
    }
}

#[test]
fn counters_never_go_back_whatever_happens_and_however_it_ends() {
    let reel = reel();
    for kind in FaultKind::ALL {
        for end in [FaultEnd::Heals, FaultEnd::Stays] {
            let symptoms = Symptoms::new(&[fault(kind, end)], reel.series());
            for slot in (0..reel.slots()).filter(|slot| symptoms.touch(*slot)) {
                if reel.series()[slot].metric.kind == Kind::Counter {
                    let values: Vec<f64> = course(&reel, &symptoms, slot).iter().map(|pair| pair.0).collect();
                    assert!(values.is_sorted(), "{} of {}", reel.series()[slot], kind.as_str());
                }
            }
        }
    }
}

#[test]
fn memory_falls_evenly_to_nearly_nothing_and_is_back_when_the_leak_heals() {
    let reel = reel();
    let symptoms = Symptoms::new(&[fault(FaultKind::Leak, FaultEnd::Heals)], reel.series());
    let slot = reel.series().iter().position(|one| one.metric.name == "mem.available").unwrap();
    let course = course(&reel, &symptoms, slot);
    let (half, whole) = (course[60], course[120]);
    assert!((0.4..0.6).contains(&(half.0 / half.1)), "{half:?}");
    assert!(whole.0 / whole.1 < 0.2, "{whole:?}");
    assert_eq!(course[121].0, course[121].1);
}

#[test]
fn what_idle_time_lacks_user_time_has() {
    // A node that has no idle time left can lose none.
    let library = Library::read(&["idle".into()], None, 0).unwrap();
    let reel = Reel::unencoded(library.recordings()[0].clone(), Nanos::SECOND);
    let symptoms = Symptoms::new(&[fault(FaultKind::ThrottledCore, FaultEnd::Stays)], reel.series());
    let slot = |name: &str| reel.series().iter().position(|one| one.metric.name == name).unwrap();
    let (idle, user) = (slot("cpu.idle"), slot("cpu.user"));
    assert_eq!(reel.series()[idle].instance, reel.series()[user].instance);
    let (idle, user) = (course(&reel, &symptoms, idle), course(&reel, &symptoms, user));
    for (idle, user) in idle.iter().zip(&user) {
        assert!(((idle.1 - idle.0) - (user.0 - user.1)).abs() <= 1.0, "{idle:?} {user:?}");
    }
    assert!(idle[120].1 - idle[120].0 > 0.0);
}

#[test]
fn a_sum_is_that_of_the_levels() {
    let lasts = 7_200.0;
    for course in [Course::Even, Course::Grows, Course::Squeezes, Course::Bursts] {
        let mut sum = 0.0;
        for second in 0..9_000 {
            let expected = course.sum(f64::from(second), lasts);
            assert!(
                (sum - expected).abs() <= 1.0 + expected * 0.001,
                "{course:?} at {second}: {sum}, {expected}"
            );
            sum += course.level(f64::from(second) + 0.5, lasts);
        }
    }
}
