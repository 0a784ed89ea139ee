//! Templates by hand and random ones, expanded by this crate and by Prometheus' own package: the same text, or both fail.
//! Prometheus is built from its Go module; without Go, or without the modules that it needs, the test is skipped.

#![allow(clippy::unwrap_used)]

#[path = "templates/random.rs"]
mod random;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use khz_promql::{LabelSet, VectorSample};
use khz_rules::{Template, TemplateData};
use serde_json::json;

const MODULE: &str = "module templates\n\ngo 1.25.0\n\nrequire github.com/prometheus/prometheus v0.316.0\n";

/// How many random templates are compared; the variable `KHZ_TEMPLATES` has another number.
const RANDOM: u64 = 1_500;

/// The same of random formats; the variable `KHZ_FORMATS`.
const FORMATS: u64 = 4_000;

const NOW: i64 = 1_785_000_123_456;

fn build(folder: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(folder).unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/templates/main.go");
    std::fs::copy(&here, folder.join("main.go")).unwrap();
    std::fs::write(folder.join("go.mod"), MODULE).unwrap();
    let output = Command::new("go")
        .args(["build", "-mod=mod", "-o", "templates", "."])
        .current_dir(folder)
        .output()
        .map_err(|error| format!("the Go tool does not run: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "Prometheus' templates cannot be built: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(folder.join("templates"))
}

struct Prometheus {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

#[derive(Debug, serde::Deserialize)]
struct Answer {
    parses: bool,
    fails: bool,
    text: String,
    #[allow(dead_code)]
    error: String,
}

impl Prometheus {
    fn start() -> Result<Self, String> {
        let program = build(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("templates"))?;
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Ok(Prometheus { child, input, output })
    }

    fn expand(&mut self, text: &str, labels: &BTreeMap<String, String>, value: f64) -> Answer {
        let bits = format!("{:016x}", value.to_bits());
        writeln!(self.input, "{}", json!({"text": text, "labels": labels, "bits": bits, "now": NOW}))
            .unwrap();
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "Prometheus ended at {text:?}");
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn query(text: &str) -> Result<Vec<VectorSample>, String> {
    let sample = |a: &str, b: &str, value| VectorSample {
        labels: LabelSet::new([("__name__", "m"), ("a", a), ("b", b)]),
        time: NOW,
        value,
    };
    match text {
        "one" => Ok(vec![sample("x", "1", 1.5)]),
        "three" => Ok(vec![sample("z", "1", 3e6), sample("x", "2", -1.0), sample("y", "3", 0.0)]),
        "none" => Ok(Vec::new()),
        _ => Err(String::from("no such query")),
    }
}

fn labels() -> BTreeMap<String, String> {
    let all = [("instance", "node7.site.example:9100"), ("job", "node"), ("device", "sd<a>"), ("ä", "ö")];
    all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Whether it parses, and what it gives.
fn ours(text: &str, value: f64) -> (bool, Result<String, String>) {
    let template = Template::parse(text);
    let external =
        [("site", "south"), ("zone", "z<1>")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let data = TemplateData {
        labels: &LabelSet::new(labels()),
        external_labels: &BTreeMap::from(external),
        external_url: "http://hub.example:7070/khz?x=y",
        value,
        now: NOW,
        query: &query,
    };
    (template.fault().is_none(), template.expand("t", &data))
}

fn difference(prometheus: &mut Prometheus, text: &str, value: f64) -> Option<String> {
    let theirs = prometheus.expand(text, &labels(), value);
    let (parses, given) = ours(text, value);
    let is_same = match &given {
        _ if parses != theirs.parses => false,
        Ok(ours) => !theirs.fails && *ours == theirs.text,
        // A text has a limit here.
        Err(error) if error.contains("the text is longer than") => theirs.text.len() > 64 << 10,
        Err(_) => !parses || theirs.fails,
    };
    (!is_same).then(|| format!("{text:?} with {value}\n    ours   {given:?}\n    theirs {theirs:?}"))
}

/// Values that are worth a look.
const VALUES: [f64; 16] = [
    0.0,
    1.0,
    -1.0,
    0.123_456,
    12_345.678,
    1e6,
    123_456_789.0,
    1e21,
    1.785e9,
    0.000_012_3,
    86_461.5,
    999.96,
    1023.99,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];

#[test]
fn templates_by_hand_give_what_prometheus_gives() {
    let mut prometheus = match Prometheus::start() {
        Ok(prometheus) => prometheus,
        Err(reason) => return khz_skip::skip(reason),
    };
    let mut wrong = Vec::new();
    let texts = include_str!("templates/by_hand.txt").split("\n%%\n").filter(|text| !text.is_empty());
    let mut count = 0;
    for text in texts {
        count += 1;
        let values: &[f64] = if text.contains("alue") { &VALUES } else { &VALUES[3..4] };
        wrong.extend(values.iter().filter_map(|value| difference(&mut prometheus, text, *value)));
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.iter().take(60).cloned().collect::<Vec<_>>().join("\n")
    );
    assert!(count > 150, "{count} templates");
}

#[test]
fn random_templates_give_what_prometheus_gives() {
    compare("KHZ_TEMPLATES", RANDOM, random::Random::template);
}

#[test]
fn random_formats_give_what_prometheus_gives_also_where_they_do_not_fit_their_values() {
    compare("KHZ_FORMATS", FORMATS, random::Random::format);
}

/// Compares templates that are made at random: as many as say this variable or this number.
fn compare(variable: &str, most: u64, make: fn(&mut random::Random) -> String) {
    let mut prometheus = match Prometheus::start() {
        Ok(prometheus) => prometheus,
        Err(reason) => return khz_skip::skip(reason),
    };
    let number = |variable: &str| std::env::var(variable).ok()?.parse::<u64>().ok();
    let seed = number("KHZ_TEMPLATES_SEED").unwrap_or(1);
    let mut random = random::Random::new(seed);
    let (mut wrong, mut texts) = (Vec::new(), 0);
    for _ in 0..number(variable).unwrap_or(most) {
        let text = make(&mut random);
        let value = VALUES[random.below(VALUES.len() as u64) as usize];
        texts += usize::from(ours(&text, value).1.is_ok_and(|text| !text.is_empty()));
        wrong.extend(difference(&mut prometheus, &text, value));
    }
    assert!(
        wrong.is_empty(),
        "seed {seed}: {} differ:\n{}",
        wrong.len(),
        wrong.iter().take(20).cloned().collect::<Vec<_>>().join("\n")
    );
    assert!(texts > 300, "only {texts} templates gave a text");
}

#[test]
fn each_letter_has_the_large_and_the_small_one_that_prometheus_gives_it() {
    let mut prometheus = match Prometheus::start() {
        Ok(prometheus) => prometheus,
        Err(reason) => return khz_skip::skip(reason),
    };
    // Newer letters are not in each version of Unicode.
    let letters: Vec<char> = ('\u{80}'..'\u{a7b0}').chain('\u{fb00}'..'\u{ffdd}').collect();
    const NEW: [char; 5] = ['\u{19b}', '\u{264}', '\u{295}', '\u{1c89}', '\u{1c8a}'];
    let is_compared = |c: &char| c.is_alphabetic() && !NEW.contains(c);
    let letters: Vec<char> = letters.into_iter().filter(is_compared).collect();
    let mut wrong = Vec::new();
    for some in letters.chunks(256) {
        let words: String = some.iter().flat_map(|c| [*c, 'x', ' ']).collect();
        for function in ["toUpper", "toLower", "title"] {
            let text = format!("{{{{ {function} \"{words}\" }}}}");
            if difference(&mut prometheus, &text, 0.0).is_some() {
                let of_one =
                    |c: &char| difference(&mut prometheus, &format!("{{{{ {function} \"{c}x\" }}}}"), 0.0);
                wrong.extend(some.iter().filter_map(of_one));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(letters.len() > 30_000);
}
