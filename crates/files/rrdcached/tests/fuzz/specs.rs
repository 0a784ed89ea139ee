//! Random definitions of data sources and archives: good ones, and every kind of wrong ones.

use super::oracle::Random;

pub fn source(random: &mut Random) -> String {
    let name =
        random.pick(&["x", "y", "z", "a-b", "", "a_very_long_name_of_a_source", "a.b", "ü", "x=y", "x=y[1]"]);
    match random.below(12) {
        0 => format!(
            "DS:{name}:COMPUTE:{}",
            random.pick(&["x,2,*", "x", "", "x,y,+", "q", "1", "x,TIME,+", "x,70000,*,"])
        ),
        1 => random
            .pick(&[
                "DS:",
                "DS",
                "DS:x",
                "DS:x:GAUGE",
                "DS:x:GAUGE:",
                "DS:x:GAUGE:5",
                "DS:x:GAUGE:5:U",
                "DS:x:GAUGE:5:U:U:U",
            ])
            .into(),
        _ => {
            let kind = random.pick(&[
                "GAUGE", "GAUGE", "COUNTER", "DERIVE", "ABSOLUTE", "DCOUNTER", "DDERIVE", "FOO", "gauge", "",
            ]);
            let heartbeat = random.pick(&["600", "600", "5m", "0", "x", "", "-1", "1d"]);
            let (min, max) = (
                random.pick(&["U", "U", "0", "-5.5", "x", "", "5"]),
                random.pick(&["U", "U", "100", "1e9", "x", "", "5"]),
            );
            format!("DS:{name}:{kind}:{heartbeat}:{min}:{max}")
        }
    }
}

pub fn archive(random: &mut Random) -> String {
    match random.below(14) {
        0 => random
            .pick(&[
                "RRA:",
                "RRA",
                "RRA:LAST",
                "RRA:LAST:0.5",
                "RRA:LAST:0.5:1",
                "RRA::::",
                "RRA:FOO:0.5:1:10",
                "RRA:LAST:0.5:1:10:9",
            ])
            .into(),
        1 => random
            .pick(&[
                "RRA:HWPREDICT:20:0.1:0.1:10",
                "RRA:MHWPREDICT:20:0.1:0.1:10",
                "RRA:HWPREDICT:5:0.1:0.1:10",
                "RRA:HWPREDICT:20:2:0.1:10",
                "RRA:SEASONAL:10:0.1:1",
                "RRA:DEVPREDICT:10:1",
                "RRA:FAILURES:10:7:9:1",
                "RRA:FAILURES:10:9:7:1",
            ])
            .into(),
        _ => {
            let function = random.pick(&["AVERAGE", "AVERAGE", "MIN", "MAX", "LAST", "last"]);
            let xff = random.pick(&["0.5", "0.5", "0", "0.999", "1", "-0.1", "x", ""]);
            let steps = random.pick(&["1", "1", "4", "0", "x", "1h", "5m", "", "6"]);
            let rows = random.pick(&["10", "10", "20", "1", "0", "x", "1d", "", "1h"]);
            format!("RRA:{function}:{xff}:{steps}:{rows}")
        }
    }
}
