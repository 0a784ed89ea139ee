//! Compares an answer with what an evaluation expects.

use std::collections::BTreeMap;

use khz_promql::{Answer, LabelSet, QueryError, Value};

use crate::samples;
use crate::script::{Eval, Said, When};
use crate::series::Point;

/// How far a value may be from the expected one, which is written with few digits.
const PART: f64 = 1e-6;

pub fn equal(one: f64, two: f64) -> bool {
    one == two || (one.is_nan() && two.is_nan()) || (one - two).abs() / (one.abs() + two.abs()) < PART
}

impl Said {
    fn fits(&self, sentence: &str) -> bool {
        match self {
            Said::Anything => true,
            Said::Exactly(text) => sentence == text,
            Said::Fits(regex) => regex.is_match(sentence),
        }
    }

    fn text(&self) -> String {
        match self {
            Said::Anything => String::from("anything"),
            Said::Exactly(text) => format!("{text:?}"),
            Said::Fits(regex) => format!("/{regex}/"),
        }
    }
}

fn sentences(sort: &str, expected: &[Said], none: bool, said: &[String]) -> Result<(), String> {
    if none && !said.is_empty() {
        return Err(format!("no {sort} expected: {said:?}"));
    }
    for expected in expected {
        if !said.iter().any(|sentence| expected.fits(sentence)) {
            return Err(format!("{sort} expected: {}, said: {said:?}", expected.text()));
        }
    }
    if let (false, Some(other)) = (
        expected.is_empty(),
        said.iter().find(|sentence| !expected.iter().any(|expected| expected.fits(sentence))),
    ) {
        return Err(format!("an unexpected {sort}: {other}"));
    }
    Ok(())
}

/// Fails with what is wrong.
pub fn check(eval: &Eval, answer: &Result<Answer, QueryError>) -> Result<(), String> {
    let answer = match (&eval.fails, answer) {
        (Some(_), Ok(answer)) => return Err(format!("it should fail, and gives {:?}", answer.value)),
        (Some(said), Err(error)) => {
            // Errors of the parser carry the name of the parameter, as in Prometheus' HTTP interface.
            return if said.fits(&error.to_string()) {
                Ok(())
            } else {
                Err(format!("it fails with {error:?}, expected: {}", said.text()))
            };
        }
        (None, Err(error)) => return Err(format!("it fails: {error}")),
        (None, Ok(answer)) => answer,
    };
    sentences("warning", &eval.warnings, eval.no_warning, &answer.warnings)?;
    sentences("info", &eval.infos, eval.no_info, &answer.infos)?;
    if let Some(text) = &eval.text {
        let right = matches!(&answer.value, Value::Text(_, other) if other == text);
        return if right { Ok(()) } else { Err(format!("{:?} instead of {text:?}", answer.value)) };
    }
    if let Some(value) = eval.scalar {
        let right = match (&answer.value, eval.when) {
            (Value::Scalar(_, other), _) => equal(*other, value),
            _ => false,
        };
        return if right { Ok(()) } else { Err(format!("{:?} instead of {value}", answer.value)) };
    }
    let got = samples(&answer.value);
    if eval.ordered && matches!(answer.value, Value::Vector(_)) {
        let expected: Vec<LabelSet> = eval.series.iter().map(|series| series.labels.clone()).collect();
        let order: Vec<LabelSet> = got.iter().map(|(labels, _)| labels.clone()).collect();
        if order != expected {
            return Err(format!("the order {order:?} instead of {expected:?}"));
        }
    }
    compare(&expected(eval), got)
}

/// The expected samples of each series.
fn expected(eval: &Eval) -> BTreeMap<LabelSet, Vec<(i64, f64)>> {
    let (start, step) = match (eval.times, eval.when) {
        (Some(times), _) => times,
        (None, When::Instant(time)) => (time, 1),
        (None, When::Range { start, step, .. }) => (start, step),
    };
    let mut all = BTreeMap::new();
    for series in &eval.series {
        let values = series.values.iter().enumerate().filter_map(|(at, point)| match point {
            Point::Value(value) => Some((start + at as i64 * step, *value)),
            _ => None,
        });
        let values: Vec<(i64, f64)> = values.collect();
        if !values.is_empty() {
            all.insert(series.labels.clone(), values);
        }
    }
    all
}

fn compare(
    expected: &BTreeMap<LabelSet, Vec<(i64, f64)>>,
    got: Vec<(LabelSet, Vec<(i64, f64)>)>,
) -> Result<(), String> {
    let count = got.len();
    let got: BTreeMap<LabelSet, Vec<(i64, f64)>> = got.into_iter().collect();
    if got.len() != count {
        return Err(format!("two series with the same labels: {got:?}"));
    }
    for (labels, samples) in &got {
        let Some(right) = expected.get(labels) else {
            return Err(format!("an unexpected series: {labels:?} {samples:?}\nexpected: {expected:?}"));
        };
        let same = samples.len() == right.len()
            && samples.iter().zip(right).all(|(one, two)| one.0 == two.0 && equal(one.1, two.1));
        if !same {
            return Err(format!("{labels:?}\n     is {samples:?}\nshould be {right:?}"));
        }
    }
    match expected.keys().find(|labels| !got.contains_key(labels)) {
        Some(missing) => Err(format!("missing: {missing:?} {:?}", expected[missing])),
        None => Ok(()),
    }
}

/// The step in the middle of a range must be what the query gives at that instant.
pub fn check_middle(
    eval: &Eval,
    time: i64,
    instant: &Result<Answer, QueryError>,
    range: Result<Answer, QueryError>,
) -> Result<(), String> {
    let (Ok(instant), None) = (instant, &eval.fails) else { return Ok(()) };
    let range = range.map_err(|error| error.to_string())?;
    let mut middle = Vec::new();
    for (labels, all) in samples(&range.value) {
        let here: Vec<(i64, f64)> = all.into_iter().filter(|(at, _)| *at == time).collect();
        if !here.is_empty() {
            middle.push((labels, here));
        }
    }
    compare(&samples(&instant.value).into_iter().collect(), middle)
}
