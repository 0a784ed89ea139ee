//! Command lines at the edge of their syntax that the fuzzer found, by rrdtool and by ours: output, exit codes, and the
//! bytes of the files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod oracle;
mod sides;

use std::path::Path;

use khz_rrd::header::{CDP_VALUE, Header};
use oracle::Random;
use sides::{Mode, Outcome, Sides};

/// One command a line.
const COMMANDS: &str = "
create a.rrd --start 1000000000 --step 300 DS:x:GAUGE:600:U:U DS:y:COUNTER:600:0:U RRA:AVERAGE:0.5:1:20 RRA:HWPREDICT:20:0.5:0.25:10
update a.rrd 1000000300:18.675:5
tune a.rrd -b no.rrd
tune a.rrd -b
tune a.rrd x -b
tune a.rrd -b x.y
tune a.rrd --aberrant-reset=
tune a.rrd -h
tune a.rrd -i x:U\\
tune a.rrd -i x:Unknown
tune a.rrd -i x:UU
tune a.rrd -a x:5U
tune a.rrd -a x:5.5.5
tune a.rrd -a x:5x
tune a.rrd -h x:6e2
tune a.rrd --gamma 0.\"1
tune a.rrd --gamma 0
tune a.rrd --alpha 0.3x
tune a.rrd --alpha nan
tune a.rrd -n 0.5x
tune a.rrd -n 0.05
tune a.rrd -n x
tune a.rrd -d y:5m
tune a.rrd -d y:DERI,VE
tune a.rrd -d x:DERIVE,x
tune a.rrd -d x:COUNTER -d x:GAUGE
tune -junk.rrd -d y:GAUGE
update a.rrd 1000000600:inf:6
update a.rrd 1000000900:-inf:7
xport -s 1000000000 -e 1000000900 DEF:a=a.rrd:x:AVERAGE XPORT:a
xport -s 1000000000 -e 1000000900 --json DEF:a=a.rrd:x:AVERAGE XPORT:a
fetch a.rrd AVERAGE -s 1000000000 -e 1000000900
info a.rrd --noflush=
dump a.rrd --no-header=x
fetch a.rrd AVERAGE --align-start=
restore a.xml b.rrd --range-check=5
tune a.rrd RRA#
tune a.rrd RRA#0
tune a.rrd DELRRA:
first a.rrd --rraindex -1 -1
fetch a.rrd AVERAGE -s 1000000000 -e 1000000600 -r 1:2
fetch a.rrd AVERAGE -s 1000000000 -e 1000000600 -r 5m:2
fetch a.rrd AVERAGE -s 1000000000 -e 1000000600 -r :
create b.rrd --start 1000000000 --step 1:2 -r no.rrd DS:x:GAUGE:600:U:U RRA:AVERAGE:0.5:1:20
create b.rrd --start 1000000000 DS:x:GAUGE:600:U:U DS:x:FOO:600:U:U RRA:AVERAGE:0.5:1:20
xport -s 1000000000 -e 1000000600 DEF:a=a.rrd:x:AVERAGE XPORT:a#ff0000:text
xport -s 1000000000 -e 1000000600 DEF:a=a.rrd:x:AVERAGE XPORT:vname=a:legend=text
xport -s 1000000000 -e 1000000600 DEF:a=a.rrd:x:AVERAGE XPORT:a=b
xport -s 1000000000 -e 1000000600 DEF:step=300:a=a.rrd:ds=x:cf=AVERAGE XPORT:a
xport -s 1000000000 -e 1000000600 DEF:a=a.rrd:x:=FOO XPORT:a
xport -s 1000000000 -e 1000000600 DEF:a=a.rrd:x:step=q:FOO XPORT:a
";

/// Arguments of `xport` after one that reads `a.rrd` as `a`: words without a command, keys, words that are left over.
const ARGUMENTS: &str = "
X=PORT:
X=PORT:a
XPORT=:a
XPO=RT
=b:
f=oo:a:b
x=y:XPORT:a
foo\\:x:a
DEF::b=a.rrd:x:AVERAGE XPORT:b
DEF::b=a.rrd XPORT:b
DEF:::b=a.rrd:x:AVERAGE XPORT:b
DEF:: XPORT:a
DEF:foo XPORT:a
DEF:foo:x XPORT:a
DEF:foo:x:FOO XPORT:a
DEF:b=a.rrd:step=x XPORT:b
DEF:b=a.rrd:x:AVERAGE:step=300:step=600 XPORT:b
DEF:b=a.rrd:x:AVERAGE:start=q:reduce=x XPORT:b
DEF:b=a.rrd:x:AVERAGE:end=q:start=x XPORT:b
DEF:b=a.rrd:x:AVERAGE:daemon= XPORT:b
DEF:b=a.rrd:x:ds=AVERAGE XPORT:b
DEF:b=a.rrd:cf=AVERAGE:ds=x XPORT:b
DEF:ds=x:b=a.rrd:AVERAGE XPORT:b
DEF:vname=b:c=a.rrd:x:AVERAGE XPORT:b
DEF:vname=b:rrd=a.rrd:x:AVERAGE XPORT:b
DEF:rrd=a.rrd:b=c:x:AVERAGE XPORT:b
DEF:vname=b XPORT:a
DEF:start=q XPORT:a
DEF:b=a.rrd:x:FOO:start=1000000600:end=1000000300 XPORT:b
b=a.rrd:DEF:x:AVERAGE XPORT:b
CDEF:b=a,+
CDEF:b=a
CDEF:b=a,2
VDEF:b=a,MAXIMUM
CDEF::b=a XPORT:b
CDEF:b=a:c:d XPORT:b
CDEF:a=a:c:d XPORT:b
CDEF:b=a\\:y XPORT:b
CDEF:vname=b:a XPORT:b
CDEF:rpn=a:b=c XPORT:b
CDEF:vname=b XPORT:b
b=a:CDEF XPORT:b
VDEF:b=a,MAXIMUM: XPORT:a
VDEF::b=a,MAXIMUM XPORT:a
VDEF:b=a,FOO:x XPORT:a
VDEF:b=b,MAXIMUM XPORT:a
VDEF:a=a,MAXIMUM:x XPORT:a
VDEF:rpn=a,MAXIMUM:b XPORT:a
SHIFT:a:q:5 XPORT:a
SHIFT:b=a:0 XPORT:a
SHIFT:a:c=0 XPORT:a
SHIFT:0:vname=a XPORT:a
SHIFT:vname=a:shift=0 XPORT:a
VDEF:v=a,MAXIMUM SHIFT:v XPORT:a
SHIFT:a:a:5 XPORT:a
XPORT:a:legend=1:legend=2
XPORT:q:vname=a:b
XPORT:text:vname=a
legend=x:XPORT:a
XPORT:a:b=c:d
XPORT:a:b:c\\:d
DEF:b=a.rrd:x:AVERAGE:start=1000000600:end=1000000300 XPORT:b
";

#[test]
fn what_the_fuzzer_has_found_stays_equal() {
    let mut random = Random::new(1);
    for mode in [Mode::Alone, Mode::Pipe] {
        let mut sides = Sides::start(env!("CARGO_BIN_EXE_khz-rrd"), 1, mode);
        let xport = "xport -s 1000000000 -e 1000000600 DEF:a=a.rrd:x:AVERAGE";
        let exports = ARGUMENTS.trim().lines().map(|arguments| format!("{xport} {arguments}"));
        for line in COMMANDS.trim().lines().map(str::to_string).chain(exports) {
            let words: Vec<String> = line.split(' ').map(str::to_string).collect();
            if let Some(difference) = sides.compare(&words, &mut random) {
                panic!("{mode:?}: {line}\n{difference}");
            }
        }
        sides.remove();
    }
}

/// The third command lies 2,147,483,648 steps after the second.
const FAR: [&str; 3] = [
    "create a.rrd --start 1000000000 --step 1 DS:x:GAUGE:9000000000:U:U RRA:LAST:0.5:1:10 RRA:AVERAGE:0.5:4:10",
    "update a.rrd 1000000001:5",
    "update a.rrd 3147483649:7",
];

#[test]
fn steps_beyond_31_bits_are_counted_here_and_not_by_rrdtool() {
    let mut random = Random::new(1);
    let mut sides = Sides::start(env!("CARGO_BIN_EXE_khz-rrd"), 1, Mode::Alone);
    let mut compare = |line: &str| {
        let words: Vec<String> = line.split(' ').map(str::to_string).collect();
        sides.compare(&words, &mut random)
    };
    assert!(compare(FAR[0]).is_none());
    assert!(compare(FAR[1]).is_none());
    let update =
        compare(FAR[2]).expect("rrdtool's row of the far sample is right: docs/rrd.md says otherwise");
    assert_eq!(update.files(), ["a.rrd"]);
    let open_row = |outcome: &Outcome| {
        let bytes = outcome.files["a.rrd"].clone();
        let length = bytes.len() as u64;
        Header::parse(bytes, length, Path::new("a.rrd")).unwrap().cdp(1, 0, CDP_VALUE)
    };
    assert_eq!(open_row(&update.ours), 7.0);
    assert!(open_row(&update.theirs) < 1e-8, "{}", open_row(&update.theirs));
    sides.remove();
}
