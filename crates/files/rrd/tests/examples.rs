//! The examples of rrdtool's manual pages and tutorials, those without a picture, by rrdtool and by ours: output, exit
//! codes, and the bytes of the files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod oracle;
mod sides;

use oracle::Random;
use sides::{Mode, Sides};

/// rrdtutorial, "A real world example": the speed of a car, and its archives.
const TUTORIAL: &str = "
create test.rrd --start 920804400 DS:speed:COUNTER:600:U:U RRA:AVERAGE:0.5:1:24 RRA:AVERAGE:0.5:6:10
update test.rrd 920804700:12345 920805000:12357 920805300:12363
update test.rrd 920805600:12363 920805900:12363 920806200:12373
update test.rrd 920806500:12383 920806800:12393 920807100:12399
update test.rrd 920807400:12405 920807700:12411 920808000:12415
update test.rrd 920808300:12420 920808600:12422 920808900:12423
fetch test.rrd AVERAGE --start 920804400 --end 920809200
xport --start 920804400 --end 920808000 DEF:myspeed=test.rrd:speed:AVERAGE CDEF:realspeed=myspeed,1000,* XPORT:realspeed
xport --start 920804400 --end 920808000 DEF:myspeed=test.rrd:speed:AVERAGE CDEF:kmh=myspeed,3600,* CDEF:fast=kmh,100,GT,kmh,0,IF CDEF:good=kmh,100,GT,0,kmh,IF XPORT:good XPORT:fast
xport --start 920804400 --end 920808000 DEF:myspeed=test.rrd:speed:AVERAGE CDEF:nonans=myspeed,UN,0,myspeed,IF CDEF:kmh=nonans,3600,* CDEF:fast=kmh,100,GT,100,0,IF CDEF:over=kmh,100,GT,kmh,100,-,0,IF CDEF:good=kmh,100,GT,0,kmh,IF XPORT:good XPORT:fast XPORT:over
create all.rrd --start 978300900 DS:a:COUNTER:600:U:U DS:b:GAUGE:600:U:U DS:c:DERIVE:600:U:U DS:d:ABSOLUTE:600:U:U RRA:AVERAGE:0.5:1:10
update all.rrd 978301200:300:1:600:300 978301500:600:3:1200:600 978301800:900:5:1800:900 978302100:1200:3:2400:1200 978302400:1500:1:2400:1500 978302700:1800:2:1800:1800 978303000:2100:4:0:2100 978303300:2400:6:600:2400 978303600:2700:4:600:2700 978303900:3000:2:1200:3000
fetch all.rrd AVERAGE -s 978300600 -e 978304200
dump all.rrd
create seconds1.rrd --start 920804700 DS:seconds:COUNTER:600:U:U RRA:AVERAGE:0.5:1:24
update seconds1.rrd 920805000:000 920805300:300 920805600:600 920805900:900
create seconds2.rrd --start 920804700 DS:seconds:COUNTER:600:U:U RRA:AVERAGE:0.5:1:24
update seconds2.rrd 920805011:011 920805285:285 920805588:588 920805905:905
fetch seconds1.rrd AVERAGE -s 920804700 -e 920806200
fetch seconds2.rrd AVERAGE -s 920804700 -e 920806200
";

/// rrdcreate, with a start so that both begin at the same moment.
const CREATE: &str = "
create temperature.rrd --start 1000000000 --step 300 DS:temp:GAUGE:600:-273:5000 RRA:AVERAGE:0.5:1:1200 RRA:MIN:0.5:12:2400 RRA:MAX:0.5:12:2400 RRA:AVERAGE:0.5:12:2400
info temperature.rrd
create monitor.rrd --start 1000000000 --step 300 DS:ifOutOctets:COUNTER:1800:0:4294967295 RRA:AVERAGE:0.5:1:2016 RRA:HWPREDICT:1440:0.1:0.0035:288
info monitor.rrd
create monitor.rrd --start 1000000000 --step 5m DS:ifOutOctets:COUNTER:30m:0:4294967295 RRA:AVERAGE:0.5:1:2016 RRA:HWPREDICT:5d:0.1:0.0035:1d:3 RRA:SEASONAL:1d:0.1:2 RRA:DEVSEASONAL:1d:0.1:2 RRA:DEVPREDICT:5d:5 RRA:FAILURES:1d:7:9:5
info monitor.rrd
create proxy.rrd --start 1000000000 --step 300 DS:Requests:DERIVE:1800:0:U DS:Duration:DERIVE:1800:0:U DS:AvgReqDur:COMPUTE:Duration,Requests,0,EQ,1,Requests,IF,/ RRA:AVERAGE:0.5:1:2016
update proxy.rrd 1000000300:100:40 1000000600:200:90 1000000900:200:90 1000001200:350:300
fetch proxy.rrd AVERAGE -s 1000000000 -e 1000001200
create target.rrd --start 1023654125 --step 300 DS:mem:GAUGE:600:0:671744 RRA:AVERAGE:0.5:12:24 RRA:AVERAGE:0.5:288:31
create subdata.rrd -s 10 --start 1000000000 DS:ds0:GAUGE:5m:0:U RRA:AVERAGE:0.5:5m:300h RRA:AVERAGE:0.5:15m:300h RRA:AVERAGE:0.5:1h:50d RRA:MAX:0.5:1h:50d RRA:AVERAGE:0.5:1d:600d RRA:MAX:0.5:1d:600d
update subdata.rrd 1000000200:1 1000000500:2 1000000900:3 1000001300:4
fetch subdata.rrd AVERAGE -r 15m -s 1000000000 -e 1000003600
fetch subdata.rrd AVERAGE -a -r 15m -s 1000000000 -e 1000003600
fetch subdata.rrd AVERAGE -r 900 -e 1000003500 -s e-1h
";

/// rrdtune, rrdresize, rrddump, rrdrestore, rrdxport, rrdfirst, rrdlast, rrdlastupdate.
const CHANGE: &str = "
create data.rrd --start 1000000000 --step 300 DS:in:GAUGE:600:U:U DS:out:COUNTER:600:0:U RRA:AVERAGE:0.5:1:20 RRA:MAX:0.5:6:10
update data.rrd 1000000300:5:100 1000000600:7:400 1000000900:U:700 1000001200:9:900
tune data.rrd -h in:100000
tune data.rrd --minimum in:-10 --maximum in:1000
tune data.rrd --data-source-rename in:first
tune data.rrd --data-source-type out:DERIVE
info data.rrd
resize data.rrd 0 GROW 10
dump resize.rrd
dump data.rrd data.xml
restore data.xml copy.rrd
dump copy.rrd
restore -f -r data.xml copy.rrd
first data.rrd
first data.rrd --rraindex 1
last data.rrd
lastupdate data.rrd
xport -s 1000000000 -e 1000001200 DEF:out=data.rrd:first:AVERAGE 'XPORT:out:out bytes'
xport -s 1000000000 -e 1000001200 DEF:out1=data.rrd:first:AVERAGE DEF:out2=data.rrd:out:AVERAGE CDEF:sum=out1,out2,+ 'XPORT:out1:if1 out bytes' 'XPORT:out2:if2 out bytes' 'XPORT:sum:output sum'
xport --json -t -s 1000000000 -e 1000001200 DEF:xx=data.rrd:first:AVERAGE DEF:yy=data.rrd:out:AVERAGE CDEF:aa=xx,yy,+,8,* 'XPORT:xx:out bytes' 'XPORT:aa:in and out bits'
create new.rrd --source data.rrd --template data.rrd --start 1000001200
create new.rrd -s 300 -b 1000001200 -r data.rrd DS:renamed=first[1]:GAUGE:600:U:U RRA:AVERAGE:0.5:1:20
dump new.rrd
updatev data.rrd 1000001500:1:950
update data.rrd --template out:first 1000001800:1000:4
update data.rrd --skip-past-updates 1000001800:5:5 1000002100:6:1100
lastupdate data.rrd
";

/// rrdfetch, "AT-STYLE TIME SPECIFICATION": a file with a row for each day shows which day each time means.
const TIMES: &str = "
create days.rrd --start 1000000000 --step 86400 DS:x:GAUGE:600000:U:U RRA:LAST:0.5:1:4000
xport -s 'Oct 12 2026' -e s+3d DEF:a=days.rrd:x:LAST XPORT:a
xport -s -1month -e s+3d DEF:a=days.rrd:x:LAST XPORT:a
xport -s 'noon yesterday' -e s+3d DEF:a=days.rrd:x:LAST XPORT:a
xport -s -1week -e now DEF:a=days.rrd:x:LAST XPORT:a
xport -s -5mon1w2d -e s+3d DEF:a=days.rrd:x:LAST XPORT:a
xport -s '23:59 31.12.2025' -e s+3d DEF:a=days.rrd:x:LAST XPORT:a
xport -s '12/31/25' -e s+3d DEF:a=days.rrd:x:LAST XPORT:a
xport -s '31.12.2025' -e s+3d DEF:a=days.rrd:x:LAST XPORT:a
xport -s 19970703 -e s+2d DEF:a=days.rrd:x:LAST XPORT:a
xport -s '12:45 19970703' -e 'start+2d' DEF:a=days.rrd:x:LAST XPORT:a
xport -s end-3d -e 1190000000 DEF:a=days.rrd:x:LAST XPORT:a
xport -s 1100000000 -e 'start+1week' DEF:a=days.rrd:x:LAST XPORT:a
";

fn words(line: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            letter => words.last_mut().unwrap().push(letter),
        }
    }
    words
}

/// Every line of each text, alone and in the pipe.
fn same(number: u64, text: &str) {
    for mode in [Mode::Alone, Mode::Pipe] {
        let mut sides = Sides::start(env!("CARGO_BIN_EXE_khz-rrd"), number, mode);
        let mut random = Random::new(number);
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        for line in &lines {
            let is_known = |difference: &sides::Difference| {
                // rrdtool reads a period of "1d" as 1 point, and makes maxima of averages.
                let listed = ["RRA:HWPREDICT:5d:0.1:0.0035:1d:3", "--source data.rrd", "-r data.rrd"];
                difference.theirs.out == difference.ours.out
                    && difference.theirs.error == difference.ours.error
                    && listed.iter().any(|text| line.contains(text))
            };
            let difference = sides.compare(&words(line), &mut random);
            if let Some(difference) = difference.filter(|difference| !is_known(difference)) {
                panic!("{mode:?} in {}: {line}\n{difference}", sides.place());
            }
            sides.align();
        }
        sides.remove();
    }
}

#[test]
fn the_tutorials_examples_give_what_rrdtool_gives() {
    same(9001, TUTORIAL);
}

#[test]
fn the_examples_of_creating_give_what_rrdtool_gives() {
    same(9002, CREATE);
}

#[test]
fn the_examples_of_changing_and_reading_give_what_rrdtool_gives() {
    same(9003, CHANGE);
}

#[test]
fn the_examples_of_times_give_what_rrdtool_gives() {
    same(9004, TIMES);
}
