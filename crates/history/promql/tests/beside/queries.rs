//! Random queries, most of them valid.

use crate::made_up::{LENGTH, START};
use crate::random::Random;

/// A query over a time; a step of 0 asks for one instant. Times are in ms.
#[derive(Debug)]
pub struct Query {
    pub start: i64,
    pub end: i64,
    pub step: i64,
    pub text: String,
}

pub fn query(random: &mut Random) -> Query {
    let start = START + random.below(LENGTH as u64 / 1_000) as i64 * 1_000 + i64::from(random.once_in(3)) * 7;
    let step = if random.once_in(3) {
        0
    } else {
        [1_000, 15_000, 60_000, 61_003, 300_000][random.below(5) as usize]
    };
    // Half of them do not end at a step: `@ end()` is the end all the same.
    let beyond = if random.once_in(2) { random.below(step.max(1) as u64) as i64 } else { 0 };
    let end = start + step * random.below(40) as i64 + beyond;
    let mut text = if random.once_in(12) { scalar(random, 3) } else { vector(random, 3) };
    // Prometheus moves `timestamp(x offset 7m @ 5)` twice by the offset.
    while text.contains("timestamp(") && text.contains(" @ ") {
        text = vector(random, 3);
    }
    Query { start, end, step, text }
}

fn selector(random: &mut Random) -> String {
    let names =
        ["requests_total", "bytes_total", "seconds", "gauge", "odd", "state", "latency_bucket", "nothing"];
    let matchers = [
        "",
        "",
        "",
        "{job=\"api\"}",
        "{instance!=\"a\"}",
        "{instance=~\"a|b\"}",
        "{job=~\"w.*\",instance=\"c\"}",
        "{kind!~\"y\"}",
        "{instance=\"\"}",
    ];
    if random.once_in(15) {
        return String::from(random.one(&[
            "{job=\"api\",kind=\"\"}",
            "{'job'='api',kind!~`y\\d`}",
            "{\"gauge\",instance=\"a\"}",
            "{\"odd.name\",\"a.b\"=\"c\\td\u{e9}\"}",
            "{__name__=~\".*_total\"}",
            "{instance=\"a\"}",
        ]));
    }
    format!("{}{}", random.one(&names), random.one(&matchers))
}

fn modifiers(random: &mut Random) -> String {
    let mut text = String::new();
    if random.once_in(8) {
        text += random.one(&[
            " offset 1m",
            " offset -1m",
            " offset 13s",
            " offset 7m",
            " offset 90s",
            " OFFSET 60",
            " offset -0s",
            " offset 4500000000ms",
        ]);
    }
    if random.once_in(10) {
        text += &match random.below(4) {
            0 => String::from(" @ start()"),
            1 => String::from(" @ end()"),
            2 if random.once_in(4) => {
                String::from(random.one(&[" @ -5", " @ 1_700_000_000", " @ 1.7e9", " @ 0x10"]))
            }
            _ => format!(" @ {}", (START + random.below(LENGTH as u64) as i64) as f64 / 1_000.0),
        };
    }
    text
}

fn range(random: &mut Random, depth: u32) -> String {
    let length = random.one(&["15s", "1m", "90s", "5m", "10m", "1h", "17s", "300", "1h0m1s"]);
    let tail = modifiers(random);
    if depth > 0 && random.once_in(5) {
        let step = random.one(&["", "15s", "1m", "37s"]);
        return format!("({})[{length}:{step}]{tail}", vector(random, depth - 1));
    }
    format!("{}[{length}]{tail}", selector(random))
}

pub fn scalar(random: &mut Random, depth: u32) -> String {
    if depth == 0 || random.once_in(3) {
        return match random.below(8) {
            0 => String::from("NaN"),
            1 => String::from("time()"),
            2 => format!("-{}", random.below(100)),
            3 => String::from(random.one(&[
                "5m", "1h30m", "90s", "1d", "250ms", "1h5m10s", "0s", "10080m", "8d", "1y", "-5m", "Inf",
                "-Inf", "inf", "0x1F", "1_000", "1e100", "1e-9", "2e21", "5.0", ".5", "NAN",
            ])),
            _ => format!("{}", random.below(1_000) as f64 / 100.0),
        };
    }
    match random.below(4) {
        0 => format!("scalar({})", vector(random, depth - 1)),
        1 => format!("({})", scalar(random, depth - 1)),
        // A `+` before an expression means nothing; the parser forgets it.
        2 => format!("{}{}", random.one(&["-", "- "]), scalar(random, depth - 1)),
        _ => {
            let operator = random.one(&["+", "-", "*", "/", "^", "atan2", "== bool", "> bool", "<= bool"]);
            format!("{} {operator} {}", scalar(random, depth - 1), scalar(random, depth - 1))
        }
    }
}

fn grouping(random: &mut Random) -> &'static str {
    random.one(&[
        "",
        " by (job)",
        " without (instance)",
        " by (job, instance)",
        " without (le)",
        " by (le)",
        " by (__name__)",
    ])
}

pub fn vector(random: &mut Random, depth: u32) -> String {
    if depth == 0 {
        let text = selector(random);
        return text + &modifiers(random);
    }
    let less = depth - 1;
    match random.below(14) {
        0 => {
            let text = selector(random);
            text + &modifiers(random)
        }
        1..=4 => {
            let function = random.one(&[
                "rate",
                "rate",
                "increase",
                "delta",
                "irate",
                "idelta",
                "deriv",
                "changes",
                "resets",
                "sum_over_time",
                "avg_over_time",
                "min_over_time",
                "max_over_time",
                "count_over_time",
                "last_over_time",
                "first_over_time",
                "present_over_time",
                "stddev_over_time",
                "stdvar_over_time",
                "absent_over_time",
            ]);
            format!("{function}({})", range(random, less))
        }
        5 => match random.below(2) {
            0 => format!("quantile_over_time({}, {})", phi(random), range(random, less)),
            _ => format!("predict_linear({}, {})", range(random, less), random.below(4_000)),
        },
        6 | 7 => {
            let operator = random.one(&["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"]);
            let grouping = grouping(random);
            format!("{operator}{grouping} ({})", vector(random, less))
        }
        8 => match random.below(3) {
            0 => format!("quantile{} ({}, {})", grouping(random), phi(random), vector(random, less)),
            // Ties would make either answer right: no series have the same value for ever.
            1 => format!(
                "{}({}, gauge{})",
                random.one(&["topk", "bottomk"]),
                random.below(5),
                modifiers(random)
            ),
            _ => format!("count_values{} (\"value\", state{})", grouping(random), modifiers(random)),
        },
        9 if random.once_in(3) => {
            // Of computed angles, the last digit decides where in the circle they are.
            let functions = [
                "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
                "atanh", "exp",
            ];
            format!("{}({}{})", random.one(&functions), random.one(&["state", "odd"]), modifiers(random))
        }
        9 => {
            let functions = [
                "abs",
                "ceil",
                "floor",
                "ln",
                "log2",
                "log10",
                "sqrt",
                "sgn",
                "deg",
                "rad",
                "timestamp",
                "absent",
                "histogram_count",
                "round",
            ];
            format!("{}({})", random.one(&functions), vector(random, less))
        }
        10 => match random.below(7) {
            // Dates that no whole number of seconds counts are whatever the processor makes of them.
            6 => {
                let parts = [
                    "day_of_week",
                    "day_of_month",
                    "day_of_year",
                    "days_in_month",
                    "hour",
                    "minute",
                    "month",
                    "year",
                ];
                format!("{}(gauge{} * 1e6)", random.one(&parts), modifiers(random))
            }
            0 => {
                format!("clamp({}, {}, {})", vector(random, less), scalar(random, less), scalar(random, less))
            }
            1 => format!("clamp_min({}, {})", vector(random, less), scalar(random, less)),
            2 => format!("round({}, {})", vector(random, less), scalar(random, 0)),
            3 => format!("label_replace({}, \"x\", \"$1-y\", \"instance\", \"(a|b)\")", vector(random, less)),
            4 => format!("label_join({}, \"x\", \"-\", \"job\", \"instance\")", vector(random, less)),
            _ => format!("vector({})", scalar(random, less)),
        },
        11 => match random.below(3) {
            0 => format!("histogram_fraction(0.2, {}, {})", random.below(3), buckets(random, less)),
            _ => format!("histogram_quantile({}, {})", phi(random), buckets(random, less)),
        },
        _ => {
            let (left, right) = (vector(random, less), vector(random, less));
            match random.below(6) {
                // Of computed operands, the last digit decides what is left.
                5 => format!("gauge % {}", random.one(&["7.5", "requests_total", "-3", "0"])),
                0 => format!(
                    "{left} {} {right}",
                    random.one(&[
                        "and",
                        "or",
                        "unless",
                        "and on (job)",
                        "or on (job)",
                        "unless ignoring (instance)"
                    ])
                ),
                1 => format!(
                    "({left}) {} {}",
                    random.one(&["+", "-", "*", "/", ">", "== bool"]),
                    scalar(random, less)
                ),
                2 => format!(
                    "{} {} ({right})",
                    scalar(random, less),
                    random.one(&["+", "-", "/", "<", "!= bool", "^"])
                ),
                _ => {
                    let operator =
                        random.one(&["+", "-", "*", "/", "^", "==", "!=", "<", ">=", "> bool", "atan2"]);
                    let matching = random.one(&[
                        "",
                        "",
                        "",
                        " on (job)",
                        " ignoring (instance)",
                        " on (job, instance)",
                        " on (job) group_left ()",
                        " on (job) group_right (instance)",
                        " ignoring (instance) group_left ()",
                    ]);
                    format!("({left}) {operator}{matching} ({right})")
                }
            }
        }
    }
}

fn phi(random: &mut Random) -> &'static str {
    random.one(&["0", "0.5", "0.9", "1", "0.37", "-1", "2", "NaN"])
}

fn buckets(random: &mut Random, depth: u32) -> String {
    match random.below(4) {
        0 => vector(random, depth),
        1 => String::from("sum by (le) (rate(latency_bucket[5m]))"),
        2 => String::from("rate(latency_bucket[1m])"),
        _ => String::from("latency_bucket"),
    }
}
