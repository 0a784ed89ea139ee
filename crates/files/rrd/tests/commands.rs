//! Every command beside rrdtool's, both in pipe mode: same output, same errors, same files afterwards.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod oracle;
#[path = "oracle/pair.rs"]
mod pair;
#[path = "oracle/cases.rs"]
mod random_cases;

use oracle::{Random, Reply};
use pair::{Pair, filled};

/// Command lines that fail, one a line.
const ERRORS: &str = include_str!("oracle/errors.txt");

#[test]
fn errors_read_as_rrdtools() {
    let mut pair = Pair::start("errors");
    pair.theirs.run("create a.rrd --start 1000000000 --step 300 DS:x:GAUGE:600:U:U DS:y:COUNTER:600:0:1000 RRA:AVERAGE:0.5:2:10 RRA:MAX:0.5:4:10");
    let good = std::fs::read(pair.theirs.dir.join("a.rrd")).unwrap();
    let damaged = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        std::fs::write(pair.theirs.dir.join(name), bytes).unwrap();
        pair.copy(name);
    };
    pair.copy("a.rrd");
    damaged("tiny.rrd", &|bytes| bytes.truncate(1));
    damaged("cut.rrd", &|bytes| bytes.truncate(200));
    damaged("short.rrd", &|bytes| bytes.truncate(bytes.len() - 8));
    damaged("version.rrd", &|bytes| bytes[7] = b'6');
    damaged("cookie.rrd", &|bytes| bytes[17] ^= 1);
    damaged("magic.rrd", &|bytes| bytes[0] = b'X');
    let mut wrong = vec![];
    let mut count = 0;
    for line in ERRORS.lines().filter(|line| !line.is_empty()) {
        let (theirs, ours) = pair.both(line);
        count += 1;
        if theirs != ours {
            wrong.push(format!(
                "{line}\n  rrdtool: {:?} {:?}\n     ours: {:?} {:?}",
                theirs.error, theirs.output, ours.error, ours.output
            ));
        }
    }
    println!("{count} error texts compared");
    assert!(wrong.is_empty(), "{} of {count} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn reading_commands_print_what_rrdtool_prints() {
    let mut pair = Pair::start("looking");
    let mut outputs = 0u64;
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(60) {
        let mut random = Random::new(seed);
        let database = random_cases::database(&mut random, seed % 4 == 0);
        let create = format!("create t.rrd {}", database.arguments.join(" "));
        let mut log = vec![format!("seed {seed}"), create.clone()];
        assert_eq!(pair.theirs.run(&create).error, None, "{create}");
        pair.copy("t.rrd");
        let mut feed = random_cases::Feed::new(&database);
        for _ in 0..15 {
            let samples = match random.chance(50) {
                true => feed.steady(&mut random, &database),
                false => feed.next(&mut random, &database),
            };
            let line = format!("updatev t.rrd {}", samples.join(" "));
            log.push(line.clone());
            let (mut theirs, mut ours) = pair.both(&line);
            if theirs.output != ours.output {
                // When one sample completes several rows, rrdtool prints all but the first one row too late; ours are right.
                for line in theirs.output.iter_mut().chain(&mut ours.output) {
                    *line = line.split_once(']').map_or(line.clone(), |(_, rest)| rest.into());
                }
            }
            if theirs.error.is_some() {
                assert_eq!(ours.error, theirs.error, "{}", log.join("\n"));
                // rrdtool keeps what came before the failing argument; ours does not.
                pair.copy("t.rrd");
            } else if seed % 4 != 0 && ours != theirs {
                let at = theirs.output.iter().zip(&ours.output).position(|(a, b)| a != b);
                let at = at.unwrap_or(theirs.output.len().min(ours.output.len()));
                let (a, b) = (theirs.output.get(at), ours.output.get(at));
                panic!("line {at}\n rrdtool: {a:?}\n    ours: {b:?}\n{}", log.join("\n"));
            }
            outputs += 1;
        }
        if seed % 4 == 0 {
            pair.copy("t.rrd");
        }
        for line in [
            "info t.rrd",
            "dump t.rrd",
            "dump -n t.rrd",
            "dump --header xsd t.rrd",
            "last t.rrd",
            "lastupdate t.rrd",
            "first t.rrd",
        ] {
            pair.same(line, &log);
            outputs += 1;
        }
        for _ in 0..20 {
            let end = feed.time as u64 + random.below(40 * database.step);
            let start = end - random.below(200 * database.step);
            let function = random.pick(&["AVERAGE", "MIN", "MAX", "LAST", "SEASONAL", "HWPREDICT"]);
            let resolution = 1 + random.below(10 * database.step);
            let align = if random.chance(20) { "-a" } else { "" };
            pair.same(&format!("fetch t.rrd {function} -s {start} -e {end} -r {resolution} {align}"), &log);
            outputs += 1;
        }
    }
    println!("{outputs} outputs compared");
}

/// The dumps of both files, without row positions.
fn same_content(pair: &mut Pair, file: &str, log: &[String]) {
    pair.same(&format!("dump {file}"), log);
    let (theirs, ours) = pair.both(&format!("info {file}"));
    let kept =
        |reply: Reply| reply.output.into_iter().filter(|line| !line.contains("cur_row")).collect::<Vec<_>>();
    assert_eq!(kept(ours), kept(theirs), "{}", log.join("\n"));
}

#[test]
fn restored_files_hold_what_was_dumped() {
    // In pipe mode rrdtool keeps a range check switched on, so each command has a process of its own.
    let (mut plain, mut checked) = (Pair::start("restore"), Pair::start("restore-checked"));
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(60) {
        let mut random = Random::new(seed);
        let pair = if seed % 2 == 0 { &mut checked } else { &mut plain };
        let (_, _, log) = filled(pair, &mut random, seed % 2 == 0 || seed % 3 == 0);
        pair.theirs.run("dump t.rrd t.xml");
        pair.copy("t.xml");
        let check = if seed % 2 == 0 { "-r" } else { "" };
        pair.same(&format!("restore -f {check} t.xml r.rrd"), &log);
        same_content(pair, "r.rrd", &log);
        // Theirs must read ours.
        let ours = pair.ours.run("dump r.rrd").output;
        std::fs::copy(pair.ours.dir.join("r.rrd"), pair.theirs.dir.join("ours.rrd")).unwrap();
        assert_eq!(pair.theirs.run("dump ours.rrd").output, ours, "{}", log.join("\n"));
    }
}

#[test]
fn resized_files_are_rrdtools() {
    let mut pair = Pair::start("resize");
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(100) {
        let mut random = Random::new(seed);
        let (_, _, mut log) = filled(&mut pair, &mut random, seed % 5 == 0);
        for _ in 0..3 {
            let direction = random.pick(&["GROW", "SHRINK"]);
            let line = format!("resize t.rrd {} {direction} {}", random.below(3), random.below(12));
            log.push(line.clone());
            let (theirs, ours) = pair.both(&line);
            if theirs.error.as_ref().is_some_and(|error| error.starts_with("Do not know how to handle")) {
                // rrdtool resizes no files of versions 4 and 5; ours does.
                continue;
            }
            assert_eq!(ours, theirs, "seed {seed}\n{}", log.join("\n"));
            if theirs.error.is_none() {
                let read = |dir: &std::path::Path| std::fs::read(dir.join("resize.rrd")).unwrap();
                let (a, b) = (read(&pair.theirs.dir), read(&pair.ours.dir));
                if a != b {
                    same_content(&mut pair, "resize.rrd", &log);
                }
            }
        }
    }
}

#[test]
fn tuned_files_are_rrdtools() {
    let mut pair = Pair::start("tune");
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(100) {
        let mut random = Random::new(seed);
        let forecasting = seed % 3 == 0;
        let (database, _, mut log) = filled(&mut pair, &mut random, forecasting);
        let mut name = database.names[0].clone();
        for _ in 0..3 {
            let option = match random.below(if forecasting { 14 } else { 9 }) {
                0 => format!("-h {name}:{}", 1 + random.below(1000)),
                1 => format!("-i {name}:{}", ["U", "-5", "0.5", "nan"][random.below(4) as usize]),
                2 => format!("-a {name}:{}", ["U", "1e9", "10000000"][random.below(3) as usize]),
                3 => format!("-d {name}:{}", ["GAUGE", "COUNTER", "DERIVE"][random.below(3) as usize]),
                4 => format!("-r {name}:r{}", random.below(1000)),
                5 => format!("DEL:nobody{}", random.below(2)),
                6 | 7 => format!("-h {name}:5 -a {name}:77"),
                8 => "DELRRA:7".to_string(),
                9 => "--alpha 0.3".to_string(),
                10 => "--beta 0.25 --gamma 0.75".to_string(),
                11 => "--gamma-deviation 0.5 --deltapos 3 --deltaneg 1.5".to_string(),
                12 => "--failure-threshold 2 --window-length 6".to_string(),
                _ => format!("-b {name}"),
            };
            let line = format!("tune t.rrd {option}");
            log.push(format!("seed {seed}: {line}"));
            if let Some((_, new)) = option.split_once(" ").filter(|(flag, _)| *flag == "-r") {
                name = new.split_once(':').unwrap().1.into();
            }
            let (theirs, ours) = pair.both(&line);
            assert_eq!(ours, theirs, "{}", log.join("\n"));
            same_content(&mut pair, "t.rrd", &log);
        }
    }
}

#[test]
fn archives_come_and_go_without_touching_other_rows() {
    // When one archive changes, rrdtool fills all again from whichever fits; ours leaves the others alone.
    let mut pair = Pair::start("archives");
    let rows =
        |reply: Reply| reply.output.into_iter().filter(|line| line.contains("<row>")).collect::<Vec<_>>();
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(30) {
        let (_, _, log) = filled(&mut pair, &mut Random::new(seed), seed % 3 == 0);
        let before = rows(pair.ours.run("dump t.rrd"));
        for line in [
            "tune t.rrd RRA#0:+5",
            "tune t.rrd RRA:MIN:0.5:3:7",
            "tune t.rrd DS:fresh:GAUGE:9:U:U",
            "tune t.rrd DEL:fresh",
        ] {
            assert_eq!(pair.ours.run(line).error, None, "{line}\n{}", log.join("\n"));
        }
        let after = rows(pair.ours.run("dump t.rrd"));
        let missing: Vec<_> = before.iter().filter(|row| !after.contains(row)).collect();
        assert!(missing.is_empty(), "{missing:?}\n{}", log.join("\n"));
        assert_eq!(after.len(), before.len() + 12);
        std::fs::copy(pair.ours.dir.join("t.rrd"), pair.theirs.dir.join("t.rrd")).unwrap();
        assert_eq!(rows(pair.theirs.run("dump t.rrd")), after);
    }
}

#[test]
fn a_step_is_tuned_where_the_file_is_rebuilt_and_rows_keep_their_length() {
    let mut pair = Pair::start("step");
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(40) {
        let mut random = Random::new(seed);
        let (_, _, mut log) = filled(&mut pair, &mut random, false);
        let step = random.pick(&["1", "5", "10", "60", "100", "300", "600", "0", "-5", "x", "12s", "7", ""]);
        // Alone it is ignored; with a change of structure it must divide the old step.
        let change = random.pick(&["", "DELRRA:99", "DEL:nobody", "-h d0:77"]);
        let line = format!("tune t.rrd --step={step} {change}");
        log.push(format!("seed {seed}: {line}"));
        pair.same(&line, &log);
        same_content(&mut pair, "t.rrd", &log);
    }
}

#[test]
fn rows_added_to_an_archive_are_filled_from_coarser_ones() {
    let mut pair = Pair::start("rows");
    let create = "create t.rrd --start 1000000000 --step 300 DS:x:GAUGE:600:U:U RRA:LAST:0.5:1:5 RRA:AVERAGE:0.5:4:10 \
                  RRA:AVERAGE:0.5:8:20";
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(40) {
        let mut random = Random::new(seed);
        let samples: Vec<String> =
            (1..60).map(|index| format!("{}:{}", 1_000_000_000 + 300 * index, random.below(50))).collect();
        let mut log = vec![create.to_string(), format!("update t.rrd {}", samples.join(" "))];
        for line in &log {
            assert_eq!(pair.theirs.run(line).error, None, "{line}");
        }
        pair.copy("t.rrd");
        // Archives of more points than the one changed stay as they are in rrdtool, too.
        for _ in 0..3 {
            let (sign, count) = (random.pick(&["+", "="]), 6 + random.below(30));
            let line = format!("tune t.rrd RRA#0:{sign}{count}");
            log.push(format!("seed {seed}: {line}"));
            pair.same(&line, &log);
            let (theirs, ours) = pair.both("dump t.rrd");
            let rows = |reply: Reply| {
                let mut lines = reply.output;
                let end = lines.iter().position(|line| line.contains("</rra>")).unwrap_or(0);
                lines.truncate(end);
                lines.retain(|line| line.contains("<row>"));
                lines
            };
            assert_eq!(rows(ours), rows(theirs), "{}", log.join("\n"));
            pair.copy("t.rrd");
        }
    }
}
