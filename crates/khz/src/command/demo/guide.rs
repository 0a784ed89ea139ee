//! The tour on the terminal: a line when something happens, with what to click and what to type, and a line when an alert fires.
//! It makes nothing happen.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use khz_http::{Stop, Tour};
use khz_model::fold::fold;
use khz_rules::{AlertState, Board};

/// Pause between two checks of what is due.
const CHECK: Duration = Duration::from_millis(200);
/// Alerts that are told; the page and `khz alerts` have all.
const ALERTS_TOLD_MAX: usize = 4_096;

/// What the lines need.
pub struct Guide {
    /// What happens when.
    pub tour: Arc<Tour>,
    /// Where alerts stand.
    pub rules: Arc<Board>,
    /// The page: `http://127.0.0.1:7070`.
    pub url: String,
    /// How the program was started, for lines that people copy.
    pub program: String,
}

impl Guide {
    /// Tells until the end.
    pub fn run(&self, stop: &AtomicBool) {
        let mut told = HashSet::new();
        let mut next = 0;
        while !stop.load(Ordering::Relaxed) {
            let now = self.tour.lasted().unwrap_or_default();
            while let Some(due) = self.tour.stops().get(next).filter(|due| due.at <= now) {
                say(&self.about(due));
                next += 1;
            }
            self.tell_alerts(&mut told, now);
            std::thread::sleep(CHECK);
        }
    }

    /// What is said of a stop.
    fn about(&self, stop: &Stop) -> String {
        let Guide { url, program, .. } = self;
        let Stop { at, title, text, view, command } = stop;
        format!(
            "{}  {title}\n       {text}\n       page      {url}/?tour#{view}\n       terminal  {program} {command} --server {url}\n",
            clock(*at)
        )
    }

    /// Alerts that fire for the first time: a line for each rule, with the nodes.
    fn tell_alerts(&self, told: &mut HashSet<(String, String)>, now: Duration) {
        let standing = self.rules.standing();
        let alerts = standing.groups.iter().flat_map(|group| &group.rules).flat_map(|rule| &rule.alerts);
        let mut new: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for alert in alerts.filter(|alert| alert.state == AlertState::Firing) {
            let label = |name: &str| alert.labels.get(name).to_owned();
            let (rule, node) = (label(khz_rules::ALERT_NAME), label("instance"));
            if told.len() < ALERTS_TOLD_MAX && told.insert((rule.clone(), node.clone())) {
                new.entry(rule).or_default().push(node);
            }
        }
        for (rule, nodes) in new {
            say(&format!("{}  alert {rule} fires: {}", clock(now), fold(&nodes)));
        }
    }
}

/// Minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

/// The demo goes on where nobody reads its lines.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_says_what_to_click_and_what_to_type() {
        let (rules, url, program) = (Arc::default(), "http://127.0.0.1:7070".to_owned(), "./khz".to_owned());
        let guide = Guide { tour: Arc::default(), rules, url, program };
        let text = |text: &str| text.to_owned();
        let at = Duration::from_secs(100);
        let stop = Stop {
            at,
            title: text("n1 dies"),
            text: text("It is down."),
            view: text("node=n1"),
            command: text("nodes --down"),
        };
        let expected = "\
01:40  n1 dies
       It is down.
       page      http://127.0.0.1:7070/?tour#node=n1
       terminal  ./khz nodes --down --server http://127.0.0.1:7070
";
        assert_eq!(guide.about(&stop), expected);
    }
}
