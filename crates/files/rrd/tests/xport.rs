//! Exported tables beside rrdtool's.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod oracle;
#[path = "oracle/pair.rs"]
mod pair;
#[path = "oracle/cases.rs"]
mod random_cases;

use oracle::Random;
use pair::{Pair, filled};

const FORMS: [&str; 5] = ["", "-t", "--json", "--json -t", "--enumds"];

#[test]
fn tables_of_series_and_expressions_are_rrdtools() {
    let mut pair = Pair::start("xport");
    let mut compared = 0u64;
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(60) {
        let mut random = Random::new(seed);
        let (database, time, log) = filled(&mut pair, &mut random, false);
        for _ in 0..5 {
            let (start, end) =
                (time - random.below(30 * database.step) - 1, time + random.below(5 * database.step));
            let name = &database.names[0];
            let form = random.pick(&FORMS);
            let line = format!(
                "xport {form} -s {start} -e {end} DEF:a=t.rrd:{name}:AVERAGE DEF:b=t.rrd:{name}:AVERAGE \
                 CDEF:c=a,b,+,2,/ CDEF:d=a,PREV,ADDNAN CDEF:e=a,POP,COUNT CDEF:f=c,PREV(c),- \
                 XPORT:a:first XPORT:c XPORT:d:sum XPORT:e XPORT:f"
            );
            compared += u64::from(compare(&mut pair, &line, &log));
        }
    }
    assert!(compared > 100, "only {compared} tables came to be compared");
}

#[test]
fn values_of_whole_series_are_rrdtools() {
    let functions = [
        "MAXIMUM",
        "MINIMUM",
        "AVERAGE",
        "STDEV",
        "FIRST",
        "LAST",
        "TOTAL",
        "40,PERCENT",
        "95,PERCENT",
        "40,PERCENTNAN",
        "95,PERCENTNAN",
        "0,PERCENTNAN",
        "100,PERCENT",
    ];
    let mut pair = Pair::start("values");
    let mut compared = 0u64;
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(60) {
        let mut random = Random::new(seed);
        let (database, time, log) = filled(&mut pair, &mut random, false);
        let (name, step) = (&database.names[0], database.step);
        // Rows of one point: rrdtool takes the value of a series from its own rows.
        let start = time - (2 + random.below(8)) * step - 1;
        // Mostly before the last update, so that there are rows after the end.
        let end = (time - random.below(3 * step)).max(start + step);
        let line_of = |function: &str| {
            format!(
                "xport -t -s {start} -e {end} --step {step} DEF:a=t.rrd:{name}:LAST VDEF:v=a,{function} \
                 CDEF:c=a,POP,v XPORT:c"
            )
        };
        let largest = pair.theirs.run(&line_of("MAXIMUM")).output;
        let is_unknown = largest.iter().any(|line| line.contains("<v>NaN</v>"));
        for function in functions {
            // Without values rrdtool's rank is what its memory held; ours is unknown.
            if is_unknown && function.ends_with("PERCENTNAN") {
                continue;
            }
            let line = line_of(function);
            // For a table without a whole row rrdtool prints what its memory held.
            let shown = format!("    <step>{step}</step>");
            if pair.theirs.run(&line).output.contains(&shown) {
                compared += u64::from(compare(&mut pair, &line, &log));
            }
        }
    }
    assert!(compared > 100, "only {compared} values came to be compared");
}

#[test]
fn trends_are_rrdtools() {
    let mut pair = Pair::start("trends");
    let mut compared = 0u64;
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(60) {
        let mut random = Random::new(seed);
        let (database, time, log) = filled(&mut pair, &mut random, false);
        for operator in ["TREND", "TRENDNAN"] {
            let (name, start) = (&database.names[0], time - random.below(20 * database.step) - 1);
            let seconds = format!("{}.{}", random.below(6 * database.step), random.below(10));
            let line = format!(
                "xport -t -s {start} -e {time} DEF:a=t.rrd:{name}:AVERAGE CDEF:b=a,{seconds},{operator} XPORT:b"
            );
            compared += u64::from(compare(&mut pair, &line, &log));
        }
    }
    assert!(compared > 30, "only {compared} trends came to be compared");
}

#[test]
fn predictions_within_a_series_are_rrdtools() {
    let (mut pair, base) = squares("predictions");
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(60) {
        let mut random = Random::new(seed);
        for call in ["a,PREDICT", "a,PREDICTSIGMA", "40,a,PREDICTPERC", "-70,a,PREDICTPERC"] {
            let first = random.below(10);
            let (start, end) = (base + 60 * first, base + 60 * (first + 3 + random.below(18)));
            let window = random.pick(&["0", "60", "90.5", "120", "299", "UNKN", "INF", "-0.5", "-61", "3e9"]);
            let shift = match random.below(10) {
                0 => random.pick(&["-1", "-0.5", "-60", "UNKN", "INF", "59.9", "60.5", "3e9"]).to_string(),
                _ => random.below(400).to_string(),
            };
            let count = random.pick(&["1", "1", "1.9", "-1", "-2", "-3.5", "0", "2"]);
            let line = format!(
                "xport -t -s {start} -e {end} DEF:a=t.rrd:x:AVERAGE CDEF:b={shift},{count},{window},{call} XPORT:b"
            );
            pair.same(&line, &[]);
        }
    }
}

/// Where the time asked for ends within a row, a prediction reads one row after the last: rrdtool reads what its memory
/// holds there, ours nothing.
#[test]
fn predictions_up_to_the_middle_of_a_row_are_rrdtools_except_the_last() {
    let (mut pair, base) = squares("middle");
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(60) {
        let mut random = Random::new(seed);
        let first = random.below(10);
        let (start, end) =
            (base + 60 * first, base + 60 * (first + 3 + random.below(15)) + 1 + random.below(59));
        let line = format!(
            "xport -t -s {start} -e {end} DEF:a=t.rrd:x:AVERAGE CDEF:b={},1,{},a,PREDICT XPORT:a XPORT:b",
            random.below(400),
            random.below(300)
        );
        let (theirs, ours) = pair.both(&line);
        let rows = |lines: &[String]| -> Vec<String> {
            let rows = lines.iter().filter(|line| line.contains("<row>"));
            let mut rows: Vec<String> = rows.cloned().collect();
            rows.pop();
            rows
        };
        assert!(rows(&theirs.output).len() >= 3, "{line}");
        assert_eq!(rows(&ours.output), rows(&theirs.output), "{line}");
    }
}

/// Squares of the row's number in 30 rows of a minute, and the time of the first.
fn squares(name: &str) -> (Pair, u64) {
    let (mut pair, base) = (Pair::start(name), 1_000_000_020);
    let create = format!("create t.rrd --start {base} --step 60 DS:x:GAUGE:120:U:U RRA:AVERAGE:0.5:1:100");
    assert_eq!(pair.theirs.run(&create).error, None);
    for row in 1..=30 {
        let update = format!("update t.rrd {}:{}", base + 60 * row, row * row);
        assert_eq!(pair.theirs.run(&update).error, None);
    }
    pair.copy("t.rrd");
    (pair, base)
}

/// Rows after a shift forward. Before them rrdtool prints what its memory held; ours is unknown.
#[test]
fn shifted_columns_are_rrdtools_where_it_has_values() {
    let mut pair = Pair::start("shift");
    let mut compared = 0usize;
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(60) {
        let mut random = Random::new(seed);
        let (database, time, _) = filled(&mut pair, &mut random, false);
        let (name, start) = (&database.names[0], time - 12 * database.step - 1);
        let rows = 1 + random.below(3);
        let line = format!(
            "xport -s {start} -e {time} DEF:a=t.rrd:{name}:AVERAGE CDEF:b=a,1,+ SHIFT:b:{} XPORT:b",
            rows * database.step
        );
        let (theirs, ours) = pair.both(&line);
        let of = |lines: &[String]| -> Vec<String> {
            lines.iter().filter(|line| line.contains("<row>")).skip(rows as usize).cloned().collect()
        };
        let one_point =
            theirs.output.iter().any(|line| *line == format!("    <step>{}</step>", database.step));
        if theirs.error.is_none() && one_point {
            assert_eq!(of(&ours.output), of(&theirs.output), "{line}");
            compared += of(&theirs.output).len();
        }
    }
    assert!(compared > 100, "only {compared} rows came to be compared");
}

/// Compares an export, unless rrdtool refuses it; returns whether it did not.
fn compare(pair: &mut Pair, line: &str, log: &[String]) -> bool {
    let answered = pair.theirs.run(line).error.is_none();
    if answered {
        pair.same(line, log);
    }
    answered
}

#[test]
fn tables_of_few_rows_and_of_series_of_different_steps_are_rrdtools() {
    let mut pair = Pair::start("maxrows");
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(40) {
        let mut random = Random::new(seed);
        let archives = [1 + random.below(3), 2 + random.below(5), 4 + random.below(9)];
        let mut log = vec![format!(
            "create t.rrd --start 1000000000 --step 60 DS:x:GAUGE:300:U:U RRA:LAST:0.5:{}:60 \
             RRA:AVERAGE:0.5:{}:60 RRA:MAX:0.5:{}:60 RRA:MIN:0.5:2:40",
            archives[0], archives[1], archives[2]
        )];
        let sample = |index: u64, random: &mut Random| match random.chance(10) {
            true => format!("{}:U", 1_000_000_000 + 60 * index),
            false => format!("{}:{}", 1_000_000_000 + 60 * index, random.below(100)),
        };
        let samples: Vec<String> = (1..90).map(|index| sample(index, &mut random)).collect();
        log.push(format!("update t.rrd {}", samples.join(" ")));
        for line in &log {
            assert_eq!(pair.theirs.run(line).error, None, "{line}");
        }
        pair.copy("t.rrd");
        for _ in 0..20 {
            let start = 1_000_000_000 + random.below(3000);
            let end = start + 60 + random.below(6000);
            let (rows, step) = (10 + random.below(60), random.below(900));
            let limit = match random.below(3) {
                0 => format!("-m {rows}"),
                1 => format!("--step {step}"),
                _ => format!("-m {rows} --step {step}"),
            };
            // A step of its own may be finer than that of the table.
            let own_step = |random: &mut Random| match random.chance(40) {
                true => format!(":step={}", random.pick(&["1", "60", "120", "300", "333", "900"])),
                false => String::new(),
            };
            let export =
                random.pick(&["XPORT:a", "XPORT:b XPORT:c", "XPORT:c XPORT:d", "XPORT:e", "XPORT:f XPORT:a"]);
            let line = format!(
                "xport -t -s {start} -e {end} {limit} DEF:a=t.rrd:x:LAST{} DEF:b=t.rrd:x:AVERAGE{} \
                 DEF:c=t.rrd:x:MAX DEF:d=t.rrd:x:MIN CDEF:e=a,b,+ CDEF:f=b,c,MAX {export}",
                own_step(&mut random),
                own_step(&mut random),
            );
            compare(&mut pair, &line, &log);
        }
    }
}

#[test]
fn the_first_row_of_a_day_week_month_and_year_is_rrdtools() {
    let mut pair = Pair::start("new");
    for step in [1200, 3600, 5 * 3600, 86_400, 3 * 86_400, 7 * 86_400] {
        let create =
            format!("create t.rrd --start 978000000 --step {step} DS:x:GAUGE:300:U:U RRA:LAST:0.5:1:900");
        assert_eq!(pair.theirs.run(&create).error, None);
        pair.copy("t.rrd");
        let end = 978_000_000 + 800 * step;
        for word in ["NEWDAY", "NEWWEEK", "NEWMONTH", "NEWYEAR"] {
            pair.same(
                &format!(
                    "xport -t -s 978000000 -e {end} -m 1000 DEF:a=t.rrd:x:LAST CDEF:n=a,POP,{word} XPORT:n"
                ),
                std::slice::from_ref(&create),
            );
        }
    }
}

/// PREV, TREND and PREDICT count a variable's own rows, also where these are longer than those of the expression. The long
/// rows begin so much earlier that rrdtool never reads memory that it does not own.
#[test]
fn windows_over_longer_rows_are_rrdtools() {
    let (mut pair, base) = (Pair::start("longer"), 1_000_000_200);
    let create = format!(
        "create t.rrd --start {base} --step 60 DS:x:GAUGE:120:U:U RRA:AVERAGE:0.5:1:400 RRA:AVERAGE:0.5:5:100 \
         RRA:MAX:0.5:7:60"
    );
    let mut random = Random::new(1);
    let sample = |row: u64, random: &mut Random| match random.chance(10) {
        true => format!("{}:U", base + 60 * row),
        false => format!("{}:{}", base + 60 * row, random.below(1000)),
    };
    let samples: Vec<String> = (1..=390).map(|row| sample(row, &mut random)).collect();
    for line in [create, format!("update t.rrd {}", samples.join(" "))] {
        assert_eq!(pair.theirs.run(&line).error, None);
    }
    pair.copy("t.rrd");
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(120) {
        let mut random = Random::new(seed);
        let start = base + 60 * (200 + random.below(100));
        let end = start + 60 * (3 + random.below(60));
        let early = start - 60 * 150;
        let (series, seconds) = (random.pick(&["a", "b", "c"]), random.below(3000));
        let call = match random.below(6) {
            0 => format!("a,b,+,c,+,POP,PREV({series})"),
            1 => format!("a,b,+,c,+,POP,{series},{seconds},TREND"),
            2 => format!("a,b,+,c,+,{series},{series},{seconds},TRENDNAN,+,+"),
            3 => format!("a,b,+,c,+,POP,{},1,{},{series},PREDICT", random.below(2000), random.below(2000)),
            4 => format!("a,b,+,c,+,POP,300,-3,{},{series},PREDICTSIGMA", random.below(2000)),
            _ => format!("a,b,+,c,+,POP,0,600,2,{},40,{series},PREDICTPERC", random.below(2000)),
        };
        let line = format!(
            "xport -t -s {start} -e {end} --step 60 DEF:a=t.rrd:x:AVERAGE DEF:b=t.rrd:x:AVERAGE:step=300:start={early} \
             DEF:c=t.rrd:x:MAX:step=420:start={early} VDEF:v=b,MAXIMUM CDEF:d={call} CDEF:p=d,PREV(v),- XPORT:d XPORT:p"
        );
        pair.same(&line, &[]);
    }
}

/// A time that ends where it begins has no rows; the table stands without them.
#[test]
fn a_table_of_no_time_is_rrdtools() {
    let (mut pair, base) = squares("moment");
    for moment in [base, base + 60, base + 90, base + 60 * 30, base + 60 * 200, base + 60 * 200 + 7] {
        for form in FORMS {
            pair.same(
                &format!(
                    "xport {form} -s {moment} -e {moment} DEF:a=t.rrd:x:AVERAGE CDEF:b=a,1,+ XPORT:a XPORT:b"
                ),
                &[],
            );
        }
    }
}

/// More rows than fit the memory are read in pieces: those that the file does not hold cost nothing.
#[test]
fn a_time_of_many_rows_is_rrdtools() {
    let (mut pair, base) = squares("many-rows");
    for (first, last) in
        [(base - 60_000_000, base + 3000), (base + 300, base + 60_000_000), (base, base + 9_000_000)]
    {
        pair.same(&format!("xport -s {first} -e {last} -m 40 DEF:a=t.rrd:x:AVERAGE XPORT:a"), &[]);
    }
}
