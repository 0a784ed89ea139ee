//! Random graphs beside rrdtool's: all numbers and places that `graphv` tells, and its errors.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;
#[path = "../../rrd/tests/oracle/cases.rs"]
mod random_cases;

use oracle::{Oracle, Random};

/// rrdtool and ours, the same file in both directories.
struct Pair {
    theirs: Oracle,
    ours: Oracle,
}

impl Pair {
    fn start(name: &str) -> Self {
        Self::start_in_zone(name, "UTC")
    }

    fn start_in_zone(name: &str, zone: &str) -> Self {
        let dir = oracle::directory(name);
        let (a, b) = (dir.join("theirs"), dir.join("ours"));
        std::fs::create_dir_all(&a).unwrap();
        std::fs::create_dir_all(&b).unwrap();
        let ours = Oracle::start_in_zone(env!("CARGO_BIN_EXE_khz-rrd-graph"), &b, zone);
        Self { theirs: Oracle::start_in_zone("rrdtool", &a, zone), ours }
    }

    /// Fills the file and returns the time of its last update, its step and a source's name.
    fn fill(&mut self, random: &mut Random) -> (u64, u64) {
        let step = 300;
        let start = 1_000_000_000 + random.below(1_000_000);
        let create = format!(
            "create t.rrd --start {start} --step {step} DS:a:GAUGE:900:U:U DS:b:GAUGE:900:U:U \
             RRA:AVERAGE:0.5:1:200 RRA:AVERAGE:0.5:6:200 RRA:MAX:0.5:6:200"
        );
        assert_eq!(self.theirs.run(&create).error, None);
        let scale = [1.0, 1e-4, 1e3, 1e7, 123.0][random.below(5) as usize];
        let mut time = start;
        for _ in 0..10 {
            let mut samples = vec![];
            for _ in 0..30 {
                time += step;
                let mut value = || match random.below(25) {
                    0 => "U".to_string(),
                    1 => "0".to_string(),
                    _ => format!("{}", (random.below(2000) as f64 - 300.0) * scale),
                };
                samples.push(format!("{time}:{}:{}", value(), value()));
            }
            assert_eq!(self.theirs.run(&format!("update t.rrd {}", samples.join(" "))).error, None);
        }
        std::fs::copy(self.theirs.dir.join("t.rrd"), self.ours.dir.join("t.rrd")).unwrap();
        (time, step)
    }

    /// Makes rrdtool's file by these commands, and copies it.
    fn make(&mut self, commands: &[String]) {
        for command in commands {
            assert_eq!(self.theirs.run(command).error, None, "{command}");
        }
        std::fs::copy(self.theirs.dir.join("t.rrd"), self.ours.dir.join("t.rrd")).unwrap();
    }

    fn same(&mut self, seed: u64, line: &str) {
        let (theirs, ours) = self.both(line);
        if exception(line, &theirs, &ours).is_none() {
            assert_eq!(ours, theirs, "seed {seed}\n{line}");
        }
    }

    /// The answers of both without what differs from run to run.
    fn both(&mut self, line: &str) -> (Vec<String>, Vec<String>) {
        let shown = |reply: oracle::Reply| -> Vec<String> {
            let error = reply.error.map(|error| format!("ERROR: {error}"));
            reply.output.into_iter().filter(|line| !line.is_empty()).chain(error).collect()
        };
        (shown(self.theirs.run(line)), shown(self.ours.run(line)))
    }
}

const OPTIONS: [&str; 93] = [
    "",
    "-A",
    "-M",
    "-J",
    "-r",
    "-l 0",
    "-u 100",
    "-l -5 -u 5 -r",
    "-o",
    "-w 150",
    "-h 40",
    "-t title",
    "-v vertical",
    "-W mark",
    "-j",
    "-g",
    "-D",
    "-b 1024",
    "--right-axis 2:1",
    "--right-axis-label r",
    "-x none",
    "-y none",
    "-L 9",
    "-n LEGEND:10",
    "-n AXIS:9",
    "-n TITLE:12",
    "-F",
    "-E",
    "-Y",
    "-X 3",
    "-S 1800",
    "-Z",
    "-w 37",
    "-l 10 -o",
    "-N",
    "-n DEFAULT:6",
    "-n LEGEND:9.3",
    "-n DEFAULT:7.7",
    "-T 20",
    "-T 0",
    "-L 0",
    "-L 3 -y none",
    "-J -M",
    "-A -J",
    "-u 100 -F",
    "-l 1 -u 3 -r -o",
    "--legend-position=north",
    "--legend-position=east",
    "--legend-position=west",
    "--legend-direction=bottomup",
    "-w 60 -h 20",
    "-w 600 -h 200",
    "-l -100 -u 1000",
    "--border 0",
    "-m 1.5",
    "-f %s_%lu_%lu%%",
    "-x HOUR:1:HOUR:2:HOUR:4:0:%H",
    "-x MINUTE:10:HOUR:1:HOUR:1:0:%X",
    "-x DAY:1:DAY:1:DAY:1:86400:%a",
    "-y 1000000000000:2",
    "--right-axis 0.5:-3 --right-axis-format %.1lf",
    "--right-axis -1:0 --right-axis-formatter timestamp",
    "--left-axis-format %5.1lf",
    "--right-axis-formatter duration",
    "-X 0",
    "-X -3",
    "--units=si -o",
    "-r --allow-shrink -l 1000",
    "-I",
    "-M -r",
    "-J -l 0",
    "-o -r",
    "-o -u 1000",
    "-t a<br/>b",
    "-t a\\nb<br>\\nc\\nd -n TITLE:13.3",
    "-t \\na<BR/>",
    "-t a\\n",
    "-m 1.37 -f %s:%lu,%lu",
    "-m 0.7 -f %s:%lu,%lu -j",
    "-m 3 -f %lu-%s",
    "-f ''",
    "--legend-direction=bottomup2",
    "--legend-direction=bottomup2 --legend-position=north",
    "--legend-direction=topdown2",
    "--left-axis-format ''",
    "--right-axis 1:0 --right-axis-format ''",
    "--right-axis-formatter duration --right-axis-format %le",
    "--left-axis-formatter duration --left-axis-format %lg -o",
    "--left-axis-formatter duration --left-axis-format %lg -j",
    "--left-axis-formatter duration --left-axis-format %h",
    "--right-axis-format %d",
    "-m 1.37 -D -f %s:%lu,%lu",
    "-P -t a<br/>b",
];
const FUNCTIONS: [&str; 14] = [
    "MAXIMUM",
    "MINIMUM",
    "AVERAGE",
    "STDEV",
    "LAST",
    "FIRST",
    "TOTAL",
    "95,PERCENT",
    "40,PERCENTNAN",
    "LSLSLOPE",
    "LSLINT",
    "LSLCORREL",
    "0,PERCENT",
    "100,PERCENT",
];
const FORMATS: [&str; 8] = ["%lf", "%6.2lf%s", "%8.3le", "%lg", "%5.1lf%S", "a%lf%%", "%.0lf", "%-9.2lf|"];
const ENDS: [&str; 13] =
    ["", "", "\\l", "\\n", "\\r", "\\c", "\\j", "\\s", "\\g", "\\u", "\\t", "\\.", "\\x"];

/// One argument that draws or prints.
fn element(random: &mut Random, time: u64) -> String {
    let series = random.pick(&["a", "b", "c", "d", "e"]);
    let end = random.pick(&ENDS);
    let word = random.pick(&["word", "x", "longer.text", ""]);
    match random.below(15) {
        0 | 1 => format!("LINE{}:{series}#ff0000:{word}{end}", random.pick(&["", "1", "2.5"])),
        2 => format!("AREA:{series}#00ff00:{word}{end}"),
        3 => format!("AREA:{series}#00ff00:{word}{end}:STACK"),
        4 => format!("LINE1:{series}#0000ff:{word}:STACK"),
        5 => format!("GPRINT:v:{}{end}", random.pick(&FORMATS)),
        6 => format!(
            "GPRINT:{series}:{}:{}{end}",
            random.pick(&["AVERAGE", "MIN", "MAX", "LAST"]),
            random.pick(&FORMATS)
        ),
        7 => format!(
            "PRINT:{series}:{}:{}",
            random.pick(&["AVERAGE", "MIN", "MAX", "LAST"]),
            random.pick(&FORMATS)
        ),
        8 => format!("PRINT:v:{}", random.pick(&FORMATS)),
        10 => format!("HRULE:{}#123456:{word}", random.below(200)),
        11 => format!("VRULE:{}#123456:{word}", time - random.below(80_000)),
        12 => format!("TICK:{series}#123456:0.{}:{word}", random.below(9)),
        // A text of two lines.
        9 if random.chance(30) => {
            format!("GPRINT:v:{word}%n{}:strftime", random.pick(&["%H", "x", "longer.than.the.first", "%n"]))
        }
        9 => format!("COMMENT:{word}{end}"),
        13 => format!("SHIFT:{series}:{}", random.pick(&["3600", "-300", "100"])),
        _ => format!("TEXTALIGN:{}", random.pick(&["left", "right", "center", "justified"])),
    }
}

fn line(random: &mut Random, time: u64, step: u64) -> String {
    let end = time - random.below(10) * step - random.below(3) * 77;
    let start = end - 1 - random.below(80) * step - random.below(2) * random.below(700);
    let options: Vec<&str> = (0..random.below(4)).map(|_| random.pick(&OPTIONS)).collect();
    let elements: Vec<String> = (0..1 + random.below(8)).map(|_| element(random, time)).collect();
    let function = random.pick(&FUNCTIONS);
    // rrdtool sorts infinite values in no order; ours is that of the manual.
    let of = random.pick(if function.contains("PERCENT") {
        &["a", "b", "c", "d"]
    } else {
        &["a", "b", "c", "d", "e"]
    });
    format!(
        "graphv g.png -s {start} -e {end} {} DEF:a=t.rrd:a:{} DEF:b=t.rrd:b:AVERAGE:step={} CDEF:c=a,b,+ \
         CDEF:d=a,0,GT,a,UNKN,IF CDEF:e=COUNT,{},%,0,EQ,{},b,IF VDEF:v={of},{function} {}",
        options.join(" "),
        random.pick(&["AVERAGE", "MAX"]),
        random.pick(&["300", "600", "1800", "900"]),
        1 + random.below(9),
        random.pick(&["INF", "NEGINF", "UNKN", "0"]),
        elements.join(" "),
    )
}

/// Why rrdtool's answer cannot be ours: the exceptions of docs/rrd.md.
fn exception(line: &str, theirs: &[String], ours: &[String]) -> Option<&'static str> {
    if theirs.iter().any(|answer| answer.contains("SANITY CHECK")) {
        return Some("rrdtool refuses a range that is shorter than a row of --step");
    }
    if line.contains("%n") && line.contains("-m ") {
        return Some("rrdtool rounds the height of a legend's lines in the enlarged picture");
    }
    // rrdtool sorts no value at all and prints what its memory holds.
    let is_unknown = ours.iter().any(|answer| answer.contains("nan"));
    (is_unknown && line.contains(",PERCENTNAN ")).then_some("a percentile of a series without values")
}

fn compare(cases: u64) {
    let mut pair = Pair::start("graph");
    let (mut compared, mut excepted) = (0usize, 0usize);
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(cases) {
        let mut random = Random::new(seed);
        let (time, step) = pair.fill(&mut random);
        for _ in 0..20 {
            let line = line(&mut random, time, step);
            let (theirs, ours) = pair.both(&line);
            compared += 1;
            if theirs == ours {
                continue;
            }
            if exception(&line, &theirs, &ours).is_some() {
                excepted += 1;
                continue;
            }
            let at = (0..).find(|at| theirs.get(*at) != ours.get(*at)).unwrap_or(0);
            panic!("seed {seed}\n{line}\n  rrdtool: {:?}\n     ours: {:?}", theirs.get(at), ours.get(at));
        }
    }
    eprintln!("{compared} command lines compared, {excepted} of them exceptions");
    assert!(compared >= 20);
    assert!(excepted * 50 <= compared, "{excepted} of {compared} are exceptions");
}

#[test]
fn numbers_and_places_are_rrdtools() {
    compare(8);
}

/// A number of any size and sign, and sizes that are near to each other.
fn number(random: &mut Random) -> String {
    let value = match random.below(5) {
        0 => random.below(10_000) as f64 / 1000.0,
        1 => random.below(1_000_000) as f64 * 10f64.powi(random.below(24) as i32 - 18),
        2 => 90.0 + random.below(20_000) as f64 / 1000.0,
        3 => [0.0, 1.0, 5.0, 10.0, 99.0, 100.0, 101.0, 1024.0, 0.5][random.below(9) as usize],
        _ => random.below(1000) as f64,
    };
    if random.chance(35) { format!("{}", -value) } else { format!("{value}") }
}

#[test]
fn ranges_of_the_value_axis_are_rrdtools() {
    const SCALES: [&str; 12] = [
        "-r",
        "-A",
        "-M",
        "-J",
        "-o",
        "-Y",
        "-b 1024",
        "-X 3",
        "--units=si",
        "--allow-shrink",
        "-N",
        "-y none",
    ];
    let mut pair = Pair::start("ranges");
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(500) {
        let mut random = Random::new(seed);
        let mut words = vec!["graphv g.png -s 1000000000 -e 1000030000 -w 20 -h 20".to_string()];
        for limit in ["-l", "-u"] {
            if random.chance(40) {
                words.push(format!("{limit} {}", number(&mut random)));
            }
        }
        words.extend(SCALES.iter().filter(|_| random.chance(15)).map(|scale| scale.to_string()));
        for _ in 0..1 + random.below(3) {
            let end = random.pick(&["", "", "::STACK", "::skipscale"]);
            words.push(format!("{}:{}#f00{end}", random.pick(&["LINE", "AREA"]), number(&mut random)));
        }
        let line = words.join(" ");
        pair.same(seed, &line);
    }
}

/// Zones with half hours, with half an hour of daylight saving, with a skipped day, and none that is known.
const ZONES: [&str; 12] = [
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "Asia/Kathmandu",
    "Pacific/Apia",
    "Africa/Casablanca",
    "<+0330>-3:30",
    "XYZ-5:45:30",
    "Antarctica/Troll",
    "Nowhere/None",
];
/// Definitions of times of their own, some shifted before and after others were computed from them.
#[test]
fn definitions_with_times_of_their_own_are_rrdtools() {
    let mut pair = Pair::start("times-of-their-own");
    let (mut compared, mut apart) = (0usize, 0usize);
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(6) {
        let mut random = Random::new(seed);
        let (time, step) = pair.fill(&mut random);
        for _ in 0..30 {
            let line = line_of_times(&mut random, time, step);
            let (theirs, ours) = pair.both(&line);
            // An expression of series that have no time in common is unknown; rrdtool asks for less than no memory.
            if theirs.iter().any(|answer| answer.contains("malloc im->gdes[gdi].data")) {
                assert!(!ours.iter().any(|answer| answer.contains("ERROR")), "seed {seed}\n{line}: {ours:?}");
                apart += 1;
                continue;
            }
            assert_eq!(ours, theirs, "seed {seed}\n{line}");
            compared += 1;
        }
    }
    eprintln!("{compared} command lines compared, {apart} without a time in common");
    assert!(compared > apart);
}

fn line_of_times(random: &mut Random, time: u64, step: u64) -> String {
    let end = time - random.below(20) * step;
    let start = end - 60 * step;
    let mut names: Vec<String> = vec![];
    let (mut values, mut words) = (vec![], vec![]);
    for index in 0..1 + random.below(3) {
        let from = start - random.below(60) * step - random.below(2) * random.below(700);
        let own =
            if random.chance(60) { format!(":start={from}:end={}", from + 60 * step) } else { String::new() };
        let steps =
            if random.chance(40) { random.pick(&[":step=600", ":step=1800", ":step=900"]) } else { "" };
        let (source, function) = (random.pick(&["a", "b"]), random.pick(&["AVERAGE", "MAX"]));
        words.push(format!("DEF:d{index}=t.rrd:{source}:{function}{own}{steps}"));
        names.push(format!("d{index}"));
    }
    for index in 0..random.below(6) {
        let of = names[random.below(names.len() as u64) as usize].clone();
        let other = &names[random.below(names.len() as u64) as usize];
        words.push(match random.below(4) {
            0 => format!(
                "SHIFT:{of}:{}",
                random.pick(&["18000", "-18000", "300", "100", "-1000", "1800", "90000"])
            ),
            1 => {
                values.push(format!("v{index}"));
                let functions =
                    ["MAXIMUM", "AVERAGE", "LAST", "FIRST", "TOTAL", "95,PERCENT", "LSLSLOPE", "STDEV"];
                format!("VDEF:v{index}={of},{}", random.pick(&functions))
            }
            _ => {
                let value = values.last().cloned().unwrap_or_else(|| "8".into());
                let texts = [
                    format!("{of},{other},+"),
                    format!("{of},{value},*"),
                    format!("{of},{other},ADDNAN"),
                    format!("{of},COUNT,*"),
                ];
                names.push(format!("c{index}"));
                format!("CDEF:c{index}={}", texts[random.below(4) as usize])
            }
        });
    }
    for name in &names {
        let of = |function| format!("GPRINT:{name}:{function}:%.6le");
        words.extend(["AVERAGE", "MIN", "MAX", "LAST"].map(of));
        words.push(format!("LINE:{name}#f00"));
    }
    for name in &values {
        words.extend([format!("GPRINT:{name}:%.6le"), format!("GPRINT:{name}:%s_%H_%d:strftime")]);
    }
    let width = random.pick(&["40", "100", "400"]);
    format!("graphv g.png -s {start} -e {end} -w {width} {}", words.join(" "))
}

/// When clocks change in one of them.
const CHANGES: [u64; 6] =
    [1_698_541_200, 1_679_792_400, 1_699_164_000, 1_696_086_000, 1_325_203_200, 1_000_000_000];

#[test]
fn times_in_other_zones_are_rrdtools() {
    const FORMATS: [&str; 9] =
        ["%H\\:%M", "%Y-%m-%d_%H.%M.%S", "%Z", "%z", "%c", "%j_%U_%V", "%s", "%x_%X", "%G%p%I%e"];
    const GRIDS: [&str; 3] = [
        "-x HOUR:1:DAY:1:DAY:1:86400:%a",
        "-x WEEK:1:MONTH:1:DAY:2:0:%d",
        "-x MINUTE:30:HOUR:6:HOUR:12:0:%H",
    ];
    for (index, zone) in ZONES.iter().enumerate() {
        let mut pair = Pair::start_in_zone("zones", zone);
        for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(4) {
            let mut random = Random::new(seed * 100 + index as u64);
            let change = CHANGES[random.below(CHANGES.len() as u64) as usize] + random.below(7200);
            let begin = change - 90_000;
            let samples: Vec<String> =
                (1..600).map(|row| format!("{}:{}", begin + 300 * row, random.below(100))).collect();
            pair.make(&[
                format!("create t.rrd --start {begin} --step 300 DS:a:GAUGE:900:U:U RRA:AVERAGE:0.5:1:700"),
                format!("update t.rrd {}", samples.join(" ")),
            ]);
            for _ in 0..6 {
                let (start, end) = (change - 300 - random.below(80_000), change + 300 + random.below(80_000));
                let format = random.pick(&FORMATS);
                let function = random.pick(&["MAXIMUM", "MINIMUM", "LAST", "FIRST", "AVERAGE"]);
                let line = format!(
                    "graphv g.png -w 50 -h 20 -s {start} -e {end} -S {} {} DEF:a=t.rrd:a:AVERAGE \
                     CDEF:h=a,UN,TIME,TIME,IF CDEF:d=LTIME,TIME,-,a,POP CDEF:m=a,POP,{} VDEF:v=a,{function} \
                     VDEF:w=d,MAXIMUM VDEF:u=d,MINIMUM VDEF:x=h,{function} GPRINT:v:{format}:strftime \
                     PRINT:w:%lf PRINT:u:%lf PRINT:x:{format}:valstrftime PRINT:m:AVERAGE:%lf VRULE:v#f00:r LINE:a",
                    random.pick(&["300", "1800", "3600", "86400"]),
                    if random.chance(30) { random.pick(&GRIDS) } else { "" },
                    random.pick(&["NEWDAY", "NEWWEEK", "NEWMONTH", "NEWYEAR", "STEPWIDTH"]),
                );
                pair.same(seed, &line);
            }
        }
    }
}

#[test]
fn bands_of_forecasts_are_rrdtools() {
    let mut pair = Pair::start("bands");
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(6) {
        let mut random = Random::new(seed);
        let start = 1_000_000_000 + random.below(100_000);
        let value = |row: u64, random: &mut Random| match random.below(20) {
            0 => "U".to_string(),
            1 => random.below(1000).to_string(),
            _ => (50.0 + 30.0 * (row as f64 / 24.0 * std::f64::consts::TAU).sin() + random.below(10) as f64)
                .to_string(),
        };
        let samples: Vec<String> =
            (1..400).map(|row| format!("{}:{}", start + 300 * row, value(row, &mut random))).collect();
        let kind = random.pick(&["HWPREDICT", "MHWPREDICT"]);
        pair.make(&[
            format!(
                "create t.rrd --start {start} --step 300 DS:a:GAUGE:900:U:U RRA:AVERAGE:0.5:1:400 \
                 RRA:AVERAGE:0.5:6:100 RRA:{kind}:300:0.1:0.0035:24"
            ),
            format!("update t.rrd {}", samples.join(" ")),
        ]);
        for _ in 0..10 {
            let end = start + 300 * 400 - random.below(30_000);
            let options: Vec<&str> = (0..random.below(3)).map(|_| random.pick(&OPTIONS)).collect();
            let line = format!(
                "graphv g.png -s {} -e {end} {} DEF:a=t.rrd:a:AVERAGE DEF:p=t.rrd:a:{kind} \
                 DEF:q=t.rrd:a:DEVPREDICT DEF:f=t.rrd:a:FAILURES DEF:s=t.rrd:a:SEASONAL \
                 DEF:t=t.rrd:a:DEVSEASONAL CDEF:low=p,q,2,*,- CDEF:width=q,4,* CDEF:high=p,q,2,*,+ \
                 TICK:f#ffffa0:{}:failures AREA:low AREA:width#0000ff30:band:STACK LINE1:high#00f:upper \
                 LINE2:a#f00:value VDEF:n=f,TOTAL VDEF:l=f,LAST GPRINT:n:%.0lf GPRINT:f:MAX:%lf\\l \
                 PRINT:l:%s:strftime PRINT:low:MIN:%.6le PRINT:high:MAX:%.6le PRINT:s:LAST:%.6le \
                 PRINT:t:LAST:%.6le",
                end - 300 - random.below(100_000),
                options.join(" "),
                random.pick(&["1.0", "0.5", "-0.2"]),
            );
            pair.same(seed, &line);
        }
    }
}

#[test]
fn a_fresh_picture_is_not_drawn_again() {
    let mut pair = Pair::start("lazy");
    let line = "graphv g.png --lazy -f %s_%lu_%lu -s 1000000000 -e 1000030000 LINE:5#f00:x";
    for _ in 0..2 {
        pair.same(0, line);
    }
    let drawn = |pair: &Pair| std::fs::metadata(pair.ours.dir.join("g.png")).unwrap().modified().unwrap();
    let before = drawn(&pair);
    pair.same(0, line);
    assert_eq!(drawn(&pair), before);
    // Another size is drawn, which rrdtool leaves as it is.
    pair.ours.run(&line.replace("--lazy", "--lazy -w 100"));
    assert_ne!(drawn(&pair), before);
}

/// Tables hold what is drawn, exported and printed; `graph` and `graphv` tell the rest. The file is compared too.
#[test]
fn tables_are_rrdtools() {
    const FORMS: [&str; 8] = ["CSV", "SSV", "TSV", "XML", "XMLENUM", "JSON", "JSONTIME", "CSV"];
    const MORE: [&str; 12] = [
        "",
        "",
        "-f %s_%lu_%lu",
        "-f ''",
        "-z",
        "-m 2 -f %s_%lu_%lu",
        "-S 600",
        "-w 20",
        "-x HOUR:8:DAY:1:DAY:1:0:%Y-%m-%d_%H:%M",
        "-x none",
        "-x HOUR:8:DAY:1:DAY:1:0:%s! -x none",
        "-x none -x HOUR:8:DAY:1:DAY:1:0:%H.%M",
    ];
    let mut pair = Pair::start("tables");
    let mut compared = 0usize;
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(8) {
        let mut random = Random::new(seed);
        let (time, step) = pair.fill(&mut random);
        for _ in 0..30 {
            let line = table_line(&mut random, &FORMS, &MORE, time, step);
            let name = line.split(' ').nth(1).unwrap().to_string();
            let _ = std::fs::remove_file(pair.ours.dir.join(&name));
            let _ = std::fs::remove_file(pair.theirs.dir.join(&name));
            let (theirs, ours) = pair.both(&line);
            let is_exact = !line.contains(" JSON") && !theirs.concat().contains("nan");
            let of = |answer: &[String]| -> Vec<String> {
                let is_told = |line: &&String| is_exact || !line.starts_with("image = ");
                answer.iter().filter(is_told).map(|line| plain(line)).collect()
            };
            assert_eq!(of(&ours), of(&theirs), "seed {seed}\n{line}");
            let file =
                |pair: &oracle::Oracle| std::fs::read_to_string(pair.dir.join(&name)).unwrap_or_default();
            let lines = |text: String| -> Vec<String> { text.lines().map(plain).collect() };
            assert_eq!(lines(file(&pair.ours)), lines(file(&pair.theirs)), "seed {seed}\n{line}");
            compared += usize::from(theirs.iter().all(|line| !line.starts_with("ERROR")));
        }
    }
    assert!(compared > 100, "only {compared} tables came to be compared");
}

/// Our JSON is valid, rrdtool's is not: it escapes nothing and forgets a comma. And within a table rrdtool prints an unknown value
/// without its sign, which it prints everywhere else.
fn plain(line: &str) -> String {
    let line = line.trim_matches([' ', ',']).replace("\\\\", "\\");
    // It also rounds halves there in another way.
    let is_printed = ["print\":", "print>"].iter().any(|word| line.contains(word));
    let digit = |letter: char| if is_printed && letter.is_ascii_digit() { '0' } else { letter };
    let line: String = line.chars().map(digit).collect();
    if line.contains("nan") { line.replace(['-', ' '], "") } else { line }
}

fn table_line(
    random: &mut Random,
    forms: &[&'static str],
    more: &[&'static str],
    time: u64,
    step: u64,
) -> String {
    let end = time - random.below(10) * step - random.below(2) * 77;
    // A time that begins at its end has no rows.
    let start = end - random.below(4).min(1) * (1 + random.below(60) * step + random.below(700));
    let form = random.pick(forms);
    let name = random.pick(&["-", "g.table", "./g.table"]);
    let options: Vec<&str> = (0..1 + random.below(2)).map(|_| random.pick(more)).collect();
    let mut elements = vec![];
    for _ in 0..1 + random.below(6) {
        let series = random.pick(&["a", "b", "c"]);
        let end = random.pick(&ENDS);
        let word = random.pick(&["word", "  lead", "x y", ""]);
        let function = random.pick(&["AVERAGE", "MIN", "MAX", "LAST"]);
        let format = random.pick(&FORMATS);
        elements.push(match random.below(10) {
            0 => format!("'LINE:{series}#f00:{word}{end}'"),
            1 => format!("'LINE1.5:{series}:{word}{end}:STACK'"),
            2 => format!("'AREA:{series}#f00:{word}{end}'"),
            3 => format!("'AREA:{series}:{word}{end}:STACK'"),
            4 => format!("'XPORT:{series}:{word}{end}'"),
            5 => format!("'PRINT:{series}:{function}:{format}'"),
            6 => format!("'GPRINT:{series}:{function}:{format}{end}'"),
            7 => format!("'COMMENT:{word}{end}'"),
            8 => format!("PRINT:v:{format}"),
            _ => format!("TEXTALIGN:{}", random.pick(&["left", "right", "center", "justified"])),
        });
    }
    format!(
        "{} {name} -a {form} -s {start} -e {end} {} DEF:a=t.rrd:a:AVERAGE DEF:b=t.rrd:b:AVERAGE:step={} CDEF:c=a,b,+ \
         VDEF:v=a,MAXIMUM {}",
        random.pick(&["graph", "graphv"]),
        options.join(" "),
        random.pick(&["300", "600", "1800"]),
        elements.join(" "),
    )
}
