//! "Did you mean": the known word nearest to a misspelt one. It refuses to guess when nothing is near.

/// Longest word to compare: a longer one is no typing mistake.
const WORD_MAX: usize = 64;

/// Most known words to compare with; search a longer list with a glob.
pub const KNOWN_MAX: usize = 4_096;

/// The known word that differs from `word` in the fewest letters, if at most a third of the letters differ. Small and capital
/// letters are alike, unless two words are equally near.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > WORD_MAX {
        return None;
    }
    let allowed = (word.chars().count() / 3).max(1);
    let small = word.to_lowercase();
    let is_near = |candidate: &&str| candidate.len().abs_diff(word.len()) <= 4 * allowed;
    known
        .into_iter()
        .filter(is_near)
        .take(KNOWN_MAX)
        .map(|candidate| (distance(&small, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(letters, candidate)| (*letters, distance(word, candidate)))
        .map(|(_, candidate)| candidate)
}

/// ` (did you mean 'listen'?)`, or nothing; append it to an error's sentence.
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default()
}

/// Letters to insert, remove, replace or swap with their neighbour (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last.get(j - 2).map_or(usize::MAX, |d: &usize| d + 1));
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn typing_mistakes_find_their_word() {
        let known = ["listen", "rate_max", "cpu_max", "window", "sources"];
        for (word, expected) in [
            ("listne", Some("listen")),
            ("lisen", Some("listen")),
            ("ratemax", Some("rate_max")),
            ("Window", Some("window")),
            ("CPU_MAX", Some("cpu_max")),
            ("LISEN", Some("listen")),
            ("source", Some("sources")),
            ("zebra", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"l".repeat(1_000), known), None);
    }

    #[test]
    fn a_third_of_the_letters_may_be_wrong_and_one_always_and_the_nearest_word_is_taken() {
        for (word, known, expected) in [
            ("ab", "cb", true),
            ("ab", "cd", false),
            ("abcdef", "xycdef", true),
            ("abcdef", "xyzdef", false),
            ("abcde", "abcdexx", false),
            ("äöü", "äöx", true),
        ] {
            assert_eq!(nearest(word, [known]).is_some(), expected, "{word} and {known}");
        }
        assert_eq!(
            nearest("NODE", ["nodE", "NODe", "node"]),
            Some("NODe"),
            "of several the one with the same letters"
        );
        assert_eq!(nearest("abcdef", ["xycdef", "xbcdef", "yxcdef"]), Some("xbcdef"));
        let longest = "w".repeat(WORD_MAX);
        assert_eq!(nearest(&longest, [&*longest]), Some(&*longest));
        assert_eq!(nearest(&format!("{longest}w"), [&*longest]), None);
        assert_eq!(
            (hint("lisen", ["listen"]).as_str(), hint("x", ["listen"]).as_str()),
            (" (did you mean 'listen'?)", "")
        );
    }

    /// The same distance, from the words' ends, without a table.
    fn steps(a: &[char], b: &[char]) -> usize {
        let (Some((x, a_rest)), Some((y, b_rest))) = (a.split_last(), b.split_last()) else {
            return a.len() + b.len();
        };
        let mut least =
            (steps(a_rest, b_rest) + usize::from(x != y)).min(steps(a_rest, b) + 1).min(steps(a, b_rest) + 1);
        if let (Some((before_x, a_rest)), Some((before_y, b_rest))) =
            (a_rest.split_last(), b_rest.split_last())
            && (x, before_x) == (before_y, y)
        {
            least = least.min(steps(a_rest, b_rest) + 1);
        }
        least
    }

    proptest! {
        #[test]
        fn the_distance_is_the_fewest_steps_from_word_to_word(a in "[abc]{0,5}", b in "[abc]{0,5}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(distance(&a, &b), steps(&chars(&a), &chars(&b)), "{} and {}", a, b);
        }
    }
}
