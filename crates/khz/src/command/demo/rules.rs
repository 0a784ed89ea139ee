//! The shipped rules (packaging/rules) as a demo uses them: the same expressions, with times so much shorter that alerts fire within a
//! tour of minutes. It evaluates none.

use std::path::Path;

use khz_model::Nanos;

/// The shipped files.
const SHIPPED: [(&str, &str); 6] = [
    ("exhaustion.yml", include_str!("../../../../../packaging/rules/exhaustion.yml")),
    ("filesystem.yml", include_str!("../../../../../packaging/rules/filesystem.yml")),
    ("hardware.yml", include_str!("../../../../../packaging/rules/hardware.yml")),
    ("khz.yml", include_str!("../../../../../packaging/rules/khz.yml")),
    ("node.yml", include_str!("../../../../../packaging/rules/node.yml")),
    ("peers.yml", include_str!("../../../../../packaging/rules/peers.yml")),
];

/// Five minutes of a rule are fifty seconds of a demo.
const PACE: f64 = 6.0;
/// A window has some rows, which come once a second.
const WINDOW_MIN: Nanos = Nanos::from_secs(3);
/// Keys whose values are times.
const KEYS: [&str; 3] = ["for: ", "keep_firing_for: ", "interval: "];

/// Writes the rules into a directory.
pub fn write(directory: &Path, speed: f64) -> std::io::Result<()> {
    std::fs::create_dir(directory)?;
    SHIPPED
        .iter()
        .try_for_each(|(name, text)| std::fs::write(directory.join(name), hurried(text, PACE * speed)))
}

/// The text with shorter times.
fn hurried(text: &str, pace: f64) -> String {
    text.lines().map(|line| hurried_line(line, pace) + "\n").collect()
}

fn hurried_line(line: &str, pace: f64) -> String {
    let indent = line.len() - line.trim_start_matches([' ', '-']).len();
    let (start, rest) = line.split_at(indent);
    if rest.starts_with('#') {
        return line.to_owned();
    }
    for key in KEYS {
        if let Some(time) = rest.strip_prefix(key) {
            return match shorter(time, pace, Nanos::from_millis(1)) {
                Some(time) => format!("{start}{key}{time}"),
                None => line.to_owned(),
            };
        }
    }
    windows(line, pace)
}

/// A line with shorter windows: `[5m]`, `[6h:10m]`.
fn windows(line: &str, pace: f64) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((inside, behind)) = after.split_once(']') else { break };
        let times: Option<Vec<String>> =
            inside.split(':').map(|time| shorter(time, pace, WINDOW_MIN)).collect();
        out.push_str(before);
        match times {
            Some(times) => out.push_str(&format!("[{}]", times.join(":"))),
            None => out.push_str(&format!("[{inside}]")),
        }
        rest = behind;
    }
    out + rest
}

/// A time in Prometheus' form, or `None` where this is none.
fn shorter(time: &str, pace: f64, least: Nanos) -> Option<String> {
    let time: Nanos = time.trim().parse().ok()?;
    let millis = (time.0 as f64 / 1e6 / pace).round().max(least.0 as f64 / 1e6);
    Some(format!("{millis}ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_rules_and_windows_of_expressions_are_shorter_and_nothing_else_changes() {
        let text = "\
- name: g # within [5m]
  interval: 15s
  rules:
  - alert: A
    # 32 of the 40 rows of [10m].
    expr: sum_over_time(x{n=~\"a[0-9]\"}[10m]) >= 32 and quantile_over_time(0.5, y[6h:10m]) < 4 * 3600
    for: 1m
    keep_firing_for: 5m
";
        let expected = "\
- name: g # within [50000ms]
  interval: 2500ms
  rules:
  - alert: A
    # 32 of the 40 rows of [10m].
    expr: sum_over_time(x{n=~\"a[0-9]\"}[100000ms]) >= 32 and quantile_over_time(0.5, y[3600000ms:100000ms]) < 4 * 3600
    for: 10000ms
    keep_firing_for: 50000ms
";
        assert_eq!(hurried(text, 6.0), expected);
        assert_eq!(hurried_line("x[1m]", 60.0), "x[3000ms]");
    }

    #[test]
    fn the_shipped_rules_are_all_here_and_are_rules_at_any_speed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/rules");
        let mut files: Vec<String> = std::fs::read_dir(root)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".yml"))
            .collect();
        files.sort();
        assert_eq!(files, SHIPPED.map(|(name, _)| name));
        let place = std::env::temp_dir().join(format!("khz-demo-rules-{}", std::process::id()));
        for speed in [1.0, 10.0] {
            write(&place, speed).unwrap();
            let set = khz_rules::RuleSet::load(std::slice::from_ref(&place));
            std::fs::remove_dir_all(&place).unwrap();
            assert!(set.unwrap().groups().any(|group| &*group.name == "peers"));
        }
    }
}
