//! In a language with a decimal comma both programs read the same, write the same files, and print the same, but for the
//! comma itself: rrdtool prints it where people read, and ours prints a point everywhere.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod oracle;
mod sides;

use std::process::Command;

use oracle::Random;
use sides::{Locale, Mode, Sides};

/// Values with points and commas, wherever a command takes one.
const COMMANDS: &str = "
create a.rrd --start 1000000000 --step 60 DS:x:GAUGE:600:-0.5:U DS:y:COMPUTE:x,2,* RRA:AVERAGE:0.5:1:20 RRA:MAX:0.5:4:5
create b.rrd --start 1000000000 DS:x:GAUGE:600:0,5:U RRA:AVERAGE:0.5:1:10
create b.rrd --start 1000000000 DS:x:GAUGE:600:U:U RRA:AVERAGE:0,5:1:10
create h.rrd --start 1000000000 DS:x:GAUGE:600:U:U RRA:HWPREDICT:20:0.5:0.25:10
update a.rrd 1000000060:1.5
update a.rrd 1000000120:1,5
update a.rrd 1000000180.5:2.5
update a.rrd 1000000240,5:2.5
updatev a.rrd 1000000230:3.5
fetch a.rrd AVERAGE -s 1000000000 -e 1000000400
info a.rrd
info h.rrd
lastupdate a.rrd
last a.rrd
first a.rrd
dump a.rrd
dump a.rrd a.xml
restore a.xml r.rrd
info r.rrd
tune a.rrd --maximum x:1000.5
tune a.rrd --maximum x:1000,5
tune h.rrd --alpha 0.3
tune h.rrd --alpha 0,3
xport -s 1000000000 -e 1000000400 DEF:a=a.rrd:x:AVERAGE CDEF:b=a,1.5,* XPORT:b
xport --json -s 1000000000 -e 1000000400 DEF:a=a.rrd:x:AVERAGE VDEF:v=a,95,PERCENT CDEF:b=a,v,* XPORT:b
";

/// Numbers as in Germany, made in a directory of its own; `None` where its sources are missing.
fn german() -> Option<Locale> {
    let place = oracle::directory("locale");
    let mut localedef = Command::new("localedef");
    localedef.args(["-i", "de_DE", "-f", "UTF-8"]).arg(place.join("de_DE.UTF-8"));
    let made = localedef.output().is_ok_and(|output| output.status.success());
    let comma = ("LC_NUMERIC", "de_DE.UTF-8".into());
    made.then(|| vec![("LOCPATH", place), ("LC_ALL", "".into()), ("LANG", "C".into()), comma])
}

/// `text` with points for the commas between digits.
fn with_points(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let is_digit = |at: Option<usize>| at.and_then(|at| letters.get(at)).is_some_and(char::is_ascii_digit);
    let point = |(at, letter): (usize, &char)| match letter {
        ',' if is_digit(at.checked_sub(1)) && is_digit(at.checked_add(1)) => '.',
        letter => *letter,
    };
    letters.iter().enumerate().map(point).collect()
}

#[test]
fn where_numbers_have_a_comma_only_that_comma_differs() {
    let Some(locale) = german() else {
        return khz_skip::skip("localedef makes no de_DE: install Debian's package `locales`");
    };
    let (mut random, mut met) = (Random::new(1), vec![]);
    for mode in [Mode::Alone, Mode::Pipe] {
        let mut sides = Sides::start_in(env!("CARGO_BIN_EXE_khz-rrd"), 0, mode, &locale);
        for line in COMMANDS.trim().lines() {
            let words: Vec<String> = line.split(' ').map(str::to_string).collect();
            let Some(difference) = sides.compare(&words, &mut random) else { continue };
            let (theirs, ours) = (&difference.theirs, &difference.ours);
            assert_eq!(ours.code, theirs.code, "{line}\n{difference}");
            assert_eq!(difference.files(), [""; 0], "{line}\n{difference}");
            for (theirs, ours) in [(&theirs.out, &ours.out), (&theirs.error, &ours.error)] {
                assert_eq!(with_points(ours), with_points(theirs), "{line}");
            }
            sides.align();
            met.push(words[0].clone());
        }
        sides.remove();
    }
    // rrdtool does print commas, so the language is in use; what programs read has points.
    for command in ["fetch", "info", "updatev"] {
        assert!(met.iter().any(|met| met == command), "{command}: {met:?}");
    }
    for command in ["dump", "xport", "lastupdate"] {
        assert!(met.iter().all(|met| met != command), "{command}: {met:?}");
    }
}
