//! The clock: whether a time service keeps it right, and how wrong the kernel believes it to be (adjtimex(2)); and the time zone of the
//! machine.

use khz_model::Unit;

use crate::entry::{Entry, counter, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "timex",
    path: "adjtimex(2)",
    pieces: Pieces::Survey { subject: Subject::Clock, captured: "survey/timex" },
    only_base: false,
    scalars: SCALARS,
    groups: GROUPS,
    parse,
};

/// The label of the time zone, by the short name that it has now: CET, CEST.
pub const TIME_ZONE: &str = "time_zone";

static GROUPS: &[Group] = &[Group {
    label: TIME_ZONE,
    entries: &[gauge(
        "system.zone_offset",
        "localtime(3)",
        Unit::Seconds,
        "How far the local time of the machine is ahead of UTC.",
    )
    .signed()
    .every(SURVEY_PERIOD)
    .exposed("node_time_zone_offset_seconds", &[])],
    ..Group::PLAIN
}];

static SCALARS: &[Entry] = &[
    gauge("clock.synchronised", "TIME_ERROR", Unit::Count, "1 if a time service keeps the clock right.")
        .at_most(1)
        .every(SURVEY_PERIOD)
        .exposed("node_timex_sync_status", &[]),
    gauge(
        "clock.offset",
        "offset",
        Unit::Seconds,
        "How far the clock still has to be moved; 0 where the time service moves it by other means, as chrony does.",
    )
    .steps(9)
    .signed()
    .every(SURVEY_PERIOD)
    .exposed("node_timex_offset_seconds", &[]),
    gauge("clock.estimated_error", "esterror", Unit::Seconds, "The error that the time service estimates.")
        .steps(6)
        .every(SURVEY_PERIOD)
        .exposed("node_timex_estimated_error_seconds", &[]),
    gauge(
        "clock.max_error",
        "maxerror",
        Unit::Seconds,
        "The largest error that is possible; without a time service it grows up to 16 s.",
    )
    .steps(6)
    .every(SURVEY_PERIOD)
    .exposed("node_timex_maxerror_seconds", &[]),
    gauge("clock.status", "status", Unit::Count, "The kernel's bits STA_... about the clock.")
        .every(SURVEY_PERIOD)
        .exposed("node_timex_status", &[]),
    gauge("clock.frequency", "freq", Unit::Count, "How fast the clock is made to go, as a multiple of its own speed.")
        .steps(FREQUENCY_PLACES)
        .every(SURVEY_PERIOD)
        .exposed("node_timex_frequency_adjustment_ratio", &[]),
    gauge("clock.loop_time_constant", "constant", Unit::Count, "The time constant of the kernel's loop that keeps the clock right.")
        .signed()
        .every(SURVEY_PERIOD)
        .exposed("node_timex_loop_time_constant", &[]),
    gauge("clock.tick", "tick", Unit::Seconds, "The time between two ticks of the clock.")
        .steps(6)
        .every(SURVEY_PERIOD)
        .exposed("node_timex_tick_seconds", &[]),
    gauge("clock.tai_offset", "tai", Unit::Seconds, "How far International Atomic Time is ahead of UTC; 0 if no time service has said it.")
        .signed()
        .every(SURVEY_PERIOD)
        .exposed("node_timex_tai_offset_seconds", &[]),
    gauge("clock.pps_frequency", "ppsfreq", Unit::Count, "The deviation of the clock's speed from the pulse of a second (PPS), as a share of it.")
        .steps(FREQUENCY_PLACES)
        .signed()
        .every(SURVEY_PERIOD)
        .exposed("node_timex_pps_frequency_hertz", &[]),
    gauge("clock.pps_jitter", "jitter", Unit::Seconds, "The mean deviation between two pulses.")
        .steps(9)
        .every(SURVEY_PERIOD)
        .exposed("node_timex_pps_jitter_seconds", &[]),
    gauge("clock.pps_shift", "shift", Unit::Seconds, "The kernel's exponent of the time between two calibrations by the pulse.")
        .every(SURVEY_PERIOD)
        .exposed("node_timex_pps_shift_seconds", &[]),
    gauge("clock.pps_stability", "stabil", Unit::Count, "How much the speed that the pulse shows changes, as a share of it.")
        .steps(FREQUENCY_PLACES)
        .every(SURVEY_PERIOD)
        .exposed("node_timex_pps_stability_hertz", &[]),
    counter("clock.pps_calibrations", "calcnt", Unit::Count, "Calibrations by the pulse.")
        .every(SURVEY_PERIOD)
        .exposed("node_timex_pps_calibration_total", &[]),
    counter("clock.pps_errors", "errcnt", Unit::Count, "Calibrations that failed.")
        .every(SURVEY_PERIOD)
        .exposed("node_timex_pps_error_total", &[]),
    counter("clock.pps_jitters", "jitcnt", Unit::Count, "Pulses that deviated more than they may.")
        .every(SURVEY_PERIOD)
        .exposed("node_timex_pps_jitter_total", &[]),
    counter("clock.pps_unstable", "stbcnt", Unit::Count, "Times that the speed changed more than it may.")
        .every(SURVEY_PERIOD)
        .exposed("node_timex_pps_stability_exceeded_total", &[]),
];

/// Decimal places of a speed: a billionth. The kernel's own step is 0.000 000 000 015, and no door shows as many places.
pub const FREQUENCY_PLACES: u8 = 9;

#[cfg(test)]
mod tests {
    use crate::Parser;
    use khz_model::{Absence, Fault, Reading};

    const TEXT: &str = "* synchronised=1 offset=-1500 estimated_error=12 max_error=25500 status=8193\n";

    #[test]
    fn an_offset_may_be_below_zero() {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(TEXT.as_bytes());
        assert_eq!(parser.faults(), []);
        let offset = parser.schema().series()[1].metric.format().value(parser.reading(1).unwrap()).unwrap();
        assert_eq!(offset.to_string(), "-0.000001500");
        assert_eq!((parser.values()[0], parser.values()[2], parser.values()[3]), (1, 12, 25_500));
        parser.advance_with(TEXT.replace("-1500", "17").as_bytes());
        assert_eq!(parser.reading(1), Some(Reading::Present(17)));
        parser.advance_with(TEXT.replace("-1500", "-18").as_bytes());
        assert_eq!(parser.values()[1].cast_signed(), -18);
    }

    #[test]
    fn a_time_zone_that_goes_makes_room_for_the_next() {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(format!("{TEXT}time_zone CET zone_offset=3600\n").as_bytes());
        parser.advance_with(format!("{TEXT}time_zone <-03> zone_offset=-10800\n").as_bytes());
        assert_eq!(parser.faults(), []);
        let slot = |zone: &str| {
            let is_it =
                |series: &khz_model::Series| series.to_string() == format!("system.zone_offset[{zone}]");
            parser.schema().series().iter().position(is_it).unwrap()
        };
        assert_eq!(parser.reading(slot("CET")), Some(Reading::Absent(Absence::InstanceGone)));
        assert_eq!(parser.values()[slot("<-03>")].cast_signed(), -10_800);
    }

    #[test]
    fn damage_is_failed_never_zero() {
        for offset in ["", "-", "--1", "+1", "1-", "9223372036854775808", "1 offset=2"] {
            let mut parser = Parser::new(&super::FILE);
            parser.advance_with(TEXT.replace("-1500", offset).as_bytes());
            let reading = parser.reading(1).unwrap();
            // A single `-` says that there is no such number.
            let is_right =
                matches!(reading, Reading::Failed(Fault::Malformed | Fault::OutOfRange)) || offset == "-";
            assert!(is_right && reading.value().is_none(), "{offset}: {reading:?}");
        }
    }
}
