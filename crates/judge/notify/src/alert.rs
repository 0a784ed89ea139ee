//! An alert as the judge passes it, and what is derived from its labels. It does not know where the alert goes.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::limits::{ALERT_BYTES_MAX, ALERT_LABELS_MAX};

/// Names with their texts.
pub type Labels = BTreeMap<String, String>;

/// The label that has the alert's name.
pub const ALERT_NAME: &str = "alertname";

/// An alert: one label set of a rule that fires, or has fired. Times are in ms since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alert {
    /// Its labels, which are its identity, with `alertname`.
    pub labels: Labels,
    /// Texts for people.
    pub annotations: Labels,
    /// When it began to fire.
    pub starts_at: i64,
    /// When it began to fire according to this hub's own evaluations, if several hubs judge the same rules; `None`: only another
    /// hub saw it.
    pub fired_here_at: Option<i64>,
    /// When it was last resolved before it became active again.
    pub ended_before: Option<i64>,
    /// When it was resolved; `None` while it fires.
    pub ends_at: Option<i64>,
    /// It is resolved at this hub only, and goes on at another one.
    pub went_on: bool,
    /// If several hubs judge the same rules: since when its message has waited (ms since 1970), at another hub or for that hub's
    /// word.
    pub waits_since: Option<i64>,
    /// Where people can see its expression; may be empty.
    pub generator_url: String,
}

impl Alert {
    /// True while it fires.
    pub fn is_firing(&self) -> bool {
        self.ends_at.is_none()
    }

    /// The name of its rule; empty if it has none.
    pub fn name(&self) -> &str {
        self.labels.get(ALERT_NAME).map_or("", String::as_str)
    }

    /// The same event, though its annotations may have changed.
    pub fn is_same_event(&self, other: &Alert) -> bool {
        self.ends_at == other.ends_at && (self.starts_at == other.starts_at || !self.is_firing())
    }

    /// Roughly the memory that it takes.
    pub fn bytes(&self) -> usize {
        let texts = self.labels.iter().chain(&self.annotations);
        let texts: usize = texts.map(|(name, value)| name.len() + value.len() + PAIR_BYTES).sum();
        texts + self.generator_url.len() + size_of::<Alert>()
    }

    /// True if it exceeds the size limit of alerts.
    pub fn is_too_large(&self) -> bool {
        self.labels.len() > ALERT_LABELS_MAX
            || self.annotations.len() > ALERT_LABELS_MAX
            || self.bytes() > ALERT_BYTES_MAX
    }

    /// The same, within the size limit of alerts. The longest annotations are cut, and say so.
    ///
    /// # Errors
    /// Returns what is too large, as a sentence. Labels are the alert's identity, so they are not cut.
    pub fn fitted(&self) -> Result<Cow<'_, Alert>, String> {
        if !self.is_too_large() {
            return Ok(Cow::Borrowed(self));
        }
        if self.labels.len() > ALERT_LABELS_MAX {
            return Err(format!(
                "it has {} labels, and at most {ALERT_LABELS_MAX} are sent",
                self.labels.len()
            ));
        }
        let mut alert = Alert { annotations: Labels::new(), ..self.clone() };
        if alert.is_too_large() {
            alert.generator_url.clear();
        }
        if alert.is_too_large() {
            let bytes = alert.bytes();
            return Err(format!("its labels have {bytes} bytes, and at most {ALERT_BYTES_MAX} are sent"));
        }
        alert.annotations = self.annotations.clone();
        if let Some(last) = alert.annotations.keys().nth(ALERT_LABELS_MAX - 1).cloned() {
            let beyond = alert.annotations.split_off(&last);
            if beyond.len() > 1 {
                alert.annotations.insert(last, format!("(cut: {} annotations)", beyond.len()));
            } else {
                alert.annotations.extend(beyond);
            }
        }
        while let Some(beyond) = alert.bytes().checked_sub(ALERT_BYTES_MAX).filter(|beyond| *beyond > 0) {
            cut_longest(&mut alert.annotations, beyond);
        }
        Ok(Cow::Owned(alert))
    }

    /// Alertmanager's hash of its labels with the external ones.
    pub fn fingerprint(&self, external: &Labels) -> u64 {
        number(with_external(&self.labels, external).into_iter())
    }
}

/// Alertmanager's hash of labels.
pub fn fingerprint(labels: &Labels) -> u64 {
    number(labels.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

/// FNV-1a of 64 bits over sorted labels.
fn number<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> u64 {
    const SEPARATOR: &[u8] = &[0xff];
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (name, value) in labels {
        for byte in [name.as_bytes(), SEPARATOR, value.as_bytes(), SEPARATOR].into_iter().flatten() {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

/// Cuts some bytes out of the longest annotation. If all texts are short, the annotation with the longest name is removed.
fn cut_longest(annotations: &mut Labels, bytes: usize) {
    let Some((name, text)) = annotations.iter_mut().max_by_key(|(_, text)| text.len()) else { return };
    let longest = name.clone();
    let left = (text.len().saturating_sub(bytes + CUT_NOTE_BYTES)..=text.len())
        .find(|&end| text.is_char_boundary(end));
    match left.filter(|left| left + CUT_NOTE_BYTES < text.len()) {
        Some(left) => *text = format!("{} (cut: {} bytes)", &text[..left], text.len() - left),
        None => {
            let longest = annotations.keys().max_by_key(|name| name.len()).cloned().unwrap_or(longest);
            annotations.remove(&longest);
        }
    }
}

/// Room for ` (cut: 18446744073709551615 bytes)`.
const CUT_NOTE_BYTES: usize = 40;

/// The memory of a pair of short texts beyond its letters.
const PAIR_BYTES: usize = 2 * size_of::<String>();

/// Labels with the external ones. The alert's own labels win.
pub fn with_external<'a>(labels: &'a Labels, external: &'a Labels) -> BTreeMap<&'a str, &'a str> {
    let all = external.iter().chain(labels);
    all.map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// An alert as the key of a table: two are the same if their labels are.
#[derive(Clone, Debug)]
pub(crate) struct ByLabels(pub Arc<Alert>);

impl PartialEq for ByLabels {
    fn eq(&self, other: &Self) -> bool {
        self.0.labels == other.0.labels
    }
}

impl Eq for ByLabels {}

impl Hash for ByLabels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.labels.hash(state);
    }
}

impl Borrow<Labels> for ByLabels {
    fn borrow(&self) -> &Labels {
        &self.0.labels
    }
}

/// An alert on its way to several ways: it is copied once if any of them keeps it.
pub(crate) struct Told<'a> {
    pub alert: &'a Alert,
    kept: Option<Arc<Alert>>,
}

impl<'a> Told<'a> {
    pub fn new(alert: &'a Alert) -> Self {
        Told { alert, kept: None }
    }

    pub fn keep(&mut self) -> Arc<Alert> {
        self.kept.get_or_insert_with(|| Arc::new(self.alert.clone())).clone()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_alert_of_any_size_fits_or_its_labels_are_too_much(
            (labels, annotations) in (0..200usize, 0..200usize),
            (name, label, text) in (0..2_000usize, 0..1_000usize, 0..80_000usize),
            url in 0..100_000usize,
        ) {
            // One of them is long, the others are short: the whole would take long.
            let texts = |count: usize, name: usize, text: usize| -> Labels {
                let long = |number: usize, length: usize| if number == 0 { length } else { length.min(500) };
                let pair = |number| (format!("{number:03}{}", "n".repeat(name)), "\u{20ac}".repeat(long(number, text) / 3));
                (0..count).map(pair).collect()
            };
            let (labels, annotations) = (texts(labels, 5, label), texts(annotations, name, text));
            let alert = Alert { labels, annotations, generator_url: "u".repeat(url), ..Alert::default() };
            let bare = Alert { annotations: Labels::new(), generator_url: String::new(), ..alert.clone() };
            match alert.fitted() {
                Ok(fitted) => {
                    prop_assert!(!fitted.is_too_large());
                    prop_assert_eq!(&fitted.labels, &alert.labels);
                    prop_assert_eq!(fitted.is_same_event(&alert), true);
                }
                Err(_) => prop_assert!(bare.is_too_large()),
            }
        }
    }

    #[test]
    fn the_longest_annotation_is_cut_and_says_so() {
        let texts = [("summary", "short".to_owned()), ("text", "x".repeat(100_000))];
        let annotations = texts.map(|(name, text)| (name.to_owned(), text)).into();
        let alert = Alert { annotations, ..Alert::default() };
        let fitted = alert.fitted().unwrap();
        assert_eq!(fitted.annotations["summary"], "short");
        let text = &fitted.annotations["text"];
        let (kept, cut) = text.split_once(" (cut: ").unwrap();
        assert!(text.len() > 60_000 && cut == format!("{} bytes)", 100_000 - kept.len()), "{}", text.len());
    }

    #[test]
    fn the_fingerprint_is_alertmanagers() {
        let labels = [("alertname", "khz_test"), ("node", "vm")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let alert = Alert { labels, ..Alert::default() };
        let external = [("cluster".to_owned(), "try".to_owned())].into();
        // What Debian's Alertmanager 0.25 has shown for them.
        assert_eq!(alert.fingerprint(&external), 0xc64c_4313_a220_32ec);
        // Of no labels: the start of FNV-1a, as Prometheus' common/model has it.
        assert_eq!(Alert::default().fingerprint(&Labels::new()), 14_695_981_039_346_656_037);
        assert_eq!(fingerprint(&alert.labels), alert.fingerprint(&Labels::new()));
    }

    #[test]
    fn an_alerts_own_labels_win_over_external_ones() {
        let own: Labels = [("a".to_owned(), "own".to_owned())].into();
        let external = [("a".to_owned(), "ext".to_owned()), ("b".to_owned(), "ext".to_owned())].into();
        let all: Vec<_> = with_external(&own, &external).into_iter().collect();
        assert_eq!(all, [("a", "own"), ("b", "ext")]);
    }
}
