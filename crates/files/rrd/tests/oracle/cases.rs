//! Random databases and updates.
#![allow(dead_code, reason = "each test binary uses its part")]
use super::Random;

/// Arguments of `create`, without the file name, and what updates need to know.
#[derive(Debug, Clone)]
pub struct Database {
    pub arguments: Vec<String>,
    pub step: u64,
    pub start: u64,
    /// Kinds of the sources that take readings.
    pub kinds: Vec<&'static str>,
    pub names: Vec<String>,
}

const KINDS: [&str; 6] = ["GAUGE", "COUNTER", "DERIVE", "ABSOLUTE", "DCOUNTER", "DDERIVE"];
const PLAIN: [&str; 4] = ["AVERAGE", "MIN", "MAX", "LAST"];

pub fn database(random: &mut Random, forecasting: bool) -> Database {
    let step = *[1u64, 5, 60, 300].get(random.below(4) as usize).unwrap();
    let start = 1_000_000_000 + random.below(1_000_000);
    let mut arguments = vec!["--start".into(), start.to_string(), "--step".into(), step.to_string()];
    let sources = 1 + random.below(5);
    let (mut kinds, mut names) = (vec![], vec![]);
    for index in 0..sources {
        let name = format!("d{index}");
        if index > 0 && !forecasting && random.chance(20) {
            arguments.push(format!("DS:{name}:COMPUTE:{}", expression(random, &names)));
            names.push(name);
            continue;
        }
        let kind = KINDS[random.below(6) as usize];
        let heartbeat = step * (1 + random.below(4)) + random.below(step);
        let (min, max) = match random.below(4) {
            0 => ("0".to_string(), "U".to_string()),
            1 => (format!("-{}.5", random.below(1000)), format!("{}", 1 + random.below(1_000_000))),
            _ => ("U".into(), "U".into()),
        };
        arguments.push(format!("DS:{name}:{kind}:{heartbeat}:{min}:{max}"));
        kinds.push(kind);
        names.push(name);
    }
    // The forecasting archives name each other by place, counted from 1.
    for _ in 0..if forecasting { 0 } else { 1 + random.below(8) } {
        let function = PLAIN[random.below(4) as usize];
        let points = if random.chance(40) { 1 } else { 1 + random.below(12) };
        let xff = ["0", "0.1", "0.25", "0.5", "0.9", "0.99"][random.below(6) as usize];
        arguments.push(format!("RRA:{function}:{xff}:{points}:{}", 1 + random.below(20)));
    }
    if forecasting {
        arguments.extend(forecast(random, sources));
    }
    Database { arguments, step, start, kinds, names }
}

/// Holt-Winters archives: a lone forecast with its companions, before or after the plain ones.
fn forecast(random: &mut Random, _sources: u64) -> Vec<String> {
    let period = if random.chance(50) { 4 + random.below(12) } else { 40 + random.below(20) };
    let rows = period + random.below(20);
    let kind = if random.chance(50) { "HWPREDICT" } else { "MHWPREDICT" };
    let share = |random: &mut Random| format!("0.{}", 1 + random.below(98));
    let (alpha, beta) = (share(random), share(random));
    if random.chance(40) {
        return vec![format!("RRA:{kind}:{rows}:{alpha}:{beta}:{period}")];
    }
    // All five, spelt out, in any order: each names the others by their place.
    let mut order = [0usize, 1, 2, 3, 4];
    for index in (1..5).rev() {
        order.swap(index, random.below(index as u64 + 1) as usize);
    }
    let place = |which: usize| order.iter().position(|other| *other == which).unwrap() + 1;
    let window = |random: &mut Random| match random.below(3) {
        0 => String::new(),
        1 => ":smoothing-window=0".to_string(),
        _ => format!(":smoothing-window=0.{}", 1 + random.below(50)),
    };
    let (forecast, seasonal, deviation) = (place(0), place(1), place(2));
    order
        .iter()
        .map(|which| match which {
            0 => format!("RRA:{kind}:{rows}:{alpha}:{beta}:{period}:{seasonal}"),
            1 => format!("RRA:SEASONAL:{period}:{}:{forecast}{}", share(random), window(random)),
            2 => format!("RRA:DEVSEASONAL:{period}:{}:{forecast}{}", share(random), window(random)),
            3 => format!("RRA:DEVPREDICT:{rows}:{deviation}"),
            _ => format!("RRA:FAILURES:{period}:3:5:{deviation}"),
        })
        .collect()
}

fn expression(random: &mut Random, names: &[String]) -> String {
    let mut depth = 0;
    let mut words: Vec<String> = vec![];
    for _ in 0..2 + random.below(6) {
        if depth >= 2 && random.chance(50) {
            let binary =
                ["+", "-", "*", "/", "%", "MIN", "MAX", "LT", "GE", "EQ", "NE", "ADDNAN", "MINNAN", "MAXNAN"];
            words.push(random.pick(&binary).into());
            depth -= 1;
        } else if depth >= 1 && random.chance(30) {
            let unary = [
                "UN", "ISINF", "ABS", "FLOOR", "CEIL", "SQRT", "SIN", "COS", "ATAN", "DEG2RAD", "RAD2DEG",
                "EXP",
            ];
            words.push(random.pick(&unary).into());
        } else if depth >= 3 && random.chance(60) {
            words.push(random.pick(&["IF", "LIMIT"]).into());
            depth -= 2;
        } else {
            words.push(match random.below(10) {
                0 => "UNKN".into(),
                1 => "INF".into(),
                2 | 3 => format!("{}", random.below(2000) as i64 - 1000),
                _ => names[random.below(names.len() as u64) as usize].clone(),
            });
            depth += 1;
        }
    }
    if depth >= 2 && random.chance(40) {
        // One summary of everything that is left.
        words.push(depth.to_string());
        words.push(random.pick(&["AVG", "MEDIAN", "SMIN", "SMAX"]).into());
        depth = 1;
    }
    while depth > 1 {
        words.push("+".into());
        depth -= 1;
    }
    // A constant at the end must be followed by a comma.
    words.join(",") + ","
}

/// A reading for a source of `kind`; mostly sensible.
fn reading(random: &mut Random, kind: &str, counter: &mut u128) -> String {
    if random.chance(6) {
        return "U".into();
    }
    if random.chance(2) {
        let bad = ["x", "5x", "", "1.5", "-3", "nan", "inf", "-inf", "1e5", "0x10", "++5", "5 5", "U5"];
        return random.pick(&bad).replace(' ', "");
    }
    match kind {
        "COUNTER" | "DERIVE" => {
            match random.below(30) {
                0 => *counter = random.below(1000).into(),
                1 => *counter = u128::from(u32::MAX) - u128::from(random.below(5000)),
                2 => *counter = u128::from(u64::MAX) - u128::from(random.below(5000)),
                3 => *counter = u128::from(random.next()) * u128::from(random.next()) * 1000,
                _ => {
                    let size = 1 << (1 + random.below(24));
                    *counter += u128::from(random.below(size));
                }
            }
            if kind == "COUNTER" && random.chance(80) {
                // Wrap like the hardware does.
                if *counter > u128::from(u32::MAX) && random.chance(30) {
                    *counter %= 1 << 32;
                }
            }
            *counter %= 10u128.pow(30);
            let sign = if kind == "DERIVE" && random.chance(3) { "-" } else { "" };
            format!("{sign}{counter}")
        }
        _ => match random.below(6) {
            0 => format!("{}", random.below(100_000)),
            1 => format!("-{}.{}", random.below(1000), random.below(1000)),
            2 => format!("{}.{:06}", random.below(1_000_000), random.below(1_000_000)),
            3 => format!("{}e{}", random.below(1000), random.below(40) as i64 - 20),
            4 => format!("{}.{}", random.below(10), random.next()),
            _ => format!("{}", random.below(10)),
        },
    }
}

pub struct Feed {
    pub time: f64,
    counters: Vec<u128>,
}

impl Feed {
    pub fn new(database: &Database) -> Self {
        Self { time: database.start as f64, counters: vec![0; database.kinds.len()] }
    }

    /// The arguments of one `update` call.
    pub fn next(&mut self, random: &mut Random, database: &Database) -> Vec<String> {
        let count = if random.chance(80) { 1 } else { 1 + random.below(5) };
        (0..count).map(|_| self.sample(random, database)).collect()
    }

    /// The arguments of one call that is mostly in time and sensible, so that forecasts are made.
    pub fn steady(&mut self, random: &mut Random, database: &Database) -> Vec<String> {
        let count = if random.chance(80) { 1 } else { 1 + random.below(5) };
        let mut one = |random: &mut Random| {
            let step = database.step as f64;
            self.time += match random.below(40) {
                0 => step * (2.0 + random.below(9) as f64),
                1 => 2.0 * step,
                2 => step / 2.0,
                _ => step,
            };
            let mut text = format!("{:.1}", self.time);
            for index in 0..database.kinds.len() {
                let value = 100 + random.below(100);
                self.counters[index] += u128::from(value) * u128::from(database.step);
                let value = match database.kinds[index] {
                    _ if random.chance(4) => "U".to_string(),
                    "COUNTER" | "DERIVE" | "DCOUNTER" | "DDERIVE" => self.counters[index].to_string(),
                    "ABSOLUTE" => (value * database.step).to_string(),
                    _ => format!("{value}.{}", random.below(100)),
                };
                text.push(':');
                text.push_str(&value);
            }
            text
        };
        (0..count).map(|_| one(random)).collect()
    }

    fn sample(&mut self, random: &mut Random, database: &Database) -> String {
        let step = database.step as f64;
        let ahead = match random.below(20) {
            0 => step * random.below(60) as f64,
            1 => step * (5.0 + random.below(12) as f64) + random.below(database.step) as f64,
            2 => -step,
            3 => 0.0,
            4 | 5 => random.below(1 + database.step / 3) as f64,
            6..=9 => step,
            _ => random.below(2 * database.step + 1) as f64,
        };
        let mut time = self.time + ahead;
        let mut text = format!("{}", time.floor());
        if random.chance(25) {
            let micros = random.below(1_000_000);
            time = time.floor() + micros as f64 / 1e6;
            text = format!("{}.{micros:06}", time.floor());
        }
        if random.chance(1) {
            text = random.pick(&["", "x", "1e3", "nan", "5.", "99999999999999999999"]).into();
        } else if time > self.time {
            self.time = time;
        }
        let mut wanted = database.kinds.len();
        if random.chance(1) {
            wanted = random.below(wanted as u64 + 2) as usize;
        }
        for index in 0..wanted {
            text.push(':');
            let (kind, counter) = match database.kinds.get(index) {
                Some(kind) => (*kind, &mut self.counters[index]),
                None => ("GAUGE", &mut self.counters[0]),
            };
            text.push_str(&reading(random, kind, counter));
        }
        // A pipe has no empty arguments.
        if text.is_empty() { "x".into() } else { text }
    }
}
