//! Texts that are no queries, and queries that nobody would write: an answer or an error, never a panic, within the limits.

#[path = "beside/made_up.rs"]
mod made_up;
#[path = "beside/queries.rs"]
mod queries;
#[path = "beside/random.rs"]
mod random;

use std::time::Duration;

use khz_promql::{Engine, Limits, QueryError};
use proptest::prelude::*;
use random::Random;

/// Little of everything, so that a query that would take more fails.
fn engine() -> Engine {
    Engine::new(Limits {
        bytes: 32 << 20,
        samples: 10_000_000,
        time: Duration::from_secs(60),
        ..Limits::default()
    })
}

/// Answers a text at one time and over a range; what cannot be answered must be an error of the reader's, or a limit.
fn ask(store: &made_up::Store, text: &str, time: i64) {
    let engine = engine();
    let answers = [
        engine.query(store, text, time),
        engine.query_range(store, text, time, time.saturating_add(600_000), 60_000),
    ];
    for answer in answers {
        if let Err(QueryError::Internal(why)) = answer {
            panic!("{text}: {why}");
        }
    }
    let _ = khz_promql::format(text);
    let _ = khz_promql::selector(text);
}

/// A random query with some characters removed, doubled, exchanged or replaced.
fn mangled(random: &mut Random) -> String {
    let mut characters: Vec<char> = queries::query(random).text.chars().collect();
    let others = [
        '(', ')', '[', ']', '{', '}', '"', '\\', ':', '-', '@', '=', '~', ',', '0', 'e', 'x', 'ü', '\n', '#',
        '\0',
    ];
    for _ in 0..=random.below(4) {
        if characters.is_empty() {
            break;
        }
        let at = random.below(characters.len() as u64) as usize;
        let other = random.below(characters.len() as u64) as usize;
        match random.below(4) {
            0 => drop(characters.remove(at)),
            1 => characters.insert(at, characters[other]),
            2 => characters.swap(at, other),
            _ => characters[at] = others[random.below(others.len() as u64) as usize],
        }
    }
    characters.into_iter().collect()
}

proptest! {
    #[test]
    fn any_text_is_answered_or_refused(text in any::<String>(), time in any::<i64>()) {
        ask(&made_up::Store { series: Vec::new() }, &text, time);
    }

    #[test]
    fn texts_of_the_languages_own_characters_are_answered_or_refused(
        text in r#"[-+*/%^=!<>~@()\[\]{},:'"`#\\. a-f0-9smhdxoffset]{0,60}"#,
    ) {
        ask(&made_up::Store { series: Vec::new() }, &text, made_up::START);
    }

    #[test]
    fn random_queries_and_mangled_ones_are_answered_or_refused(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let store = made_up::store(&mut random);
        for _ in 0..4 {
            let query = queries::query(&mut random);
            ask(&store, &query.text, query.start.max(query.end - query.step));
            ask(&store, &mangled(&mut random), query.start);
        }
    }
}

#[test]
fn a_series_that_the_source_has_not_begun_is_an_error() {
    struct Wrong;
    impl khz_promql::Source for Wrong {
        fn select(
            &self,
            _: &khz_promql::Selection,
            sink: &mut dyn khz_promql::Sink,
        ) -> Result<Vec<String>, QueryError> {
            sink.samples(khz_promql::SeriesId(7), &[1], &[1.0])?;
            Ok(Vec::new())
        }

        fn series(
            &self,
            _: &[khz_promql::Matcher],
            _: i64,
            _: i64,
            _: usize,
        ) -> Result<(Vec<khz_promql::LabelSet>, bool), QueryError> {
            Ok((Vec::new(), false))
        }
    }
    for query in ["x", "x[1m]", "rate(x[1m])", "quantile_over_time(0.5, x[1m])"] {
        let error = engine().query(&Wrong, query, 1_000).unwrap_err();
        assert!(error.kind() == "internal" && error.to_string().contains("series 7"), "{query}: {error}");
    }
}

#[test]
fn a_deep_query_within_the_limit_fits_on_the_stack_of_a_thread() {
    let store = made_up::Store { series: Vec::new() };
    for text in [
        format!("{}1{}", "(".repeat(95), ")".repeat(95)),
        format!("{}x{}", "abs(".repeat(95), ")".repeat(95)),
        format!("1{}", "+1".repeat(95)),
        format!("x{}", " or x".repeat(95)),
        format!("{}x", "-".repeat(95)),
        format!("{}x{}", "sum(".repeat(95), ")".repeat(95)),
        format!("{}x{}", "max_over_time(".repeat(32), "[1m:30s])".repeat(32)),
    ] {
        let answer = engine().query(&store, &text, made_up::START);
        assert!(answer.is_ok(), "{text}: {answer:?}");
        assert!(khz_promql::format(&text).is_ok());
        // Others have more steps than a node takes, or what it does not know.
        let _ = khz_promql::compile(&text);
    }
}

#[test]
fn labels_that_are_made_of_themselves_do_not_grow_without_end() {
    let store = made_up::store(&mut Random::new(1));
    let joins = format!(
        "{}gauge{}",
        "label_join(".repeat(40),
        ", \"job\", \"\", \"job\", \"job\", \"job\")".repeat(40)
    );
    let replaces = format!(
        "{}gauge{}",
        "label_replace(".repeat(40),
        ", \"job\", \"$1$1$1\", \"job\", \"(.*)\")".repeat(40)
    );
    for text in [joins, replaces] {
        let error = engine().query(&store, &text, made_up::START + made_up::LENGTH).unwrap_err();
        assert!(error.kind() == "execution" && error.to_string().contains("makes a label"), "{error}");
    }
}

#[test]
fn queries_as_long_as_they_may_be_are_answered_or_refused() {
    let store = made_up::store(&mut Random::new(1));
    for (begin, repeated, end) in [
        ("sum by (", "a,", "a) (gauge)"),
        ("gauge + on (", "job,", "instance) gauge"),
        ("gauge * on (job, instance) group_left (", "x,", "y) gauge"),
        ("gauge{", "job!=\"x\",", "}"),
        ("label_join(gauge, \"a\", \"\"", ", \"job\"", ")"),
        ("", "9", ""),
        ("\"", "\\n", "\""),
        ("#", "x", "\n1"),
        ("label_replace(gauge, \"a\", \"", "$1", "\", \"job\", \"(.*)\")"),
    ] {
        let times = ((64 << 10) - 100) / repeated.len();
        let text = format!("{begin}{}{end}", repeated.repeat(times));
        ask(&store, &text, made_up::START + made_up::LENGTH);
    }
}
