//! The scripting language of Prometheus' tests: loads, evaluations and what they expect.

use regex::Regex;

use crate::series::{Point, Series, number, quoted, series};

pub enum Command {
    Clear,
    Load(Load),
    Eval(Box<Eval>),
}

/// Series, with values at this distance (ms) from time zero.
pub struct Load {
    pub step: i64,
    pub series: Vec<Series>,
    /// Classic histograms become native ones, too.
    pub native: bool,
}

#[derive(Clone, Copy)]
pub enum When {
    Instant(i64),
    Range { start: i64, end: i64, step: i64 },
}

/// How a sentence must be.
pub enum Said {
    Anything,
    Exactly(String),
    Fits(Regex),
}

/// An evaluation and what it expects.
pub struct Eval {
    pub line: usize,
    pub query: String,
    pub when: When,
    pub fails: Option<Said>,
    pub warnings: Vec<Said>,
    pub infos: Vec<Said>,
    pub no_warning: bool,
    pub no_info: bool,
    pub ordered: bool,
    pub text: Option<String>,
    pub scalar: Option<f64>,
    pub series: Vec<Series>,
    /// The times of a range that an instant query gives: the first one, and the distance.
    pub times: Option<(i64, i64)>,
}

impl Eval {
    /// It expects native histograms.
    pub fn histograms(&self) -> bool {
        self.series.iter().any(|series| series.values.contains(&Point::Histogram))
    }
}

/// A duration, or a number of seconds, in ms.
pub fn millis(text: &str) -> i64 {
    if let Ok(seconds) = text.parse::<f64>() {
        return (seconds * 1000.0).round() as i64;
    }
    let (negative, mut rest) = (text.starts_with('-'), text.trim_start_matches('-'));
    let mut all = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or_else(|| panic!("no unit: {text}"));
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        let unit = match &rest[digits..unit_end] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            "y" => 31_536_000_000,
            other => panic!("the unit {other:?} of {text}"),
        };
        all += rest[..digits].parse::<i64>().unwrap() * unit;
        rest = &rest[unit_end..];
    }
    if negative { -all } else { all }
}

/// The commands of a file. Comments are empty lines; an empty line ends a command.
pub fn commands(text: &str) -> Vec<Command> {
    let lines: Vec<&str> =
        text.lines().map(str::trim).map(|line| if line.starts_with('#') { "" } else { line }).collect();
    let load = Regex::new(r"^load(?:_(with_nhcb))?\s+(.+?)$").unwrap();
    let instant =
        Regex::new(r"^eval(?:_(fail|warn|ordered|info))?\s+instant\s+(?:at\s+(.+?))?\s+(.+)$").unwrap();
    let range =
        Regex::new(r"^eval(?:_(fail|warn|info))?\s+range\s+from\s+(.+)\s+to\s+(.+)\s+step\s+(.+?)\s+(.+)$")
            .unwrap();
    let mut all = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let (first, line) = (lines[at], at + 1);
        at += 1;
        if first.is_empty() {
            continue;
        }
        let mut body = Vec::new();
        if first != "clear" {
            while at < lines.len() && !lines[at].is_empty() {
                body.push(lines[at]);
                at += 1;
            }
        }
        if first == "clear" {
            all.push(Command::Clear);
        } else if let Some(found) = load.captures(first) {
            let series = body.iter().map(|line| series(line).unwrap_or_else(|| panic!("{line}"))).collect();
            all.push(Command::Load(Load { step: millis(&found[2]), series, native: found.get(1).is_some() }));
        } else if let Some(found) = instant.captures(first) {
            let when = When::Instant(found.get(2).map_or(0, |time| millis(time.as_str())));
            all.push(eval(line, &found[3], when, found.get(1).map_or("", |sort| sort.as_str()), &body));
        } else if let Some(found) = range.captures(first) {
            let when =
                When::Range { start: millis(&found[2]), end: millis(&found[3]), step: millis(&found[4]) };
            all.push(eval(line, &found[5], when, found.get(1).map_or("", |sort| sort.as_str()), &body));
        } else {
            panic!("line {line}: an unknown command: {first}");
        }
    }
    all
}

fn eval(line: usize, query: &str, when: When, sort: &str, body: &[&str]) -> Command {
    let mut eval = Eval {
        line,
        query: query.to_owned(),
        when,
        fails: (sort == "fail").then_some(Said::Anything),
        warnings: Vec::new(),
        infos: Vec::new(),
        no_warning: false,
        no_info: false,
        ordered: sort == "ordered",
        text: None,
        scalar: None,
        series: Vec::new(),
        times: None,
    };
    match sort {
        "warn" => eval.warnings.push(Said::Anything),
        "info" => eval.infos.push(Said::Anything),
        _ => {}
    }
    for line in body {
        if let Some(expected) = line.strip_prefix("expect ") {
            eval.expect(expected.trim());
        } else if let Some(text) = line.strip_prefix("expected_fail_message") {
            eval.fails = Some(Said::Exactly(text.trim().to_owned()));
        } else if let Some(text) = line.strip_prefix("expected_fail_regexp") {
            eval.fails = Some(Said::Fits(Regex::new(text.trim()).unwrap()));
        } else if let Some(value) = number(line) {
            eval.scalar = Some(value);
        } else {
            eval.series.push(series(line).unwrap_or_else(|| panic!("line {}: {line}", eval.line)));
        }
    }
    Command::Eval(Box::new(eval))
}

impl Eval {
    fn expect(&mut self, expected: &str) {
        let (sort, rest) = expected.split_once(char::is_whitespace).unwrap_or((expected, ""));
        let rest = rest.trim();
        let said = || match rest.split_once(':') {
            Some(("msg", text)) => Said::Exactly(text.trim().to_owned()),
            Some(("regex", text)) => Said::Fits(Regex::new(text.trim()).unwrap()),
            _ => Said::Anything,
        };
        match sort {
            "ordered" => self.ordered = true,
            "no_warn" => self.no_warning = true,
            "no_info" => self.no_info = true,
            "warn" => self.warnings.push(said()),
            "info" => self.infos.push(said()),
            "fail" => self.fails = Some(said()),
            "string" => self.text = quoted(rest).map(|(text, _)| text),
            "range" => {
                let words: Vec<&str> = rest.split_whitespace().collect();
                assert!(words.len() == 7 && words[0] == "vector", "{expected}");
                self.times = Some((millis(words[2]), millis(words[6])));
            }
            other => panic!("line {}: an unknown expectation: {other}", self.line),
        }
    }
}
